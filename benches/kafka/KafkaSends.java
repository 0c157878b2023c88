import com.alibaba.fastjson2.JSONObject;
import java.util.HashMap;
import java.util.Map;
import org.apache.kafka.clients.producer.KafkaProducer;
import org.apache.kafka.clients.producer.ProducerRecord;
import org.apache.kafka.common.serialization.ByteArraySerializer;

/**
 * Sending to topics and their partitions in turn, over one producer that all threads share.
 *
 * <p>sync waits for each record's acknowledgement (acks=1, no lingering). async is how Kafka's client is made
 * to be used: it gathers records for 5 ms, and no more than its buffer of 64 MiB waits. oneway is the same
 * without acknowledgements (acks=0).
 */
final class KafkaSends extends Window {
    /** A partition's log.index.interval.bytes. */
    private static final int INDEX_INTERVAL = 4_096;
    private static final int TOUCHES = 2;
    private static final Map<String, KafkaProducer<byte[], byte[]>> PRODUCERS = new HashMap<>();

    private final KafkaProducer<byte[], byte[]> producer;
    private final byte[] body;
    private final int topics;
    private final int queues;
    private final boolean waits;

    KafkaSends(JSONObject order) {
        super(order);
        String mode = order.getString("mode");
        producer = PRODUCERS.computeIfAbsent(
                order.getString("namesrv") + mode, key -> producer(order.getString("namesrv"), mode));
        body = new byte[order.getIntValue("bodySize")];
        for (int i = 0; i < body.length; i++) {
            body[i] = (byte) ('a' + i % 26);
        }
        topics = order.getIntValue("topics");
        queues = order.getIntValue("queues");
        waits = mode.equals("sync");
    }

    private static KafkaProducer<byte[], byte[]> producer(String address, String mode) {
        Map<String, Object> settings = new HashMap<>();
        settings.put("bootstrap.servers", address);
        settings.put("acks", mode.equals("oneway") ? "0" : "1");
        settings.put("enable.idempotence", "false");
        settings.put("linger.ms", mode.equals("sync") ? "0" : "5");
        settings.put("buffer.memory", String.valueOf(64 << 20));
        return new KafkaProducer<>(settings, new ByteArraySerializer(), new ByteArraySerializer());
    }

    /**
     * Sends enough to each partition for entries in its indexes, and waits until all is stored. The first entry
     * costs the broker some 20 ms: the system reads megabytes of the file's hole.
     */
    static void touch(String address, int topics, int queues) {
        try (KafkaProducer<byte[], byte[]> producer = producer(address, "async")) {
            for (int time = 0; time < TOUCHES; time++) {
                for (int topic = 0; topic < topics; topic++) {
                    for (int queue = 0; queue < queues; queue++) {
                        producer.send(new ProducerRecord<>("bench-" + topic, queue, null, new byte[INDEX_INTERVAL]));
                    }
                }
                producer.flush();
            }
        }
    }

    @Override
    void work(int thread, int turn) throws Exception {
        int topic = (thread * 7 + turn) % topics;
        int queue = (thread + turn / topics) % queues;
        ProducerRecord<byte[], byte[]> message = new ProducerRecord<>("bench-" + topic, queue, null, body);
        long begin = System.nanoTime();
        if (waits) {
            producer.send(message).get();
            count(1, begin);
            return;
        }
        producer.send(message, (where, error) -> {
            if (error == null) {
                count(1, begin);
            } else {
                note(error);
            }
        });
    }

    @Override
    long end() {
        producer.flush();
        return 0;
    }
}
