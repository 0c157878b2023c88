import java.util.Comparator;
import java.util.List;
import org.apache.rocketmq.client.consumer.DefaultMQPullConsumer;
import org.apache.rocketmq.common.message.MessageQueue;

/**
 * Prints how far groups have consumed each queue of a topic, by what the broker remembers.
 *
 * <p>Arguments: name server, topic, groups.
 */
public final class CommittedOffsets {
    private CommittedOffsets() {
    }

    @SuppressWarnings("deprecation") // the one consumer of the client that asks without joining the group
    public static void main(String[] arguments) throws Exception {
        for (String group : List.of(arguments).subList(2, arguments.length)) {
            DefaultMQPullConsumer consumer = Patience.patient(new DefaultMQPullConsumer(group));
            consumer.setNamesrvAddr(arguments[0]);
            consumer.start();
            List<MessageQueue> queues = consumer.fetchSubscribeMessageQueues(arguments[1]).stream()
                    .sorted(Comparator.comparing(MessageQueue::getQueueId)).toList();
            for (MessageQueue queue : queues) {
                Lines.print("group", group, "queueId", queue.getQueueId(),
                        "committed", consumer.fetchConsumeOffset(queue, true));
            }
            consumer.shutdown();
        }
    }
}
