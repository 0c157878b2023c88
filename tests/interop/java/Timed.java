import java.util.Collection;
import java.util.List;
import java.util.concurrent.ConcurrentHashMap;
import java.util.stream.IntStream;
import org.apache.rocketmq.client.consumer.DefaultMQPushConsumer;
import org.apache.rocketmq.client.consumer.listener.ConsumeConcurrentlyStatus;
import org.apache.rocketmq.client.consumer.listener.MessageListenerConcurrently;
import org.apache.rocketmq.client.producer.DefaultMQProducer;
import org.apache.rocketmq.common.consumer.ConsumeFromWhere;
import org.apache.rocketmq.common.message.Message;
import org.apache.rocketmq.common.message.MessageExt;

/**
 * A producer sends COUNT messages that ask for a time, and a push consumer gets them.
 *
 * <p>They are due WAIT_MS from now, and some up to four seconds later; they ask for it in each of the ways that
 * there are. As "leave" the producer goes and nobody consumes; as "finish" a consumer comes, and nothing is sent.
 *
 * <p>Arguments: name server, topic, COUNT, WAIT_MS, "all" or "leave" or "finish".
 */
public final class Timed {
    private static final String DUE = "due";
    private static final int STEPS = 5;
    /** A broker rounds down to the second, and one that is due at a full second comes in the second before. */
    private static final long EARLY_MS = 1_000;
    private static final Collection<String> EARLY = ConcurrentHashMap.newKeySet();

    private Timed() {
    }

    public static void main(String[] arguments) throws Exception {
        String namesrv = arguments[0];
        String topic = arguments[1];
        int count = Integer.parseInt(arguments[2]);
        long waitMs = Long.parseLong(arguments[3]);
        String role = arguments[4];
        DefaultMQProducer producer = Patience.patient(new DefaultMQProducer("timed-" + topic));
        producer.setNamesrvAddr(namesrv);
        producer.start();
        if (role.equals("finish")) {
            producer.send(TestMessage.make(topic + "Hello", "hello", 0));
        } else {
            for (int i = 0; i < count; i++) {
                producer.send(message(topic, i, waitMs + i % STEPS * 1_000L));
            }
        }
        if (!role.equals("leave")) {
            List<String> keys = IntStream.range(0, count).mapToObj(i -> TestMessage.key("timed", i)).toList();
            Received received = new Received(keys);
            DefaultMQPushConsumer consumer = consumer(namesrv, topic, received);
            received.await(Patience.WAIT_S);
            consumer.shutdown();
            received.print("timed");
        }
        producer.shutdown();
        printEarly();
    }

    /** Prints which messages came too early. */
    static void printEarly() {
        Lines.print("early", Received.few(EARLY));
    }

    static Message message(String topic, int number, long waitMs) {
        Message message = TestMessage.make(topic, "timed", number);
        long due = System.currentTimeMillis() + waitMs;
        message.putUserProperty(DUE, Long.toString(due));
        switch (number % 3) {
            case 0 -> message.setDelayTimeMs(waitMs);
            case 1 -> message.setDelayTimeSec(waitMs / 1_000);
            default -> message.setDeliverTimeMs(due);
        }
        return message;
    }

    private static void take(MessageExt message, Received received) {
        if (System.currentTimeMillis() < Long.parseLong(message.getUserProperty(DUE)) - EARLY_MS) {
            EARLY.add(message.getKeys());
        }
        received.take(message);
    }

    static DefaultMQPushConsumer consumer(String namesrv, String topic, Received received) throws Exception {
        DefaultMQPushConsumer consumer = Patience.patient(new DefaultMQPushConsumer("timed-" + topic));
        consumer.setNamesrvAddr(namesrv);
        consumer.setConsumeFromWhere(ConsumeFromWhere.CONSUME_FROM_FIRST_OFFSET);
        consumer.subscribe(topic, "*");
        consumer.registerMessageListener((MessageListenerConcurrently) (messages, context) -> {
            messages.forEach(message -> take(message, received));
            return ConsumeConcurrentlyStatus.CONSUME_SUCCESS;
        });
        consumer.start();
        return consumer;
    }
}
