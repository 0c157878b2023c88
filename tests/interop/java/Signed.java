import java.util.List;
import java.util.Set;
import java.util.TreeSet;
import org.apache.rocketmq.acl.common.AclClientRPCHook;
import org.apache.rocketmq.acl.common.SessionCredentials;
import org.apache.rocketmq.client.consumer.DefaultLitePullConsumer;
import org.apache.rocketmq.client.producer.DefaultMQProducer;
import org.apache.rocketmq.common.consumer.ConsumeFromWhere;
import org.apache.rocketmq.common.message.MessageExt;
import org.apache.rocketmq.remoting.RPCHook;

/**
 * Sends, receives and looks up messages as a user who signs each request, and prints what was received and found.
 *
 * <p>Arguments: name server, topic, access key, secret key.
 */
public final class Signed {
    private static final int COUNT = 4;

    private Signed() {
    }

    public static void main(String[] arguments) throws Exception {
        String namesrv = arguments[0];
        String topic = arguments[1];
        RPCHook hook = new AclClientRPCHook(new SessionCredentials(arguments[2], arguments[3]));
        DefaultMQProducer producer = Patience.patient(new DefaultMQProducer("send-" + topic, hook));
        producer.setNamesrvAddr(namesrv);
        producer.start();
        try {
            String id = producer.send(TestMessage.make(topic, "sync", 0)).getMsgId();
            producer.send(List.of(TestMessage.make(topic, "batch", 0), TestMessage.make(topic, "batch", 1)));
            producer.sendOneway(TestMessage.make(topic, "oneway", 0));
            Set<String> received = receive(namesrv, topic, hook);
            Lines.print("received", received, "found", producer.viewMessage(topic, id).getKeys());
        } finally {
            producer.shutdown();
        }
    }

    private static Set<String> receive(String namesrv, String topic, RPCHook hook) throws Exception {
        DefaultLitePullConsumer consumer = Patience.patient(new DefaultLitePullConsumer("read-" + topic, hook));
        consumer.setNamesrvAddr(namesrv);
        consumer.setConsumeFromWhere(ConsumeFromWhere.CONSUME_FROM_FIRST_OFFSET);
        consumer.subscribe(topic, "*");
        consumer.start();
        try {
            Set<String> received = new TreeSet<>();
            long until = System.currentTimeMillis() + Patience.WAIT_S * 1_000;
            while (received.size() < COUNT && System.currentTimeMillis() < until) {
                for (MessageExt message : consumer.poll(1_000)) {
                    received.add(message.getKeys());
                }
            }
            consumer.commitSync();
            return received;
        } finally {
            consumer.shutdown();
        }
    }
}
