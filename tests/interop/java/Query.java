import com.alibaba.fastjson2.JSONObject;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.ArrayList;
import java.util.List;
import java.util.Map;
import java.util.Set;
import java.util.TreeMap;
import java.util.stream.Collectors;
import org.apache.rocketmq.client.QueryResult;
import org.apache.rocketmq.client.exception.MQBrokerException;
import org.apache.rocketmq.client.exception.MQClientException;
import org.apache.rocketmq.client.impl.MQAdminImpl;
import org.apache.rocketmq.client.producer.DefaultMQProducer;
import org.apache.rocketmq.common.message.MessageClientExt;
import org.apache.rocketmq.common.message.MessageDecoder;
import org.apache.rocketmq.common.message.MessageExt;
import org.apache.rocketmq.common.message.MessageId;
import org.apache.rocketmq.tools.admin.DefaultMQAdminExt;

/**
 * Finds the messages that SendKeyed told of, one by one, by offset message id, by key, by shared key and by
 * unique key; then asks for some that do not exist, and prints how that was answered.
 *
 * <p>Arguments: name server, FILE (lines that SendKeyed printed).
 */
public final class Query {
    private static final int MAX_ANSWERS = 64;
    private static final String NO_KEY = "a-key-that-nobody-sent";

    private final DefaultMQAdminExt admin = Patience.patient(new DefaultMQAdminExt(Patience.REQUEST_MS));
    private final DefaultMQProducer producer = Patience.patient(new DefaultMQProducer("query"));
    /** What the two stand on; unlike theirs, its viewMessage does not hide the broker's own error. */
    private final MQAdminImpl plain;
    private final List<JSONObject> sent;
    private final List<String> wrong = new ArrayList<>();

    private Query(String namesrv, List<JSONObject> sent) throws Exception {
        this.sent = sent;
        admin.setNamesrvAddr(namesrv);
        admin.start();
        plain = admin.getDefaultMQAdminExtImpl().getMqClientInstance().getMQAdminImpl();
        producer.setNamesrvAddr(namesrv);
        producer.start();
    }

    public static void main(String[] arguments) throws Exception {
        List<JSONObject> sent = Files.readAllLines(Path.of(arguments[1])).stream().map(Lines::parse).toList();
        Query query = new Query(arguments[0], sent);
        query.awaitIndex();
        query.findEach();
        query.findSharedKeys();
        Lines.print("asked", sent.size(), "wrong", Received.few(query.wrong));
        query.askForWhatIsNotThere();
        query.producer.shutdown();
        query.admin.shutdown();
    }

    /** The index is built behind the append: ask for the last message until it is in. */
    private void awaitIndex() throws InterruptedException {
        JSONObject last = sent.get(sent.size() - 1);
        long deadline = System.currentTimeMillis() + Patience.WAIT_S * 1_000;
        while (byKey(last.getString("topic"), last.getString("key")).isEmpty()
                && System.currentTimeMillis() < deadline) {
            Thread.sleep(20);
        }
    }

    private void findEach() throws Exception {
        for (JSONObject line : sent) {
            String topic = line.getString("topic");
            String offsetMessageId = line.getString("offsetMessageId");
            String messageId = line.getString("messageId");
            String key = line.getString("key");
            check("viewMessage", line, List.of(admin.viewMessage(topic, offsetMessageId)));
            check("viewMessage by unique key", line, List.of(producer.viewMessage(topic, messageId)));
            check("queryMessage", line, byKey(topic, key));
            check("queryMessageByUniqKey", line, byUniqueKey(topic, messageId));
        }
    }

