package org.apache.rocketmq.test.base;

import java.util.ArrayList;
import java.util.List;
import java.util.Map;
import org.apache.rocketmq.broker.BrokerController;
import org.apache.rocketmq.common.BrokerConfig;
import org.apache.rocketmq.remoting.netty.NettyClientConfig;
import org.apache.rocketmq.remoting.netty.NettyServerConfig;
import org.apache.rocketmq.remoting.protocol.subscription.SubscriptionGroupConfig;
import org.apache.rocketmq.store.config.MessageStoreConfig;
import org.apache.rocketmq.test.client.rmq.RMQNormalProducer;
import org.apache.rocketmq.test.clientinterface.MQConsumer;
import org.apache.rocketmq.test.clientinterface.MQProducer;
import org.apache.rocketmq.test.util.MQAdminTestUtils;
import org.apache.rocketmq.test.util.MQRandomUtils;
import org.apache.rocketmq.tools.admin.DefaultMQAdminExt;

/**
 * Stands, on the class path, before the class of this name from which RocketMQ's integration tests inherit. That one
 * starts a name server and three brokers in the tests' own process; this one has the addresses of servers that run
 * outside, given as system properties.
 *
 * <p>The controllers are never started. Tests ask them for their brokers' names and addresses; a setting that a test
 * changes in one changes nothing outside.
 */
public class BaseConf {
    public static final String NAMESRV_ADDR = System.getProperty("outside.namesrv");
    protected static final String CLUSTER_NAME = System.getProperty("outside.cluster");
    protected static final BrokerController brokerController1 = outside(System.getProperty("outside.broker1"));
    protected static final BrokerController brokerController2 = outside(System.getProperty("outside.broker2"));
    protected static final String BROKER1_NAME = brokerController1.getBrokerConfig().getBrokerName();
    protected static final String BROKER2_NAME = brokerController2.getBrokerConfig().getBrokerName();
    private static final long ADMIN_TIMEOUT_MS = 3_000;
    protected static final List<Object> mqClients = new ArrayList<>();

    static {
        IntegrationTestBase.initMQAdmin(NAMESRV_ADDR);
    }

    /** The controller of a broker "name=host:port". */
    private static BrokerController outside(String broker) {
        String[] parts = broker.split("[=:]");
        BrokerConfig config = new BrokerConfig();
        config.setBrokerName(parts[0]);
        config.setBrokerIP1(parts[1]);
        config.setNamesrvAddr(NAMESRV_ADDR);
        NettyServerConfig server = new NettyServerConfig();
        server.setListenPort(Integer.parseInt(parts[2]));
        return new BrokerController(config, server, new NettyClientConfig(), new MessageStoreConfig());
    }

    public static String initTopic() {
        String topic = MQRandomUtils.getRandomTopic();
        MQAdminTestUtils.createTopic(NAMESRV_ADDR, CLUSTER_NAME, topic, 8, Map.of());
        return topic;
    }

    public static String initConsumerGroup() {
        String group = MQRandomUtils.getRandomConsumerGroup();
        SubscriptionGroupConfig config = new SubscriptionGroupConfig();
        config.setGroupName(group);
        MQAdminTestUtils.createSub(NAMESRV_ADDR, CLUSTER_NAME, config);
        return group;
    }

    public static RMQNormalProducer getProducer(String namesrv, String topic) {
        RMQNormalProducer producer = new RMQNormalProducer(namesrv, topic, false);
        mqClients.add(producer);
        return producer;
    }

    public static DefaultMQAdminExt getAdmin(String namesrv) {
        DefaultMQAdminExt admin = new DefaultMQAdminExt(ADMIN_TIMEOUT_MS);
        admin.setNamesrvAddr(namesrv);
        mqClients.add(admin);
        return admin;
    }

    /** Ends the clients that a test made. */
    public static void shutdown() {
        for (Object client : mqClients) {
            if (client instanceof MQProducer producer) {
                producer.shutdown();
            } else if (client instanceof MQConsumer consumer) {
                consumer.shutdown();
            } else if (client instanceof DefaultMQAdminExt admin) {
                admin.shutdown();
            }
        }
        mqClients.clear();
    }
}
