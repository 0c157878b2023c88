import java.util.List;
import java.util.Map;
import java.util.concurrent.ConcurrentHashMap;
import java.util.stream.IntStream;
import org.apache.rocketmq.client.consumer.DefaultMQPushConsumer;
import org.apache.rocketmq.client.consumer.listener.ConsumeConcurrentlyStatus;
import org.apache.rocketmq.client.consumer.listener.MessageListenerConcurrently;
import org.apache.rocketmq.client.producer.LocalTransactionState;
import org.apache.rocketmq.client.producer.TransactionListener;
import org.apache.rocketmq.client.producer.TransactionMQProducer;
import org.apache.rocketmq.common.consumer.ConsumeFromWhere;
import org.apache.rocketmq.common.message.Message;
import org.apache.rocketmq.common.message.MessageConst;
import org.apache.rocketmq.common.message.MessageExt;

/**
 * A producer sends COUNT messages in transactions, and a push consumer gets those that are committed.
 *
 * <p>What becomes of a message follows from its number: see {@link #plan}. As "leave" none is ended and the
 * producer goes; as "finish" another producer of the group comes, sends nothing, and is asked for them.
 *
 * <p>Arguments: name server, topic, COUNT, "all" or "leave" or "finish".
 */
public final class Transact {
    private static final String IMMUNITY_S = "2";
    private static final String[] PLANS = {
        "commit", "roll back", "asked: commit", "asked: roll back", "asked twice: commit", "asked late: commit"};
    private static final Map<String, Integer> ASKED = new ConcurrentHashMap<>();
    private static final Map<String, String> STRANGE = new ConcurrentHashMap<>();

    private Transact() {
    }

    public static void main(String[] arguments) throws Exception {
        String namesrv = arguments[0];
        String topic = arguments[1];
        int count = Integer.parseInt(arguments[2]);
        String role = arguments[3];
        boolean sends = !role.equals("finish");
        TransactionMQProducer producer = producer(namesrv, topic, role.equals("leave"));
        if (sends) {
            for (int i = 0; i < count; i++) {
                producer.sendMessageInTransaction(message(topic, i), i);
            }
        } else {
            producer.send(TestMessage.make(topic + "Hello", "hello", 0)); // brokers hear of it by that
        }
        if (!role.equals("leave")) {
            List<Integer> committed = IntStream.range(0, count).filter(i -> plan(i).endsWith("commit")).boxed().toList();
            Received received = new Received(committed.stream().map(Transact::key).toList());
            DefaultMQPushConsumer consumer = consumer(namesrv, topic, received);
            received.await(Patience.WAIT_S);
            Thread.sleep(6_000); // rounds in which what was rolled back must not be asked for again
            consumer.shutdown();
            received.print("committed");
        }
        producer.shutdown();
        int mostAsked = ASKED.values().stream().max(Integer::compare).orElse(0);
        Lines.print("asked", ASKED.size(), "most", mostAsked, "strange", STRANGE);
    }

    private static String plan(int number) {
        return PLANS[number % PLANS.length];
    }

    private static String key(int number) {
        return TestMessage.key("transaction", number);
    }

    private static Message message(String topic, int number) {
        Message message = TestMessage.make(topic, "transaction", number);
        message.setFlag(number);
        if (plan(number).startsWith("asked late")) {
            message.putUserProperty(MessageConst.PROPERTY_CHECK_IMMUNITY_TIME_IN_SECONDS, IMMUNITY_S);
        }
        return message;
    }

    private static TransactionMQProducer producer(String namesrv, String topic, boolean leaves) throws Exception {
        TransactionMQProducer producer = Patience.patient(new TransactionMQProducer("transact-" + topic));
        producer.setNamesrvAddr(namesrv);
        producer.setTransactionListener(new TransactionListener() {
            @Override
            public LocalTransactionState executeLocalTransaction(Message message, Object number) {
                return leaves ? LocalTransactionState.UNKNOW : decision(plan((int) number));
            }

            @Override
            public LocalTransactionState checkLocalTransaction(MessageExt message) {
                return leaves ? LocalTransactionState.UNKNOW : answer(topic, message);
            }
        });
        producer.start();
        return producer;
    }

    /** What a producer decides at once, or when it is asked. */
    private static LocalTransactionState decision(String plan) {
        return switch (plan) {
            case "commit" -> LocalTransactionState.COMMIT_MESSAGE;
            case "roll back" -> LocalTransactionState.ROLLBACK_MESSAGE;
            default -> LocalTransactionState.UNKNOW;
        };
    }

    private static LocalTransactionState answer(String topic, MessageExt message) {
        String key = message.getKeys();
        int times = ASKED.merge(key, 1, Integer::sum);
        if (!TestMessage.isIntact(message)) {
            STRANGE.put(key, "damaged");
        }
        if (!topic.equals(message.getTopic())) {
            STRANGE.put(key, "topic " + message.getTopic());
        }
        String plan = plan(Integer.parseInt(key.substring(key.lastIndexOf('-') + 1)));
        return times == 1 && plan.startsWith("asked twice")
                ? LocalTransactionState.UNKNOW
                : decision(plan.substring(plan.indexOf(':') + 1).trim());
    }

    private static DefaultMQPushConsumer consumer(String namesrv, String topic, Received received) throws Exception {
        DefaultMQPushConsumer consumer = Patience.patient(new DefaultMQPushConsumer("transacted-" + topic));
        consumer.setNamesrvAddr(namesrv);
        consumer.setConsumeFromWhere(ConsumeFromWhere.CONSUME_FROM_FIRST_OFFSET);
        consumer.subscribe(topic, "*");
        consumer.registerMessageListener((MessageListenerConcurrently) (messages, context) -> {
            messages.forEach(received::take);
            return ConsumeConcurrentlyStatus.CONSUME_SUCCESS;
        });
        consumer.start();
        return consumer;
    }
}
