import com.alibaba.fastjson2.JSONObject;
import java.time.Duration;
import java.util.Map;
import java.util.stream.IntStream;
import org.apache.kafka.clients.consumer.KafkaConsumer;
import org.apache.kafka.common.serialization.ByteArrayDeserializer;

/** A new group's consumer reads the topics from their first messages on, in a thread of its own. */
final class KafkaConsumes extends Reads {
    private static final Duration POLL = Duration.ofMillis(100);

    private final KafkaConsumer<byte[], byte[]> consumer;
    private final Thread poller = new Thread(this::poll);
    private volatile boolean stopping;

    KafkaConsumes(JSONObject order) {
        super(order);
        Map<String, Object> settings = Map.of("bootstrap.servers", order.getString("namesrv"),
                "group.id", "consume-" + System.nanoTime(), "auto.offset.reset", "earliest");
        consumer = new KafkaConsumer<>(settings, new ByteArrayDeserializer(), new ByteArrayDeserializer());
        consumer.subscribe(IntStream.range(0, order.getIntValue("topics")).mapToObj(i -> "bench-" + i).toList());
    }

    @Override
    void prepare() {
        poller.start();
    }

    @Override
    void work(int thread, int turn) {
        throw new IllegalStateException("the consumer's own thread does the work: give no threads");
    }

    @Override
    long end() throws Exception {
        stopping = true;
        poller.join();
        consumer.close();
        return 0;
    }

    private void poll() {
        while (!stopping) {
            long begin = System.nanoTime();
            take(consumer.poll(POLL).count(), begin);
        }
    }
}
