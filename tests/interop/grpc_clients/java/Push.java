import java.util.Collections;
import java.util.List;
import java.util.concurrent.BlockingQueue;
import java.util.concurrent.LinkedBlockingQueue;
import org.apache.rocketmq.client.apis.consumer.ConsumeResult;
import org.apache.rocketmq.client.apis.consumer.FilterExpression;
import org.apache.rocketmq.client.apis.message.MessageView;
import org.apache.rocketmq.client.apis.producer.Producer;

/**
 * A producer of RocketMQ 5 sends messages, a push consumer handles them, but always fails for one body. Prints each call
 * of the listener, until there were so many.
 *
 * <p>Arguments: proxy, topic, group, "groups" if messages have one or "none", the number of calls, the body that fails,
 * the bodies.
 */
public final class Push {
    private Push() {
    }

    public static void main(String[] arguments) throws Exception {
        String topic = arguments[1];
        int calls = Integer.parseInt(arguments[4]);
        String failing = arguments[5];
        BlockingQueue<MessageView> handled = new LinkedBlockingQueue<>();
        try (Producer producer = Grpc.PROVIDER.newProducerBuilder()
                .setClientConfiguration(Grpc.configuration(arguments[0])).setTopics(topic).build()) {
            for (String body : List.of(arguments).subList(6, arguments.length)) {
                producer.send(Grpc.message(topic, body, arguments[3].equals("groups")));
            }
        }
        Grpc.PROVIDER.newPushConsumerBuilder()
                .setClientConfiguration(Grpc.configuration(arguments[0])).setConsumerGroup(arguments[2])
                .setSubscriptionExpressions(Collections.singletonMap(topic, new FilterExpression()))
                .setMessageListener(message -> {
                    handled.add(message);
                    return Grpc.body(message).equals(failing) ? ConsumeResult.FAILURE : ConsumeResult.SUCCESS;
                }).build(); // ends with the process: to close it waits until nothing is received for 20 s
        for (int call = 0; call < calls; call++) {
            MessageView message = handled.take();
            Lines.print("body", Grpc.body(message), "attempt", message.getDeliveryAttempt());
        }
    }
}
