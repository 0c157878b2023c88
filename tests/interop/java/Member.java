import java.util.ArrayList;
import java.util.List;
import java.util.Set;
import java.util.concurrent.ConcurrentHashMap;
import java.util.concurrent.ConcurrentSkipListSet;
import java.util.concurrent.CountDownLatch;
import java.util.concurrent.TimeUnit;
import org.apache.rocketmq.client.consumer.AllocateMessageQueueStrategy;
import org.apache.rocketmq.client.consumer.DefaultMQPushConsumer;
import org.apache.rocketmq.client.consumer.listener.ConsumeConcurrentlyStatus;
import org.apache.rocketmq.client.consumer.listener.ConsumeOrderlyStatus;
import org.apache.rocketmq.client.consumer.listener.MessageListenerConcurrently;
import org.apache.rocketmq.client.consumer.listener.MessageListenerOrderly;
import org.apache.rocketmq.client.consumer.rebalance.AllocateMessageQueueAveragely;
import org.apache.rocketmq.client.consumer.rebalance.AllocateMessageQueueAveragelyByCircle;
import org.apache.rocketmq.client.consumer.rebalance.AllocateMessageQueueConsistentHash;
import org.apache.rocketmq.common.consumer.ConsumeFromWhere;
import org.apache.rocketmq.common.message.MessageExt;

/**
 * One member of a group whose other members are not Java's. It leaves when it has had the body "end" from as
 * many queues as it was told, and prints what it is called, which queues messages came from, and the bodies.
 *
 * <p>Arguments: name server, topic, group, number of queues, "ordered" or "concurrent", how queues are divided,
 * client id.
 */
public final class Member {
    private final Set<Integer> queues = new ConcurrentSkipListSet<>();
    private final Set<Integer> ended = ConcurrentHashMap.newKeySet();
    private final List<String> bodies = new ArrayList<>();
    private final CountDownLatch ends;

    private Member(int count) {
        ends = new CountDownLatch(count);
    }

    public static void main(String[] arguments) throws Exception {
        Member member = new Member(Integer.parseInt(arguments[3]));
        DefaultMQPushConsumer consumer = Patience.patient(new DefaultMQPushConsumer(arguments[2]));
        consumer.setNamesrvAddr(arguments[0]);
        consumer.setConsumeFromWhere(ConsumeFromWhere.CONSUME_FROM_FIRST_OFFSET);
        consumer.setAllocateMessageQueueStrategy(strategy(arguments[5]));
        String[] client = arguments[6].split("@");
        consumer.setClientIP(client[0]);
        consumer.setInstanceName(client[1]);
        consumer.subscribe(arguments[1], "*");
        if (arguments[4].equals("ordered")) {
            consumer.registerMessageListener((MessageListenerOrderly) (messages, context) -> {
                messages.forEach(member::take);
                return ConsumeOrderlyStatus.SUCCESS;
            });
        } else {
            consumer.registerMessageListener((MessageListenerConcurrently) (messages, context) -> {
                messages.forEach(member::take);
                return ConsumeConcurrentlyStatus.CONSUME_SUCCESS;
            });
        }
        consumer.start();
        String clientId = consumer.getDefaultMQPushConsumerImpl().getmQClientFactory().getClientId();
        member.ends.await(Patience.WAIT_S, TimeUnit.SECONDS);
        consumer.shutdown();
        Lines.print("clientId", clientId, "queues", member.queues, "bodies", member.bodies);
    }

    private static AllocateMessageQueueStrategy strategy(String name) {
        return switch (name) {
            case "averagely" -> new AllocateMessageQueueAveragely();
            case "by_circle" -> new AllocateMessageQueueAveragelyByCircle();
            case "consistent_hash" -> new AllocateMessageQueueConsistentHash();
            default -> throw new IllegalArgumentException(name);
        };
    }

    private synchronized void take(MessageExt message) {
        queues.add(message.getQueueId());
        bodies.add(new String(message.getBody()));
        if (new String(message.getBody()).equals("end") && ended.add(message.getQueueId())) {
            ends.countDown();
        }
    }
}
