import com.alibaba.fastjson2.JSONObject;
import java.util.function.IntConsumer;
import org.apache.rocketmq.client.consumer.DefaultMQPushConsumer;
import org.apache.rocketmq.client.consumer.listener.ConsumeConcurrentlyStatus;
import org.apache.rocketmq.client.consumer.listener.MessageListenerConcurrently;
import org.apache.rocketmq.common.consumer.ConsumeFromWhere;

/** A new group's push consumer reads the topics from their first messages on, until the end of the window or of them. */
final class Consumes extends Reads {
    private DefaultMQPushConsumer consumer;

    Consumes(JSONObject order) {
        super(order);
    }

    /** Starts a consumer of a new group, at the first messages or behind the last. */
    static DefaultMQPushConsumer start(JSONObject order, boolean fromFirst, IntConsumer take) throws Exception {
        String name = "consume-" + System.nanoTime();
        DefaultMQPushConsumer consumer = new DefaultMQPushConsumer(name);
        consumer.setNamesrvAddr(order.getString("namesrv"));
        consumer.setInstanceName(name);
        consumer.setConsumeFromWhere(fromFirst
                ? ConsumeFromWhere.CONSUME_FROM_FIRST_OFFSET : ConsumeFromWhere.CONSUME_FROM_LAST_OFFSET);
        consumer.setConsumeMessageBatchMaxSize(32);
        for (int i = 0; i < order.getIntValue("topics"); i++) {
            consumer.subscribe("bench-" + i, "*");
        }
        consumer.registerMessageListener((MessageListenerConcurrently) (messages, context) -> {
            take.accept(messages.size());
            return ConsumeConcurrentlyStatus.CONSUME_SUCCESS;
        });
        consumer.start();
        return consumer;
    }

    @Override
    void prepare() throws Exception {
        consumer = start(order, true, number -> take(number, System.nanoTime()));
    }

    @Override
    void work(int thread, int turn) {
        throw new IllegalStateException("the client's own threads do the work: give no threads");
    }

    @Override
    long end() {
        consumer.shutdown();
        return 0;
    }
}
