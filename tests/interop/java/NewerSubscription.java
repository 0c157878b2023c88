import java.lang.reflect.Field;
import java.util.concurrent.Semaphore;
import java.util.concurrent.TimeUnit;
import java.util.concurrent.locks.Lock;
import java.util.stream.IntStream;
import org.apache.rocketmq.client.consumer.DefaultMQPushConsumer;
import org.apache.rocketmq.client.consumer.MessageSelector;
import org.apache.rocketmq.client.consumer.listener.ConsumeConcurrentlyStatus;
import org.apache.rocketmq.client.consumer.listener.MessageListenerConcurrently;
import org.apache.rocketmq.client.impl.factory.MQClientInstance;
import org.apache.rocketmq.client.producer.DefaultMQProducer;
import org.apache.rocketmq.common.consumer.ConsumeFromWhere;
import org.apache.rocketmq.common.message.Message;
import org.apache.rocketmq.remoting.protocol.heartbeat.SubscriptionData;

/**
 * A push consumer gets a newer subscription and sends no heartbeat, as when its rebalance falls on another
 * heartbeat. COUNT messages go to one queue; it must get the first two, which both subscriptions want, and of the
 * others those that the newer one wants.
 *
 * <p>Arguments: name server, topic, COUNT.
 */
public final class NewerSubscription {
    /** A broker closes the connection of a client without heartbeats after 120 s; a new one begins with one. */
    private static final long WAIT_S = 60;

    private NewerSubscription() {
    }

    public static void main(String[] arguments) throws Exception {
        String namesrv = arguments[0];
        String topic = arguments[1];
        int count = Integer.parseInt(arguments[2]);
        DefaultMQProducer producer = Patience.patient(new DefaultMQProducer("send-" + topic));
        producer.setNamesrvAddr(namesrv);
        producer.start();
        send(producer, topic, 0);

        Received received = new Received(IntStream.range(0, count).filter(i -> i < 2 || i % 2 == 0)
                .mapToObj(i -> TestMessage.key("newer", i)).toList());
        Semaphore handled = new Semaphore(0);
        DefaultMQPushConsumer consumer = Patience.patient(new DefaultMQPushConsumer("newer-" + topic));
        consumer.setNamesrvAddr(namesrv);
        consumer.setConsumeFromWhere(ConsumeFromWhere.CONSUME_FROM_FIRST_OFFSET);
        consumer.subscribe(topic, MessageSelector.bySql("number < 2"));
        consumer.registerMessageListener((MessageListenerConcurrently) (messages, context) -> {
            messages.forEach(received::take);
            handled.release(messages.size());
            return ConsumeConcurrentlyStatus.CONSUME_SUCCESS;
        });
        consumer.start();
        handled.tryAcquire(Patience.WAIT_S, TimeUnit.SECONDS);
        heartbeats(consumer).lock();
        SubscriptionData data = consumer.getDefaultMQPushConsumerImpl().getRebalanceImpl()
                .getSubscriptionInner().get(topic);
        data.setSubString("number < 2 OR even = 'true'");
        data.setSubVersion(data.getSubVersion() + 1);
        send(producer, topic, 1);
        handled.tryAcquire(WAIT_S, TimeUnit.SECONDS);
        for (int i = 2; i < count; i++) {
            send(producer, topic, i);
        }
        received.await(WAIT_S);
        received.print("newer");
        consumer.shutdown();
        producer.shutdown();
    }

    /** The lock that whoever sends heartbeats holds; who does not get it sends none. */
    private static Lock heartbeats(DefaultMQPushConsumer consumer) throws ReflectiveOperationException {
        Field lock = MQClientInstance.class.getDeclaredField("lockHeartbeat");
        lock.setAccessible(true);
        return (Lock) lock.get(consumer.getDefaultMQPushConsumerImpl().getmQClientFactory());
    }

    private static void send(DefaultMQProducer producer, String topic, int number) throws Exception {
        Message message = TestMessage.make(topic, "newer", number);
        message.putUserProperty("number", String.valueOf(number));
        message.putUserProperty("even", String.valueOf(number % 2 == 0));
        producer.send(message, (queues, sent, unused) -> queues.get(0), null);
    }
}
