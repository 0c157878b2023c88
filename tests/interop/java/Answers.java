import java.util.Map;
import java.util.concurrent.ConcurrentHashMap;
import java.util.concurrent.atomic.AtomicInteger;
import org.apache.rocketmq.client.consumer.DefaultMQPushConsumer;
import org.apache.rocketmq.client.consumer.listener.ConsumeConcurrentlyStatus;
import org.apache.rocketmq.client.consumer.listener.MessageListenerConcurrently;
import org.apache.rocketmq.client.producer.DefaultMQProducer;
import org.apache.rocketmq.client.producer.SendResult;
import org.apache.rocketmq.client.producer.SendStatus;
import org.apache.rocketmq.client.utils.MessageUtil;
import org.apache.rocketmq.common.consumer.ConsumeFromWhere;
import org.apache.rocketmq.common.message.Message;
import org.apache.rocketmq.common.message.MessageExt;

/** Replies to the requests of a topic: with the same key, tag and body. */
final class Answers {
    private final DefaultMQProducer producer;
    private final DefaultMQPushConsumer consumer;
    private final Map<String, String> strange = new ConcurrentHashMap<>();
    private final AtomicInteger count = new AtomicInteger();

    Answers(String namesrv, String topic) throws Exception {
        producer = Patience.patient(new DefaultMQProducer("answer-" + topic));
        producer.setNamesrvAddr(namesrv);
        producer.setInstanceName("replier");
        producer.start();
        consumer = Patience.patient(new DefaultMQPushConsumer("answers-" + topic));
        consumer.setNamesrvAddr(namesrv);
        consumer.setInstanceName("replier");
        consumer.setConsumeFromWhere(ConsumeFromWhere.CONSUME_FROM_FIRST_OFFSET);
        consumer.subscribe(topic, "*");
        consumer.registerMessageListener((MessageListenerConcurrently) (messages, context) -> {
            messages.forEach(this::take);
            return ConsumeConcurrentlyStatus.CONSUME_SUCCESS;
        });
        consumer.start();
    }

    private void take(MessageExt request) {
        if (MessageUtil.getReplyToClient(request) == null) {
            return;
        }
        if (!TestMessage.isIntact(request)) {
            strange.put(request.getKeys(), "damaged");
        }
        try {
            Message reply = MessageUtil.createReplyMessage(request, request.getBody());
            reply.setKeys(request.getKeys());
            reply.setTags(request.getTags());
            SendResult result = producer.send(reply);
            if (result.getSendStatus() != SendStatus.SEND_OK) {
                strange.put(request.getKeys(), result.toString());
            }
        } catch (Exception error) {
            strange.put(request.getKeys(), error.toString());
        }
        count.incrementAndGet();
    }

    int count() {
        return count.get();
    }

    void close() {
        consumer.shutdown();
        producer.shutdown();
        Lines.print("answered", count(), "strange", strange);
    }
}
