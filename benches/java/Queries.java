import com.alibaba.fastjson2.JSONObject;
import java.util.ArrayList;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import org.apache.rocketmq.client.producer.DefaultMQProducer;
import org.apache.rocketmq.common.message.Message;

/** Threads look for single messages, by the id that the broker gave (mode id) or by key (mode key). */
final class Queries extends Window {
    private static final int MESSAGES = 2_000;
    private static final String TOPIC = "bench-0";
    private static final Map<String, Queries.Sent> SENT = new HashMap<>();

    /** What was sent to a broker to be looked for. */
    private record Sent(List<String> ids, long begin) {
    }

    private final DefaultMQProducer producer;
    private Sent sent;

    Queries(JSONObject order) throws Exception {
        super(order);
        producer = Sends.producer(order.getString("namesrv"));
    }

    @Override
    void prepare() throws Exception {
        sent = SENT.get(order.getString("namesrv"));
        if (sent != null) {
            return;
        }
        sent = new Sent(new ArrayList<>(), System.currentTimeMillis() - 1_000);
        byte[] body = Sends.body(order.getIntValue("bodySize"));
        for (int i = 0; i < MESSAGES; i++) {
            sent.ids.add(producer.send(new Message(TOPIC, null, key(i), body)).getOffsetMsgId());
        }
        SENT.put(order.getString("namesrv"), sent);
    }

    @Override
    void work(int thread, int turn) throws Exception {
        int number = (thread * 131 + turn * 7) % MESSAGES;
        long begin = System.nanoTime();
        if (order.getString("mode").equals("id")) {
            producer.viewMessage(TOPIC, sent.ids.get(number));
        } else if (producer.queryMessage(TOPIC, key(number), 1, sent.begin, Long.MAX_VALUE).getMessageList().isEmpty()) {
            throw new IllegalStateException("a key was not found");
        }
        count(1, begin);
    }

    private static String key(int number) {
        return "key-" + number;
    }
}
