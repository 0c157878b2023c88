import java.util.ArrayList;
import java.util.List;
import java.util.Set;
import org.apache.rocketmq.client.consumer.DefaultMQPullConsumer;
import org.apache.rocketmq.client.exception.MQClientException;
import org.apache.rocketmq.client.impl.MQClientAPIImpl;
import org.apache.rocketmq.client.impl.factory.MQClientInstance;
import org.apache.rocketmq.client.producer.DefaultMQProducer;
import org.apache.rocketmq.common.MixAll;
import org.apache.rocketmq.common.consumer.ConsumeFromWhere;
import org.apache.rocketmq.remoting.protocol.heartbeat.ConsumeType;
import org.apache.rocketmq.remoting.protocol.heartbeat.ConsumerData;
import org.apache.rocketmq.remoting.protocol.heartbeat.HeartbeatData;
import org.apache.rocketmq.remoting.protocol.heartbeat.MessageModel;
import org.apache.rocketmq.remoting.protocol.heartbeat.SubscriptionData;

/**
 * Sends COUNT messages, each to a topic that is not there yet, and asks for its queues as soon as the broker has
 * answered; does the same with the retry topics of COUNT groups that send their first heartbeat.
 *
 * <p>Who asks is another client than the one that sent: it knows nothing but what the name server says.
 *
 * <p>Arguments: name server, broker, the start of the topics' names, COUNT.
 */
public final class NewTopics {
    private final List<String> unknown = new ArrayList<>();
    private final DefaultMQProducer producer;
    private final DefaultMQPullConsumer asker;

    @SuppressWarnings("deprecation") // the one consumer of the client that asks for queues and does nothing else
    private NewTopics(String namesrv, String name) throws Exception {
        producer = Patience.patient(new DefaultMQProducer("send-" + name));
        producer.setNamesrvAddr(namesrv);
        producer.start();
        asker = Patience.patient(new DefaultMQPullConsumer("ask-" + name));
        asker.setNamesrvAddr(namesrv);
        asker.start();
    }

    public static void main(String[] arguments) throws Exception {
        String name = arguments[2];
        int count = Integer.parseInt(arguments[3]);
        NewTopics topics = new NewTopics(arguments[0], name);
        for (int i = 0; i < count; i++) {
            topics.producer.send(TestMessage.make(name + i, "first", i));
            topics.ask(name + i);
        }
        Lines.print("asked", count, "unknown", topics.unknown);
        topics.unknown.clear();
        for (int i = 0; i < count; i++) {
            topics.beat(arguments[1], name + i);
            topics.ask(MixAll.getRetryTopic(name + i));
        }
        Lines.print("asked", count, "unknown", topics.unknown);
        topics.producer.shutdown();
        topics.asker.shutdown();
    }

    private void ask(String topic) {
        try {
            asker.fetchSubscribeMessageQueues(topic);
        } catch (MQClientException none) {
            unknown.add(topic);
        }
    }

    /** Send the first heartbeat of a group whose member subscribes to a topic of the same name. */
    private void beat(String broker, String name) throws Exception {
        ConsumerData consumer = new ConsumerData();
        consumer.setGroupName(name);
        consumer.setConsumeType(ConsumeType.CONSUME_PASSIVELY);
        consumer.setMessageModel(MessageModel.CLUSTERING);
        consumer.setConsumeFromWhere(ConsumeFromWhere.CONSUME_FROM_FIRST_OFFSET);
        consumer.setSubscriptionDataSet(Set.of(new SubscriptionData(name, SubscriptionData.SUB_ALL)));
        MQClientInstance client = asker.getDefaultMQPullConsumerImpl().getRebalanceImpl().getmQClientFactory();
        HeartbeatData data = new HeartbeatData();
        data.setClientID(client.getClientId());
        data.setConsumerDataSet(Set.of(consumer));
        MQClientAPIImpl api = client.getMQClientAPIImpl();
        api.sendHeartbeat(broker, data, Patience.REQUEST_MS);
    }
}
