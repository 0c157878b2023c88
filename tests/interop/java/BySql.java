import java.util.List;
import java.util.function.IntPredicate;
import java.util.stream.IntStream;
import org.apache.rocketmq.client.consumer.DefaultMQPushConsumer;
import org.apache.rocketmq.client.consumer.MessageSelector;
import org.apache.rocketmq.client.consumer.listener.ConsumeConcurrentlyStatus;
import org.apache.rocketmq.client.consumer.listener.MessageListenerConcurrently;
import org.apache.rocketmq.client.exception.MQClientException;
import org.apache.rocketmq.client.producer.DefaultMQProducer;
import org.apache.rocketmq.common.consumer.ConsumeFromWhere;
import org.apache.rocketmq.common.message.Message;

/**
 * Two push consumers filter COUNT messages by SQL92, half of which are sent before they start; a third one's
 * filter means nothing, and its start is refused. With AGAIN, a name for other groups, nothing is sent: the
 * messages are those of an earlier run.
 *
 * <p>Arguments: name server, topic, COUNT, AGAIN (may be missing).
 */
public final class BySql {
    private static final String[] COLORS = {"red", "green", "blue"};

    private BySql() {
    }

    public static void main(String[] arguments) throws Exception {
        String namesrv = arguments[0];
        String topic = arguments[1];
        int count = Integer.parseInt(arguments[2]);
        String again = arguments.length > 3 ? arguments[3] : "";
        int unsent = again.isEmpty() ? 0 : count;
        DefaultMQProducer producer = Patience.patient(new DefaultMQProducer("send-" + topic));
        producer.setNamesrvAddr(namesrv);
        producer.start();
        send(producer, topic, unsent, count / 2);

        Received large = expected(count, i -> hasSize(i) && size(i) > 3 && !color(i).equals("green"));
        Received odd = expected(count, i -> !hasSize(i) || size(i) == 1);
        DefaultMQPushConsumer first =
                start(namesrv, topic, "large" + again, "size > 3 AND color IN ('red', 'blue')", large);
        DefaultMQPushConsumer second = start(namesrv, topic, "odd" + again, "size IS NULL OR size = 1", odd);
        send(producer, topic, Math.max(unsent, count / 2), count);
        large.await(Patience.WAIT_S);
        odd.await(Patience.WAIT_S);
        large.print("large");
        odd.print("odd");
        try {
            start(namesrv, topic, "wrong", "size > 'x'", odd);
            Lines.print("refused", "");
        } catch (MQClientException refusal) {
            Lines.print("refused", refusal.getMessage());
        }
        first.shutdown();
        second.shutdown();
        producer.shutdown();
    }

    private static void send(DefaultMQProducer producer, String topic, int first, int end) throws Exception {
        for (int i = first; i < end; i++) {
            Message message = TestMessage.make(topic, "sql", i);
            message.putUserProperty("color", color(i));
            if (hasSize(i)) {
                message.putUserProperty("size", String.valueOf(size(i)));
            }
            producer.send(message);
        }
    }

    private static boolean hasSize(int number) {
        return number % 5 != 0;
    }

    private static int size(int number) {
        return number % 7;
    }

    private static String color(int number) {
        return COLORS[number % COLORS.length];
    }

    private static Received expected(int count, IntPredicate isWanted) {
        List<String> keys = IntStream.range(0, count).filter(isWanted)
                .mapToObj(i -> TestMessage.key("sql", i)).toList();
        return new Received(keys);
    }

    private static DefaultMQPushConsumer start(
            String namesrv, String topic, String group, String expression, Received received) throws Exception {
        DefaultMQPushConsumer consumer = Patience.patient(new DefaultMQPushConsumer(group + "-" + topic));
        consumer.setNamesrvAddr(namesrv);
        consumer.setConsumeFromWhere(ConsumeFromWhere.CONSUME_FROM_FIRST_OFFSET);
        consumer.subscribe(topic, MessageSelector.bySql(expression));
        consumer.registerMessageListener((MessageListenerConcurrently) (messages, context) -> {
            messages.forEach(received::take);
            return ConsumeConcurrentlyStatus.CONSUME_SUCCESS;
        });
        try {
            consumer.start();
        } catch (MQClientException refusal) {
            consumer.shutdown();
            throw refusal;
        }
        return consumer;
    }
}
