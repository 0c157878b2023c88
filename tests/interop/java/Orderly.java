import java.util.ArrayList;
import java.util.List;
import java.util.Map;
import java.util.concurrent.ConcurrentHashMap;
import java.util.stream.IntStream;
import org.apache.rocketmq.client.consumer.DefaultMQPushConsumer;
import org.apache.rocketmq.client.consumer.listener.ConsumeOrderlyStatus;
import org.apache.rocketmq.client.consumer.listener.MessageListenerOrderly;
import org.apache.rocketmq.client.producer.DefaultMQProducer;
import org.apache.rocketmq.common.consumer.ConsumeFromWhere;
import org.apache.rocketmq.common.message.Message;
import org.apache.rocketmq.common.message.MessageExt;

/**
 * Two orderly consumers of one group share the queues and get each queue's messages in the order of their
 * offsets. The sending starts when both hold queues, so that none passes from one to the other meanwhile.
 *
 * <p>Arguments: name server, topic (it must exist), COUNT.
 */
public final class Orderly {
    private Orderly() {
    }

    public static void main(String[] arguments) throws Exception {
        String namesrv = arguments[0];
        String topic = arguments[1];
        int count = Integer.parseInt(arguments[2]);
        List<String> keys = IntStream.range(0, count).mapToObj(i -> TestMessage.key("orderly", i)).toList();
        Received received = new Received(keys);
        Map<Integer, List<Long>> offsets = new ConcurrentHashMap<>();
        List<DefaultMQPushConsumer> consumers = new ArrayList<>();
        for (String name : List.of("one", "two")) {
            consumers.add(start(namesrv, topic, name, message -> {
                offsets.computeIfAbsent(message.getQueueId(), queueId -> new ArrayList<>())
                        .add(message.getQueueOffset());
                received.take(message);
            }));
        }
        boolean shared = awaitShare(consumers, topic);

        DefaultMQProducer producer = Patience.patient(new DefaultMQProducer("send-" + topic));
        producer.setNamesrvAddr(namesrv);
        producer.start();
        for (int i = 0; i < count; i++) {
            Message message = TestMessage.make(topic, "orderly", i);
            producer.send(message, (queues, sent, hash) -> queues.get((int) hash % queues.size()), i % 7);
        }
        received.await(Patience.WAIT_S);
        consumers.forEach(DefaultMQPushConsumer::shutdown);
        producer.shutdown();
        received.print("orderly");
        List<Integer> disordered = offsets.keySet().stream()
                .filter(queueId -> !isSorted(offsets.get(queueId))).toList();
        Lines.print("shared", shared, "queues", offsets.size(), "disordered", disordered);
    }

    private interface Taker {
        void take(MessageExt message);
    }

    private static DefaultMQPushConsumer start(String namesrv, String topic, String name, Taker taker)
            throws Exception {
        DefaultMQPushConsumer consumer = Patience.patient(new DefaultMQPushConsumer("orderly-" + topic));
        consumer.setNamesrvAddr(namesrv);
        consumer.setInstanceName(name);
        consumer.setConsumeFromWhere(ConsumeFromWhere.CONSUME_FROM_FIRST_OFFSET);
        consumer.subscribe(topic, "*");
        consumer.registerMessageListener((MessageListenerOrderly) (messages, context) -> {
            messages.forEach(taker::take);
            return ConsumeOrderlyStatus.SUCCESS;
        });
        consumer.start();
        return consumer;
    }

    /** Waits until each consumer holds its half of the queues; a rebalance may come as late as after 20 s. */
    private static boolean awaitShare(List<DefaultMQPushConsumer> consumers, String topic) throws Exception {
        int half = consumers.get(0).fetchSubscribeMessageQueues(topic).size() / 2;
        long deadline = System.nanoTime() + Patience.WAIT_S * 1_000_000_000;
        while (System.nanoTime() < deadline) {
            if (consumers.stream().allMatch(consumer -> queuesHeld(consumer, topic) == half)) {
                return true;
            }
            Thread.sleep(50);
        }
        return false;
    }

    private static long queuesHeld(DefaultMQPushConsumer consumer, String topic) {
        return consumer.getDefaultMQPushConsumerImpl().getRebalanceImpl().getProcessQueueTable().entrySet().stream()
                .filter(entry -> entry.getKey().getTopic().equals(topic) && entry.getValue().isLocked()).count();
    }

    private static boolean isSorted(List<Long> offsets) {
        return IntStream.range(1, offsets.size()).allMatch(i -> offsets.get(i - 1) < offsets.get(i));
    }
}
