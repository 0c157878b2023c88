import org.apache.rocketmq.common.TopicConfig;
import org.apache.rocketmq.tools.admin.DefaultMQAdminExt;

/**
 * Creates topics on a broker and waits until the name server knows them.
 *
 * <p>Arguments: name server, broker, number of queues, topics.
 */
public final class CreateTopic {
    private CreateTopic() {
    }

    public static void main(String[] arguments) throws Exception {
        DefaultMQAdminExt admin = Patience.patient(new DefaultMQAdminExt(Patience.REQUEST_MS));
        admin.setNamesrvAddr(arguments[0]);
        admin.start();
        int queues = Integer.parseInt(arguments[2]);
        for (int i = 3; i < arguments.length; i++) {
            TopicConfig topic = new TopicConfig(arguments[i], queues, queues);
            admin.createAndUpdateTopicConfig(arguments[1], topic);
            awaitRoute(admin, arguments[i]);
        }
        admin.shutdown();
    }

    private static void awaitRoute(DefaultMQAdminExt admin, String topic) throws Exception {
        long deadline = System.currentTimeMillis() + Patience.WAIT_S * 1_000;
        while (true) {
            try {
                admin.examineTopicRouteInfo(topic);
                return;
            } catch (org.apache.rocketmq.client.exception.MQClientException unknown) {
                if (System.currentTimeMillis() > deadline) {
                    throw unknown;
                }
                Thread.sleep(50);
            }
        }
    }
}
