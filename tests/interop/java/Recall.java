import java.util.ArrayList;
import java.util.List;
import java.util.stream.IntStream;
import org.apache.rocketmq.client.consumer.DefaultMQPushConsumer;
import org.apache.rocketmq.client.producer.DefaultMQProducer;
import org.apache.rocketmq.client.producer.SendResult;
import org.apache.rocketmq.common.producer.RecallMessageHandle;
import org.apache.rocketmq.common.producer.RecallMessageHandle.HandleV1;

/**
 * A producer sends COUNT timed messages, as Timed does, and takes most of them back; a push consumer gets the rest.
 *
 * <p>Of each three messages, one is taken back when all are sent. One is taken back by its handle alone: as "leave"
 * the producer prints these handles and goes, and nobody consumes; as "finish" it takes back what HANDLES name, sends
 * nothing, and a consumer comes. As "all" it does everything.
 *
 * <p>Arguments: name server, topic, COUNT, WAIT_MS, "all" or "leave" or "finish", HANDLES joined by commas.
 */
public final class Recall {
    /** So long before its time a broker may have begun with a message. */
    private static final long MARGIN_MS = 2_000;
    private static final int KINDS = 3;
    private static final int STEPS = 5;

    private Recall() {
    }

    public static void main(String[] arguments) throws Exception {
        String namesrv = arguments[0];
        String topic = arguments[1];
        int count = Integer.parseInt(arguments[2]);
        long waitMs = Long.parseLong(arguments[3]);
        String role = arguments[4];
        DefaultMQProducer producer = Patience.patient(new DefaultMQProducer("recall-" + topic));
        producer.setNamesrvAddr(namesrv);
        producer.start();
        List<String> handles = role.equals("finish") ? List.of(arguments[5].split(",")) : send(producer, topic, count, waitMs);
        if (role.equals("leave")) {
            Lines.print("handles", handles);
        } else {
            if (role.equals("finish")) {
                producer.send(TestMessage.make(topic + "Hello", "hello", 0));
            }
            for (String handle : handles) {
                takeBack(producer, topic, handle);
            }
            List<String> keys = IntStream.range(0, count).filter(i -> i % KINDS == 2)
                    .mapToObj(i -> TestMessage.key("timed", i)).toList();
            Received received = new Received(keys);
            DefaultMQPushConsumer consumer = Timed.consumer(namesrv, topic, received);
            received.await(Patience.WAIT_S);
            consumer.shutdown();
            received.print("timed");
            Timed.printEarly();
        }
        producer.shutdown();
    }

    /** Takes a message back, in time before it is due: test_timed.py knows what is said if it was not. */
    private static String takeBack(DefaultMQProducer producer, String topic, String handle) throws Exception {
        try {
            return producer.recallMessage(topic, handle);
        } finally {
            HandleV1 message = (HandleV1) RecallMessageHandle.decodeHandle(handle);
            if (System.currentTimeMillis() >= Long.parseLong(message.getTimestampStr()) - MARGIN_MS) {
                throw new IllegalStateException("the times are too short");
            }
        }
    }

    /** Sends all and takes back the first of each three; gives the handles of the second. */
    private static List<String> send(DefaultMQProducer producer, String topic, int count, long waitMs)
            throws Exception {
        List<SendResult> results = new ArrayList<>();
        for (int i = 0; i < count; i++) {
            results.add(producer.send(Timed.message(topic, i, waitMs + i % STEPS * 1_000L)));
        }
        List<String> handles = new ArrayList<>();
        for (int i = 0; i < count; i++) {
            SendResult result = results.get(i);
            if (i % KINDS == 0) {
                String taken = takeBack(producer, topic, result.getRecallHandle());
                if (!taken.equals(result.getMsgId())) {
                    throw new AssertionError(taken + " was taken back, not " + result.getMsgId());
                }
            } else if (i % KINDS == 1) {
                handles.add(result.getRecallHandle());
            }
        }
        return handles;
    }
}
