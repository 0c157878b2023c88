import com.alibaba.fastjson2.JSONObject;
import java.util.function.IntConsumer;
import org.apache.rocketmq.client.consumer.DefaultMQPushConsumer;
import org.apache.rocketmq.client.consumer.listener.ConsumeConcurrentlyStatus;
import org.apache.rocketmq.client.consumer.listener.MessageListenerConcurrently;
import org.apache.rocketmq.client.impl.MQClientAPIImpl;
import org.apache.rocketmq.client.producer.DefaultMQProducer;
import org.apache.rocketmq.common.consumer.ConsumeFromWhere;
import org.apache.rocketmq.common.message.MessageQueue;
import org.apache.rocketmq.remoting.protocol.header.UpdateConsumerOffsetRequestHeader;
import org.apache.rocketmq.remoting.protocol.subscription.SubscriptionGroupConfig;

/** A new group's push consumer reads the topics from their first messages on, until the end of the window or of them. */
final class Consumes extends PushReads {
    private static final long TIMEOUT_MS = 3_000;

    Consumes(JSONObject order) {
        super(order);
    }

    /** Starts a consumer of a new group, at the first messages or behind the last. */
    static DefaultMQPushConsumer start(JSONObject order, boolean fromFirst, IntConsumer take) throws Exception {
        String name = "consume-" + System.nanoTime();
        DefaultMQPushConsumer consumer = new DefaultMQPushConsumer(name);
        consumer.setNamesrvAddr(order.getString("namesrv"));
        consumer.setInstanceName(name);
        consumer.setConsumeFromWhere(ConsumeFromWhere.CONSUME_FROM_FIRST_OFFSET);
        if (!fromFirst) {
            commitLast(order, name);
        }
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

    /** Lets a group begin behind the last messages: a broker begins a new one at the first, whatever it asks for. */
    private static void commitLast(JSONObject order, String group) throws Exception {
        DefaultMQProducer producer = Sends.producer(order.getString("namesrv"));
        MQClientAPIImpl broker = producer.getDefaultMQProducerImpl().getMqClientFactory().getMQClientAPIImpl();
        SubscriptionGroupConfig config = new SubscriptionGroupConfig();
        config.setGroupName(group);
        broker.createSubscriptionGroup(order.getString("broker"), config, TIMEOUT_MS);
        for (int i = 0; i < order.getIntValue("topics"); i++) {
            for (MessageQueue queue : producer.fetchPublishMessageQueues("bench-" + i)) {
                UpdateConsumerOffsetRequestHeader header = new UpdateConsumerOffsetRequestHeader();
                header.setConsumerGroup(group);
                header.setTopic(queue.getTopic());
                header.setQueueId(queue.getQueueId());
                header.setCommitOffset(producer.maxOffset(queue));
                broker.updateConsumerOffset(order.getString("broker"), header, TIMEOUT_MS);
            }
        }
    }

    @Override
    void prepare() throws Exception {
        consumer = start(order, true, number -> take(number, System.nanoTime()));
    }
}
