import java.util.Comparator;
import java.util.List;
import java.util.Map;
import java.util.TreeMap;
import org.apache.rocketmq.client.consumer.DefaultMQPullConsumer;
import org.apache.rocketmq.client.consumer.PullResult;
import org.apache.rocketmq.client.consumer.PullStatus;
import org.apache.rocketmq.common.message.MessageClientExt;
import org.apache.rocketmq.common.message.MessageConst;
import org.apache.rocketmq.common.message.MessageExt;
import org.apache.rocketmq.common.message.MessageQueue;

/**
 * Reads every message of the topics from each queue's min to its max offset, and prints a line for each queue
 * and each message, in an order that does not depend on the broker: two brokers on one store must print the
 * same.
 *
 * <p>Arguments: name server, topics.
 */
public final class ReadAll {
    private static final int MAX_PULL = 32;

    private ReadAll() {
    }

    @SuppressWarnings("deprecation") // the one consumer of the client that asks for just this offset
    public static void main(String[] arguments) throws Exception {
        DefaultMQPullConsumer consumer = Patience.patient(new DefaultMQPullConsumer("read-all"));
        consumer.setNamesrvAddr(arguments[0]);
        consumer.start();
        for (String topic : List.of(arguments).subList(1, arguments.length)) {
            List<MessageQueue> queues = consumer.fetchSubscribeMessageQueues(topic).stream()
                    .sorted(Comparator.comparing(MessageQueue::getQueueId)).toList();
            for (MessageQueue queue : queues) {
                long min = consumer.minOffset(queue);
                long max = consumer.maxOffset(queue);
                Lines.print("topic", topic, "queueId", queue.getQueueId(), "min", min, "max", max);
                readQueue(consumer, queue, min, max);
            }
        }
        consumer.shutdown();
    }

    @SuppressWarnings("deprecation")
    private static void readQueue(DefaultMQPullConsumer consumer, MessageQueue queue, long min, long max)
            throws Exception {
        long offset = min;
        while (offset < max) {
            PullResult result = consumer.pull(queue, "*", offset, MAX_PULL);
            if (result.getPullStatus() != PullStatus.FOUND) {
                throw new IllegalStateException(queue + " at " + offset + " of " + max + ": " + result);
            }
            result.getMsgFoundList().forEach(ReadAll::printMessage);
            offset = result.getNextBeginOffset();
        }
    }

    private static void printMessage(MessageExt message) {
        Map<String, String> properties = new TreeMap<>(message.getProperties());
        // The client adds these two from the pull's answer.
        properties.remove(MessageConst.PROPERTY_MIN_OFFSET);
        properties.remove(MessageConst.PROPERTY_MAX_OFFSET);
        Lines.print("topic", message.getTopic(), "queueId", message.getQueueId(),
                "queueOffset", message.getQueueOffset(), "physicalOffset", message.getCommitLogOffset(),
                "messageId", message.getMsgId(), "offsetMessageId", ((MessageClientExt) message).getOffsetMsgId(),
                "tags", message.getTags(), "keys", message.getKeys(), "bodySha1", Lines.sha1(message.getBody()),
                "bodyCrc", message.getBodyCRC(), "storeSize", message.getStoreSize(), "flag", message.getFlag(),
                "sysFlag", message.getSysFlag(), "bornTime", message.getBornTimestamp(),
                "bornHost", message.getBornHostString(), "storeTime", message.getStoreTimestamp(),
                "storeHost", message.getStoreHost().toString(), "reconsumeTimes", message.getReconsumeTimes(),
                "properties", properties);
    }
}
