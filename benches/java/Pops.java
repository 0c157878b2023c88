import com.alibaba.fastjson2.JSONObject;
import java.util.List;
import java.util.stream.IntStream;
import org.apache.rocketmq.client.consumer.DefaultMQPushConsumer;
import org.apache.rocketmq.client.consumer.listener.ConsumeConcurrentlyStatus;
import org.apache.rocketmq.client.consumer.listener.MessageListenerConcurrently;
import org.apache.rocketmq.common.consumer.ConsumeFromWhere;

/**
 * A new group's push consumer pops the topics from their first messages on, and acknowledges each message by a
 * request of its own, as the client does.
 *
 * <p>The invisible time is the shortest that the client allows: what a broker does when it is over falls into the next
 * windows on the same broker. Only one that comes right after others counts, see {@code later_s} in cells.py.
 */
final class Pops extends PushReads {
    private static final long INVISIBLE_MS = 5_000;

    Pops(JSONObject order) {
        super(order);
    }

    @Override
    void prepare() throws Exception {
        String name = "pop-" + System.nanoTime();
        List<String> topics = IntStream.range(0, order.getIntValue("topics")).mapToObj(i -> "bench-" + i).toList();
        PopMode.set(order.getString("namesrv"), order.getString("broker"), name, topics);
        consumer = new DefaultMQPushConsumer(name);
        consumer.setNamesrvAddr(order.getString("namesrv"));
        consumer.setInstanceName(name);
        consumer.setClientRebalance(false); // the broker says what each member does, and how
        consumer.setConsumeFromWhere(ConsumeFromWhere.CONSUME_FROM_FIRST_OFFSET);
        consumer.setPopInvisibleTime(INVISIBLE_MS);
        consumer.setConsumeMessageBatchMaxSize(32);
        for (String topic : topics) {
            consumer.subscribe(topic, "*");
        }
        consumer.registerMessageListener((MessageListenerConcurrently) (messages, context) -> {
            take(messages.size(), System.nanoTime());
            return ConsumeConcurrentlyStatus.CONSUME_SUCCESS;
        });
        consumer.start();
    }
}
