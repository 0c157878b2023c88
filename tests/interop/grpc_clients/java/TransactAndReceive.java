import java.time.Duration;
import java.util.Collections;
import java.util.concurrent.BlockingQueue;
import java.util.concurrent.LinkedBlockingQueue;
import org.apache.rocketmq.client.apis.consumer.FilterExpression;
import org.apache.rocketmq.client.apis.consumer.SimpleConsumer;
import org.apache.rocketmq.client.apis.message.MessageView;
import org.apache.rocketmq.client.apis.producer.Producer;
import org.apache.rocketmq.client.apis.producer.Transaction;
import org.apache.rocketmq.client.apis.producer.TransactionResolution;

/**
 * A producer of RocketMQ 5 commits one transaction, rolls back one, and leaves one open, which it commits when it is
 * asked. Prints what is asked, then the messages that a simple consumer receives.
 *
 * <p>Arguments: proxy, topic, group.
 */
public final class TransactAndReceive {
    private static final int COMMITTED = 2;

    private TransactAndReceive() {
    }

    public static void main(String[] arguments) throws Exception {
        String topic = arguments[1];
        BlockingQueue<String> asked = new LinkedBlockingQueue<>();
        try (Producer producer = Grpc.PROVIDER.newProducerBuilder()
                .setClientConfiguration(Grpc.configuration(arguments[0])).setTopics(topic)
                .setTransactionChecker(message -> {
                    asked.add(Grpc.body(message));
                    return TransactionResolution.COMMIT;
                }).build();
             SimpleConsumer consumer = Grpc.PROVIDER.newSimpleConsumerBuilder()
                .setClientConfiguration(Grpc.configuration(arguments[0])).setConsumerGroup(arguments[2])
                .setAwaitDuration(Duration.ofSeconds(15))
                .setSubscriptionExpressions(Collections.singletonMap(topic, new FilterExpression())).build()) {
            begin(producer, topic, "committed").commit();
            begin(producer, topic, "rolled back").rollback();
            begin(producer, topic, "left open");
            Lines.print("asked", asked.take());
            for (int received = 0; received < COMMITTED;) {
                for (MessageView message : consumer.receive(32, Duration.ofSeconds(15))) {
                    consumer.ack(message);
                    received++;
                    Lines.print("body", Grpc.body(message));
                }
            }
        }
    }

    private static Transaction begin(Producer producer, String topic, String body) throws Exception {
        Transaction transaction = producer.beginTransaction();
        producer.send(Grpc.message(topic, body, false), transaction);
        return transaction;
    }
}
