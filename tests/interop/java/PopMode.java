import java.util.Collection;
import org.apache.rocketmq.common.message.MessageRequestMode;
import org.apache.rocketmq.remoting.protocol.subscription.SubscriptionGroupConfig;
import org.apache.rocketmq.tools.admin.DefaultMQAdminExt;

/** Has a broker tell the members of a group to pop topics, and not to pull from queues of their own. */
final class PopMode {
    private static final int ALL_QUEUES_SHARED = 0;

    private PopMode() {
    }

    static void set(String namesrv, String broker, String group, Collection<String> topics) throws Exception {
        DefaultMQAdminExt admin = Patience.patient(new DefaultMQAdminExt(Patience.REQUEST_MS));
        admin.setNamesrvAddr(namesrv);
        admin.start();
        SubscriptionGroupConfig config = new SubscriptionGroupConfig();
        config.setGroupName(group);
        admin.createAndUpdateSubscriptionGroupConfig(broker, config);
        for (String topic : topics) {
            admin.setMessageRequestMode(
                    broker, topic, group, MessageRequestMode.POP, ALL_QUEUES_SHARED, Patience.REQUEST_MS);
        }
        admin.shutdown();
    }
}
