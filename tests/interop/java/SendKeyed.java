import java.util.List;
import org.apache.rocketmq.client.producer.DefaultMQProducer;
import org.apache.rocketmq.client.producer.SendResult;
import org.apache.rocketmq.common.message.Message;

/**
 * Sends COUNT messages that each have a key of their own and one of ten that they share, and prints for each
 * what the broker answered, for Query to find it again.
 *
 * <p>Arguments: name server, topic, kind (the start of the keys), COUNT.
 */
public final class SendKeyed {
    private SendKeyed() {
    }

    public static void main(String[] arguments) throws Exception {
        String topic = arguments[1];
        String kind = arguments[2];
        int count = Integer.parseInt(arguments[3]);
        DefaultMQProducer producer = Patience.patient(new DefaultMQProducer("send-keyed"));
        producer.setNamesrvAddr(arguments[0]);
        producer.start();
        for (int i = 0; i < count; i++) {
            Message message = TestMessage.make(topic, kind, i);
            String key = message.getKeys();
            String sharedKey = kind + "-shared" + i % 10;
            message.setKeys(List.of(key, sharedKey));
            SendResult result = producer.send(message);
            Lines.print("topic", topic, "key", key, "sharedKey", sharedKey,
                    "messageId", result.getMsgId(), "offsetMessageId", result.getOffsetMsgId(),
                    "queueId", result.getMessageQueue().getQueueId(), "queueOffset", result.getQueueOffset(),
                    "bodySha1", Lines.sha1(message.getBody()));
        }
        producer.shutdown();
    }
}
