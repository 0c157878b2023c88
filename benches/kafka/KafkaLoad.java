import com.alibaba.fastjson2.JSONObject;
import java.io.BufferedReader;
import java.io.InputStreamReader;
import java.util.List;
import java.util.Map;
import java.util.concurrent.TimeUnit;
import java.util.stream.Collectors;
import java.util.stream.IntStream;
import org.apache.kafka.clients.admin.Admin;
import org.apache.kafka.clients.admin.NewTopic;
import org.apache.kafka.clients.admin.OffsetSpec;
import org.apache.kafka.common.TopicPartition;

/** The twin of Load on Kafka's own client: the same orders, and two more: make the topics, and touch them. */
public final class KafkaLoad {
    private static final long TIMEOUT_S = 300;
    private static final int TOPICS_AT_ONCE = 64;
    /** A controller refuses a request that makes 10,000 of them. */
    private static final int QUEUES_AT_ONCE = 5_000;

    private KafkaLoad() {
    }

    public static void main(String[] arguments) throws Exception {
        BufferedReader orders = new BufferedReader(new InputStreamReader(System.in));
        for (String line = orders.readLine(); line != null; line = orders.readLine()) {
            JSONObject order = Lines.parse(line);
            switch (order.getString("mode")) {
                case "create" -> create(order);
                case "touch" -> touch(order);
                case "push" -> new KafkaConsumes(order).run();
                default -> new KafkaSends(order).run();
            }
        }
    }

    private static void create(JSONObject order) throws Exception {
        int topics = order.getIntValue("topics");
        int queues = order.getIntValue("queues");
        int atOnce = Math.max(1, Math.min(TOPICS_AT_ONCE, QUEUES_AT_ONCE / queues));
        try (Admin admin = Admin.create(Map.of("bootstrap.servers", order.getString("namesrv")))) {
            for (int from = 0; from < topics; from += atOnce) {
                List<NewTopic> some = IntStream.range(from, Math.min(topics, from + atOnce))
                        .mapToObj(i -> new NewTopic("bench-" + i, queues, (short) 1)).toList();
                admin.createTopics(some).all().get(TIMEOUT_S, TimeUnit.SECONDS);
                awaitQueues(admin, some);
            }
        }
        Lines.print("created", topics);
    }

    /** The controller answers before the brokers have the partitions; a question for their ends is repeated until then. */
    private static void awaitQueues(Admin admin, List<NewTopic> topics) throws Exception {
        Map<TopicPartition, OffsetSpec> all = topics.stream()
                .flatMap(topic -> IntStream.range(0, topic.numPartitions())
                        .mapToObj(queue -> new TopicPartition(topic.name(), queue)))
                .collect(Collectors.toMap(queue -> queue, queue -> OffsetSpec.latest()));
        admin.listOffsets(all).all().get(TIMEOUT_S, TimeUnit.SECONDS);
    }

    private static void touch(JSONObject order) {
        int topics = order.getIntValue("topics");
        KafkaSends.touch(order.getString("namesrv"), topics, order.getIntValue("queues"));
        Lines.print("touched", topics);
    }
}
