import java.util.List;
import java.util.Map;
import java.util.concurrent.ConcurrentHashMap;
import java.util.stream.IntStream;
import org.apache.rocketmq.client.consumer.DefaultMQPushConsumer;
import org.apache.rocketmq.client.consumer.listener.ConsumeConcurrentlyStatus;
import org.apache.rocketmq.client.consumer.listener.MessageListenerConcurrently;
import org.apache.rocketmq.client.producer.DefaultMQProducer;
import org.apache.rocketmq.common.consumer.ConsumeFromWhere;
import org.apache.rocketmq.common.message.MessageExt;

/**
 * A push consumer whose group is set to pop mode gets COUNT messages, fails every third once, and gets those again:
 * marked as a second try, under their own topic, whole.
 *
 * <p>Arguments: name server, broker, topic, COUNT.
 */
public final class PopPush {
    private static final int FAILS_EVERY = 3;

    private final String topic;
    private final Map<String, String> strange = new ConcurrentHashMap<>();
    private final Received first;
    private final Received second;

    private PopPush(String topic, int count) {
        this.topic = topic;
        List<String> keys = IntStream.range(0, count).mapToObj(i -> TestMessage.key("popped", i)).toList();
        first = new Received(keys);
        second = new Received(keys.stream().filter(PopPush::fails).toList());
    }

    public static void main(String[] arguments) throws Exception {
        String topic = arguments[2];
        int count = Integer.parseInt(arguments[3]);
        String group = "pop-" + topic;
        PopMode.set(arguments[0], arguments[1], group, List.of(topic));
        DefaultMQProducer producer = Patience.patient(new DefaultMQProducer("send-" + topic));
        producer.setNamesrvAddr(arguments[0]);
        producer.start();
        for (int i = 0; i < count / 2; i++) {
            producer.send(TestMessage.make(topic, "popped", i));
        }
        PopPush received = new PopPush(topic, count);
        DefaultMQPushConsumer consumer = received.start(arguments[0], group);
        for (int i = count / 2; i < count; i++) { // while pops wait
            producer.send(TestMessage.make(topic, "popped", i));
        }
        received.second.await(Patience.WAIT_S);
        received.first.await(Patience.WAIT_S);
        consumer.shutdown();
        producer.shutdown();
        received.first.print("first try");
        received.second.print("second try");
        Lines.print("strange", received.strange);
    }

    private DefaultMQPushConsumer start(String namesrv, String group) throws Exception {
        DefaultMQPushConsumer consumer = Patience.patient(new DefaultMQPushConsumer(group));
        consumer.setNamesrvAddr(namesrv);
        consumer.setClientRebalance(false); // the broker says what each member does, and how
        consumer.setConsumeFromWhere(ConsumeFromWhere.CONSUME_FROM_FIRST_OFFSET);
        consumer.subscribe(topic, "*");
        consumer.registerMessageListener((MessageListenerConcurrently) (messages, context) ->
                take(messages.get(0))); // the client's default is one at a time
        consumer.start();
        return consumer;
    }

    private ConsumeConcurrentlyStatus take(MessageExt message) {
        String key = message.getKeys();
        if (PopClient.handle(message) == null) {
            strange.put(key, "pulled, not popped");
        }
        if (!topic.equals(message.getTopic())) {
            strange.put(key, "topic " + message.getTopic());
        }
        if (message.getReconsumeTimes() == 0) {
            first.take(message);
            return fails(key) ? ConsumeConcurrentlyStatus.RECONSUME_LATER : ConsumeConcurrentlyStatus.CONSUME_SUCCESS;
        }
        if (message.getReconsumeTimes() != 1) {
            strange.put(key, "try " + message.getReconsumeTimes());
        }
        second.take(message);
        return ConsumeConcurrentlyStatus.CONSUME_SUCCESS;
    }

    private static boolean fails(String key) {
        return Integer.parseInt(key.substring(key.lastIndexOf('-') + 1)) % FAILS_EVERY == 0;
    }
}
