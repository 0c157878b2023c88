import java.util.List;
import java.util.Map;
import java.util.concurrent.ConcurrentHashMap;
import java.util.concurrent.CountDownLatch;
import java.util.concurrent.ExecutorService;
import java.util.concurrent.Executors;
import java.util.concurrent.TimeUnit;
import org.apache.rocketmq.client.exception.RequestTimeoutException;
import org.apache.rocketmq.client.producer.DefaultMQProducer;
import org.apache.rocketmq.common.message.Message;

/**
 * A producer asks COUNT times, several at a time, and says what the replies were like.
 *
 * <p>The reply to a message is to have its key, its tag and the body that belongs to them. Before it asks, it
 * sends one message that is no request: who consumes the topic finds it by that. At last it asks a topic that
 * nobody consumes.
 *
 * <p>Arguments: name server, topic, COUNT, "alone", or "answered" by a replier of this process.
 */
public final class Ask {
    private static final long SHORT_MS = 2_000;
    private static final int THREADS = 8;

    private Ask() {
    }

    public static void main(String[] arguments) throws Exception {
        String namesrv = arguments[0];
        String topic = arguments[1];
        int count = Integer.parseInt(arguments[2]);
        DefaultMQProducer producer = Patience.patient(new DefaultMQProducer("ask-" + topic));
        producer.setNamesrvAddr(namesrv);
        producer.setInstanceName("asker");
        producer.start();
        producer.send(TestMessage.make(topic, "hello", 0));
        Answers answers = arguments[3].equals("answered") ? new Answers(namesrv, topic) : null;
        Map<Integer, String> strange = new ConcurrentHashMap<>();
        CountDownLatch left = new CountDownLatch(count);
        ExecutorService threads = Executors.newFixedThreadPool(THREADS);
        for (int i = 0; i < count; i++) {
            int number = i;
            threads.execute(() -> {
                String why = ask(producer, topic, number);
                if (why != null) {
                    strange.put(number, why);
                }
                left.countDown();
            });
        }
        boolean isDone = left.await(Patience.WAIT_S, TimeUnit.SECONDS);
        threads.shutdownNow();
        Lines.print("asked", count, "done", isDone, "strange", strange, "timeout", timesOut(producer, topic + "Nobody"));
        if (answers != null) {
            answers.close();
        }
        producer.shutdown();
    }

    /** Asks once; tells what is wrong with the reply. */
    private static String ask(DefaultMQProducer producer, String topic, int number) {
        Message request = TestMessage.make(topic, "ask", number);
        try {
            Message reply = producer.request(request, Patience.WAIT_S * 1_000 / 2);
            List<String> needed = List.of("CORRELATION_ID", "REPLY_TO_CLIENT", "PUSH_REPLY_TIME", "ARRIVE_TIME");
            if (!reply.getProperties().keySet().containsAll(needed)) {
                return "properties " + reply.getProperties();
            }
            if (!TestMessage.isIntact(reply) || !reply.getKeys().equals(request.getKeys())) {
                return "key " + reply.getKeys();
            }
            return null;
        } catch (Exception error) {
            return error.toString();
        }
    }

    /** The topic exists by then: what is timed out is the reply that nobody sends. */
    private static boolean timesOut(DefaultMQProducer producer, String topic) throws Exception {
        producer.send(TestMessage.make(topic, "hello", 0));
        try {
            producer.request(TestMessage.make(topic, "ask", 0), SHORT_MS);
            return false;
        } catch (RequestTimeoutException expected) {
            return true;
        }
    }
}