    private void findSharedKeys() throws InterruptedException {
        Map<String, Set<String>> expected = sent.stream().collect(Collectors.groupingBy(
                line -> line.getString("sharedKey"), TreeMap::new,
                Collectors.mapping(line -> line.getString("offsetMessageId"), Collectors.toSet())));
        String topic = sent.get(0).getString("topic");
        expected.forEach((sharedKey, ids) -> {
            List<MessageExt> answer = byKey(topic, sharedKey);
            Set<String> found = answer.stream().map(Query::offsetMessageId).collect(Collectors.toSet());
            if (!found.equals(ids) || answer.size() != ids.size()) {
                wrong.add("queryMessage " + sharedKey + ": " + answer.size() + " answers for " + ids.size());
            }
        });
    }

    private void check(String how, JSONObject line, List<MessageExt> answer) {
        if (answer.size() != 1 || !isSame(line, answer.get(0))) {
            wrong.add(how + " " + line + ": " + answer);
        }
    }

    private static boolean isSame(JSONObject line, MessageExt message) {
        return line.getString("topic").equals(message.getTopic())
                && (line.getString("key") + " " + line.getString("sharedKey")).equals(message.getKeys())
                && line.getString("messageId").equals(message.getMsgId())
                && line.getString("offsetMessageId").equals(offsetMessageId(message))
                && line.getIntValue("queueId") == message.getQueueId()
                && line.getLongValue("queueOffset") == message.getQueueOffset()
                && line.getString("bodySha1").equals(Lines.sha1(message.getBody()));
    }

    private static String offsetMessageId(MessageExt message) {
        return ((MessageClientExt) message).getOffsetMsgId();
    }

    private List<MessageExt> byKey(String topic, String key) {
        return answerOf(() -> admin.queryMessage(topic, key, MAX_ANSWERS, 0, Long.MAX_VALUE));
    }

    private List<MessageExt> byUniqueKey(String topic, String messageId) {
        return answerOf(() -> plain.queryMessageByUniqKey(topic, messageId, MAX_ANSWERS, 0, Long.MAX_VALUE));
    }

    private interface Question {
        QueryResult ask() throws Exception;
    }

    /** The client throws NO_MESSAGE (208) instead of giving an empty answer. */
    private static List<MessageExt> answerOf(Question question) {
        try {
            return question.ask().getMessageList();
        } catch (MQClientException none) {
            return List.of();
        } catch (Exception error) {
            throw new IllegalStateException(error);
        }
    }

    private void askForWhatIsNotThere() throws Exception {
        String topic = sent.get(0).getString("topic");
        String knownId = sent.get(0).getString("offsetMessageId");
        MessageId known = MessageDecoder.decodeMessageId(knownId);
        String beyondTheEnd = MessageDecoder.createMessageId(known.getAddress(), 1L << 60);
        String insideARecord = MessageDecoder.createMessageId(known.getAddress(), known.getOffset() + 3);
        printAnswer("viewMessage beyond the end", () -> plain.viewMessage(topic, beyondTheEnd));
        printAnswer("viewMessage inside a record", () -> plain.viewMessage(topic, insideARecord));
        printAnswer("queryMessage", () -> admin.queryMessage(topic, NO_KEY, MAX_ANSWERS, 0, Long.MAX_VALUE));
        printAnswer("queryMessage of another topic",
                () -> admin.queryMessage("TBW102", sent.get(0).getString("key"), MAX_ANSWERS, 0, Long.MAX_VALUE));
        printAnswer("queryMessage before it was stored",
                () -> admin.queryMessage(topic, sent.get(0).getString("key"), MAX_ANSWERS, 0, 1_000_000));
        Lines.print("absent", "queryMessageByUniqKey",
                "answer", byUniqueKey(topic, "7F000001000012345678000000000000").size() + " messages");
    }

    private interface Lookup {
        Object find() throws Exception;
    }

    private static void printAnswer(String what, Lookup lookup) throws Exception {
        String answer;
        try {
            answer = String.valueOf(lookup.find());
        } catch (MQBrokerException error) {
            answer = "broker error " + error.getResponseCode();
        } catch (MQClientException error) {
            answer = "client error " + error.getResponseCode();
        }
        Lines.print("absent", what, "answer", answer);
    }
}
