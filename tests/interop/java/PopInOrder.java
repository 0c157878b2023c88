import java.util.ArrayList;
import java.util.List;
import java.util.concurrent.ExecutorService;
import java.util.concurrent.Executors;
import java.util.concurrent.TimeUnit;
import org.apache.rocketmq.client.producer.DefaultMQProducer;
import org.apache.rocketmq.common.message.MessageExt;

/**
 * Sends COUNT messages to a topic of one queue and pops them in order, one at a time; each is acknowledged only once
 * the next pop waits at the broker. Prints the keys as they came, and how long all took.
 *
 * <p>A message is invisible, and a pop waits, for so long that only the acknowledgement can be what wakes it.
 *
 * <p>Arguments: name server, broker's name, broker, topic, COUNT.
 */
public final class PopInOrder {
    private static final long LONG_MS = 120_000;
    private static final long ACK_AFTER_MS = 100;

    private PopInOrder() {
    }

    public static void main(String[] arguments) throws Exception {
        String topic = arguments[3];
        int count = Integer.parseInt(arguments[4]);
        DefaultMQProducer producer = Patience.patient(new DefaultMQProducer("send-" + topic));
        producer.setNamesrvAddr(arguments[0]);
        producer.start();
        for (int i = 0; i < count; i++) {
            producer.send(TestMessage.make(topic, "ordered", i));
        }
        producer.shutdown();

        List<String> keys = new ArrayList<>();
        ExecutorService later = Executors.newSingleThreadExecutor();
        long begin = System.currentTimeMillis();
        try (PopClient client = new PopClient(arguments[1], arguments[2], topic, "pop-" + topic)) {
            while (keys.size() < count) {
                for (MessageExt message : client.pop(1, LONG_MS, LONG_MS, true)) {
                    keys.add(message.getKeys());
                    later.submit(() -> {
                        Thread.sleep(ACK_AFTER_MS);
                        return client.ack(PopClient.handle(message));
                    });
                }
            }
            later.shutdown();
            later.awaitTermination(LONG_MS, TimeUnit.MILLISECONDS);
        }
        Lines.print("keys", keys, "ms", System.currentTimeMillis() - begin);
    }
}
