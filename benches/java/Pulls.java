import com.alibaba.fastjson2.JSONObject;
import org.apache.rocketmq.client.consumer.DefaultLitePullConsumer;
import org.apache.rocketmq.common.consumer.ConsumeFromWhere;

/** A new group's lite pull consumer polls the topics from their first messages on; give it one thread. */
final class Pulls extends Reads {
    private static final long POLL_MS = 100;

    private final DefaultLitePullConsumer consumer;

    Pulls(JSONObject order) {
        super(order);
        String name = "pull-" + System.nanoTime();
        consumer = new DefaultLitePullConsumer(name);
        consumer.setNamesrvAddr(order.getString("namesrv"));
        consumer.setInstanceName(name);
        consumer.setConsumeFromWhere(ConsumeFromWhere.CONSUME_FROM_FIRST_OFFSET);
    }

    @Override
    void prepare() throws Exception {
        for (int i = 0; i < order.getIntValue("topics"); i++) {
            consumer.subscribe("bench-" + i, "*");
        }
        consumer.start();
    }

    @Override
    void work(int thread, int turn) {
        long begin = System.nanoTime();
        take(consumer.poll(POLL_MS).size(), begin);
    }

    @Override
    long end() {
        consumer.shutdown();
        return 0;
    }
}
