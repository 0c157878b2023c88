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
 * A push consumer fails each of COUNT messages once, and gets each again from the group's retry topic: marked
 * as a second try, under its own topic, whole.
 *
 * <p>Arguments: name server, topic, COUNT.
 */
public final class Retry {
    private Retry() {
    }

    public static void main(String[] arguments) throws Exception {
        String namesrv = arguments[0];
        String topic = arguments[1];
        int count = Integer.parseInt(arguments[2]);
        DefaultMQProducer producer = Patience.patient(new DefaultMQProducer("send-" + topic));
        producer.setNamesrvAddr(namesrv);
        producer.start();
        for (int i = 0; i < count; i++) {
            producer.send(TestMessage.make(topic, "retry", i));
        }

        List<String> keys = IntStream.range(0, count).mapToObj(i -> TestMessage.key("retry", i)).toList();
        Received first = new Received(keys);
        Received second = new Received(keys);
        Map<String, String> strange = new ConcurrentHashMap<>();
        DefaultMQPushConsumer consumer = Patience.patient(new DefaultMQPushConsumer("retry-" + topic));
        consumer.setNamesrvAddr(namesrv);
        consumer.setConsumeFromWhere(ConsumeFromWhere.CONSUME_FROM_FIRST_OFFSET);
        consumer.setPollNameServerInterval(1000); // to see the retry topic soon after the broker has made it
        consumer.subscribe(topic, "*");
        consumer.registerMessageListener((MessageListenerConcurrently) (messages, context) -> {
            MessageExt message = messages.get(0); // the client's default is one at a time
            if (!topic.equals(message.getTopic())) {
                strange.put(message.getKeys(), "topic " + message.getTopic());
            }
            if (message.getReconsumeTimes() == 0) {
                first.take(message);
                return ConsumeConcurrentlyStatus.RECONSUME_LATER;
            }
            if (message.getReconsumeTimes() != 1) {
                strange.put(message.getKeys(), "try " + message.getReconsumeTimes());
            }
            second.take(message);
            return ConsumeConcurrentlyStatus.CONSUME_SUCCESS;
        });
        consumer.start();
        first.await(Patience.WAIT_S);
        second.await(Patience.WAIT_S);
        consumer.shutdown();
        producer.shutdown();
        first.print("first try");
        second.print("second try");
        Lines.print("strange", strange);
    }
}
