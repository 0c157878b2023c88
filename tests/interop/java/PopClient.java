import java.util.List;
import java.util.concurrent.CompletableFuture;
import java.util.concurrent.TimeUnit;
import org.apache.rocketmq.client.ClientConfig;
import org.apache.rocketmq.client.consumer.AckCallback;
import org.apache.rocketmq.client.consumer.AckResult;
import org.apache.rocketmq.client.consumer.PopCallback;
import org.apache.rocketmq.client.consumer.PopResult;
import org.apache.rocketmq.client.impl.ClientRemotingProcessor;
import org.apache.rocketmq.client.impl.MQClientAPIImpl;
import org.apache.rocketmq.common.constant.ConsumeInitMode;
import org.apache.rocketmq.common.filter.ExpressionType;
import org.apache.rocketmq.common.message.MessageConst;
import org.apache.rocketmq.common.message.MessageExt;
import org.apache.rocketmq.remoting.netty.NettyClientConfig;
import org.apache.rocketmq.remoting.protocol.header.AckMessageRequestHeader;
import org.apache.rocketmq.remoting.protocol.header.ChangeInvisibleTimeRequestHeader;
import org.apache.rocketmq.remoting.protocol.header.ExtraInfoUtil;
import org.apache.rocketmq.remoting.protocol.header.PopMessageRequestHeader;

/** Pops, acknowledges and changes invisible times at one broker, by the released client's own requests. */
final class PopClient implements AutoCloseable {
    private static final int ALL_QUEUES = -1;
    private final String brokerName;
    private final String broker;
    private final String topic;
    private final String group;
    private final MQClientAPIImpl api;

    /** Who a handle names must be who is asked: the broker's name goes into each. */
    PopClient(String brokerName, String broker, String topic, String group) {
        this.brokerName = brokerName;
        this.broker = broker;
        this.topic = topic;
        this.group = group;
        api = new MQClientAPIImpl(new NettyClientConfig(), new ClientRemotingProcessor(null), null, new ClientConfig());
        api.start();
    }

    /** Pops from all queues; waits at the broker up to POLL_MS for a message; empty if none came. */
    List<MessageExt> pop(int maxCount, long invisibleMs, long pollMs, boolean isOrdered) throws Exception {
        PopMessageRequestHeader header = new PopMessageRequestHeader();
        header.setConsumerGroup(group);
        header.setTopic(topic);
        header.setQueueId(ALL_QUEUES);
        header.setMaxMsgNums(maxCount);
        header.setInvisibleTime(invisibleMs);
        header.setPollTime(pollMs);
        header.setBornTime(System.currentTimeMillis());
        header.setInitMode(ConsumeInitMode.MIN);
        header.setExpType(ExpressionType.TAG);
        header.setExp("*");
        header.setOrder(isOrdered);
        CompletableFuture<PopResult> popped = new CompletableFuture<>();
        api.popMessageAsync(brokerName, broker, header, pollMs + Patience.REQUEST_MS, new PopCallback() {
            @Override
            public void onSuccess(PopResult result) {
                popped.complete(result);
            }

            @Override
            public void onException(Throwable error) {
                popped.completeExceptionally(error);
            }
        });
        long waitMs = pollMs + 2L * Patience.REQUEST_MS;
        List<MessageExt> found = popped.get(waitMs, TimeUnit.MILLISECONDS).getMsgFoundList();
        return found == null ? List.of() : found;
    }

    AckResult ack(String handle) throws Exception {
        String[] parts = ExtraInfoUtil.split(handle);
        AckMessageRequestHeader header = new AckMessageRequestHeader();
        header.setTopic(ExtraInfoUtil.getRealTopic(parts, topic, group));
        header.setQueueId(ExtraInfoUtil.getQueueId(parts));
        header.setOffset(ExtraInfoUtil.getQueueOffset(parts));
        header.setConsumerGroup(group);
        header.setExtraInfo(handle);
        Answered answered = new Answered();
        api.ackMessageAsync(broker, Patience.REQUEST_MS, answered, header);
        return answered.await();
    }

    /** Lets a message be invisible so long from now on; the answer has the new handle. */
    AckResult change(String handle, long invisibleMs) throws Exception {
        String[] parts = ExtraInfoUtil.split(handle);
        ChangeInvisibleTimeRequestHeader header = new ChangeInvisibleTimeRequestHeader();
        header.setTopic(ExtraInfoUtil.getRealTopic(parts, topic, group));
        header.setQueueId(ExtraInfoUtil.getQueueId(parts));
        header.setOffset(ExtraInfoUtil.getQueueOffset(parts));
        header.setConsumerGroup(group);
        header.setExtraInfo(handle);
        header.setInvisibleTime(invisibleMs);
        Answered answered = new Answered();
        api.changeInvisibleTimeAsync(brokerName, broker, header, Patience.REQUEST_MS, answered);
        return answered.await();
    }

    static String handle(MessageExt message) {
        return message.getProperty(MessageConst.PROPERTY_POP_CK);
    }

    @Override
    public void close() {
        api.shutdown();
    }

    private static final class Answered implements AckCallback {
        private final CompletableFuture<AckResult> result = new CompletableFuture<>();

        @Override
        public void onSuccess(AckResult answer) {
            result.complete(answer);
        }

        @Override
        public void onException(Throwable error) {
            result.completeExceptionally(error);
        }

        AckResult await() throws Exception {
            return result.get(2L * Patience.REQUEST_MS, TimeUnit.MILLISECONDS);
        }
    }
}
