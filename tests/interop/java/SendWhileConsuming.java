import java.util.ArrayList;
import java.util.List;
import java.util.Set;
import java.util.TreeSet;
import java.util.stream.IntStream;
import org.apache.rocketmq.client.consumer.DefaultMQPushConsumer;
import org.apache.rocketmq.client.consumer.listener.ConsumeConcurrentlyStatus;
import org.apache.rocketmq.client.consumer.listener.MessageListenerConcurrently;
import org.apache.rocketmq.client.producer.DefaultMQProducer;
import org.apache.rocketmq.common.consumer.ConsumeFromWhere;

/**
 * Sends COUNT messages, one each few milliseconds, while a push consumer receives them; both look at the
 * route each second, so that the topic can be changed meanwhile.
 *
 * <p>Arguments: name server, topic, COUNT.
 */
public final class SendWhileConsuming {
    private static final long PAUSE_MS = 5;

    private SendWhileConsuming() {
    }

    public static void main(String[] arguments) throws Exception {
        String topic = arguments[1];
        int count = Integer.parseInt(arguments[2]);
        Received received = new Received(IntStream.range(0, count).mapToObj(i -> TestMessage.key("s", i)).toList());
        DefaultMQPushConsumer consumer = Patience.patient(new DefaultMQPushConsumer("consume-" + topic));
        consumer.setNamesrvAddr(arguments[0]);
        consumer.setConsumeFromWhere(ConsumeFromWhere.CONSUME_FROM_FIRST_OFFSET);
        consumer.setPollNameServerInterval(1000);
        consumer.setPersistConsumerOffsetInterval(1000);
        consumer.subscribe(topic, "*");
        consumer.registerMessageListener((MessageListenerConcurrently) (messages, context) -> {
            messages.forEach(received::take);
            return ConsumeConcurrentlyStatus.CONSUME_SUCCESS;
        });
        consumer.start();
        DefaultMQProducer producer = Patience.patient(new DefaultMQProducer("send-" + topic));
        producer.setNamesrvAddr(arguments[0]);
        producer.setPollNameServerInterval(1000);
        producer.start();
        List<String> failed = new ArrayList<>();
        Set<Integer> firstQueues = new TreeSet<>();
        Set<Integer> lastQueues = new TreeSet<>();
        for (int i = 0; i < count; i++) {
            try {
                int queueId = producer.send(TestMessage.make(topic, "s", i)).getMessageQueue().getQueueId();
                (i < count / 2 ? firstQueues : lastQueues).add(queueId);
                if (i < count * 3 / 4) {
                    lastQueues.clear();
                }
            } catch (Exception exception) {
                failed.add(exception.toString());
            }
            Thread.sleep(PAUSE_MS);
        }
        received.await(Patience.WAIT_S);
        consumer.shutdown();
        producer.shutdown();
        Lines.print("failed", Received.few(failed), "firstQueues", firstQueues, "lastQueues", lastQueues);
        received.print("push");
    }
}
