import com.alibaba.fastjson2.JSONObject;
import java.time.Duration;
import java.util.Map;
import java.util.stream.IntStream;
import org.apache.kafka.clients.consumer.KafkaConsumer;
import org.apache.kafka.common.serialization.ByteArrayDeserializer;

/** A new group's consumer reads the topics from their first messages on; give it one thread. */
final class KafkaConsumes extends Reads {
    private static final Duration POLL = Duration.ofMillis(100);

    private final KafkaConsumer<byte[], byte[]> consumer;

    KafkaConsumes(JSONObject order) {
        super(order);
        Map<String, Object> settings = Map.of("bootstrap.servers", order.getString("namesrv"),
                "group.id", "consume-" + System.nanoTime(), "auto.offset.reset", "earliest");
        consumer = new KafkaConsumer<>(settings, new ByteArrayDeserializer(), new ByteArrayDeserializer());
        consumer.subscribe(IntStream.range(0, order.getIntValue("topics")).mapToObj(i -> "bench-" + i).toList());
    }

    @Override
    void work(int thread, int turn) {
        long begin = System.nanoTime();
        take(consumer.poll(POLL).count(), begin);
    }

    @Override
    long end() {
        consumer.close();
        return 0;
    }
}
