import java.util.List;
import java.util.stream.IntStream;
import org.apache.rocketmq.client.consumer.DefaultMQPushConsumer;
import org.apache.rocketmq.client.consumer.listener.ConsumeConcurrentlyStatus;
import org.apache.rocketmq.client.consumer.listener.MessageListenerConcurrently;
import org.apache.rocketmq.common.consumer.ConsumeFromWhere;

/**
 * A new group consumes a topic from its beginning until it has COUNT messages of a kind, and prints what it got.
 *
 * <p>Arguments: name server, topic, kind (the start of the keys), COUNT.
 */
public final class ConsumeAll {
    private ConsumeAll() {
    }

    public static void main(String[] arguments) throws Exception {
        String topic = arguments[1];
        List<String> keys = IntStream.range(0, Integer.parseInt(arguments[3]))
                .mapToObj(i -> TestMessage.key(arguments[2], i)).toList();
        Received received = new Received(keys);
        DefaultMQPushConsumer consumer = Patience.patient(new DefaultMQPushConsumer("consume-all-" + topic));
        consumer.setNamesrvAddr(arguments[0]);
        consumer.setConsumeFromWhere(ConsumeFromWhere.CONSUME_FROM_FIRST_OFFSET);
        consumer.subscribe(topic, "*");
        consumer.registerMessageListener((MessageListenerConcurrently) (messages, context) -> {
            messages.forEach(received::take);
            return ConsumeConcurrentlyStatus.CONSUME_SUCCESS;
        });
        consumer.start();
        received.await(Patience.WAIT_S);
        consumer.shutdown();
        received.print("all");
    }
}
