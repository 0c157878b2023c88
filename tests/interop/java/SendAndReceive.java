import java.util.ArrayList;
import java.util.Collection;
import java.util.List;
import java.util.Map;
import java.util.TreeMap;
import java.util.concurrent.ConcurrentHashMap;
import java.util.concurrent.CountDownLatch;
import java.util.concurrent.ExecutorService;
import java.util.concurrent.Executors;
import java.util.concurrent.Future;
import java.util.concurrent.TimeUnit;
import java.util.stream.Collectors;
import java.util.stream.IntStream;
import org.apache.rocketmq.client.consumer.DefaultLitePullConsumer;
import org.apache.rocketmq.client.consumer.DefaultMQPushConsumer;
import org.apache.rocketmq.client.consumer.listener.ConsumeConcurrentlyStatus;
import org.apache.rocketmq.client.consumer.listener.MessageListenerConcurrently;
import org.apache.rocketmq.client.producer.DefaultMQProducer;
import org.apache.rocketmq.client.producer.SendCallback;
import org.apache.rocketmq.client.producer.SendResult;
import org.apache.rocketmq.client.producer.SendStatus;
import org.apache.rocketmq.common.consumer.ConsumeFromWhere;
import org.apache.rocketmq.common.message.Message;
import org.apache.rocketmq.common.message.MessageExt;

/**
 * Sends COUNT messages each by sync, async, oneway and batch send to a topic that the first send creates, and
 * receives them by a push consumer with a tag expression and by a lite pull consumer. The consumers start
 * after the first quarter, so that they read what lies there as well as what arrives while they wait.
 *
 * <p>Arguments: name server, topic, COUNT.
 */
public final class SendAndReceive {
    private static final int SYNC_THREADS = 8;
    private static final int BATCH = 32;
    private static final List<String> KINDS = List.of("sync", "async", "oneway", "batch");

    private final String namesrv;
    private final String topic;
    private final int count;
    private final DefaultMQProducer producer;
    /** Where the broker said that it stored each message, by key; a oneway send is told nothing. */
    private final Map<String, String> answered = new ConcurrentHashMap<>();
    private final Collection<String> failed = ConcurrentHashMap.newKeySet();

    private SendAndReceive(String namesrv, String topic, int count) {
        this.namesrv = namesrv;
        this.topic = topic;
        this.count = count;
        producer = Patience.patient(new DefaultMQProducer("send-" + topic));
        producer.setNamesrvAddr(namesrv);
    }

    public static void main(String[] arguments) throws Exception {
        new SendAndReceive(arguments[0], arguments[1], Integer.parseInt(arguments[2])).run();
    }

    private void run() throws Exception {
        Received pushed = new Received(keys("Tag[AB]"));
        Received pulled = new Received(keys(".*"));
        producer.start();
        sendSync();
        DefaultMQPushConsumer push = startPush(pushed);
        DefaultLitePullConsumer pull = startLitePull(pulled);
        sendAsync();
        sendOneway();
        sendBatches();
        pushed.await(Patience.WAIT_S);
        pulled.await(Patience.WAIT_S);
        push.shutdown();
        pull.shutdown();
        producer.shutdown();

        Lines.print("sent", KINDS.size() * count, "answered", answered.size(), "failed", Received.few(failed));
        pushed.print("push");
        pulled.print("litePull");
        printPlaces(pulled.places());
    }

    private void sendSync() throws Exception {
        ExecutorService threads = Executors.newFixedThreadPool(SYNC_THREADS);
        List<Future<?>> sends = new ArrayList<>();
        for (int i = 0; i < count; i++) {
            Message message = TestMessage.make(topic, "sync", i);
            Future<?> send = threads.submit(() -> {
                note(message.getKeys(), producer.send(message));
                return null;
            });
            if (i == 0) {
                send.get(); // alone, because it creates the topic
            }
            sends.add(send);
        }
        for (Future<?> send : sends) {
            send.get();
        }
        threads.shutdown();
    }

    private void sendAsync() throws Exception {
        CountDownLatch unanswered = new CountDownLatch(count);
        for (int i = 0; i < count; i++) {
            Message message = TestMessage.make(topic, "async", i);
            producer.send(message, new SendCallback() {
                @Override
                public void onSuccess(SendResult result) {
                    note(message.getKeys(), result);
                    unanswered.countDown();
                }

                @Override
                public void onException(Throwable error) {
                    failed.add(message.getKeys() + ": " + error);
                    unanswered.countDown();
                }
            });
        }
        if (!unanswered.await(Patience.WAIT_S, TimeUnit.SECONDS)) {
            failed.add(unanswered.getCount() + " async sends without an answer");
        }
    }

    private void sendOneway() throws Exception {
        for (int i = 0; i < count; i++) {
            producer.sendOneway(TestMessage.make(topic, "oneway", i));
        }
    }

    private void sendBatches() throws Exception {
        for (int first = 0; first < count; first += BATCH) {
            List<Message> batch = IntStream.range(first, Math.min(first + BATCH, count))
                    .mapToObj(i -> TestMessage.make(topic, "batch", i)).collect(Collectors.toList());
            SendResult result = producer.send(batch);
            String[] messageIds = result.getMsgId().split(",");
            String[] offsetIds = result.getOffsetMsgId().split(",");
            for (int i = 0; i < batch.size(); i++) {
                noteAt(batch.get(i).getKeys(), result, result.getQueueOffset() + i, messageIds[i], offsetIds[i]);
            }
        }
    }

    private void note(String key, SendResult result) {
        noteAt(key, result, result.getQueueOffset(), result.getMsgId(), result.getOffsetMsgId());
    }

    private void noteAt(String key, SendResult result, long queueOffset, String messageId, String offsetId) {
        if (result.getSendStatus() != SendStatus.SEND_OK) {
            failed.add(key + ": " + result.getSendStatus());
        }
        int queueId = result.getMessageQueue().getQueueId();
        answered.put(key, Received.place(queueId, queueOffset, messageId, offsetId));
    }

    private DefaultMQPushConsumer startPush(Received received) throws Exception {
        DefaultMQPushConsumer consumer = Patience.patient(new DefaultMQPushConsumer("push-" + topic));
        consumer.setNamesrvAddr(namesrv);
        consumer.setConsumeFromWhere(ConsumeFromWhere.CONSUME_FROM_FIRST_OFFSET);
        consumer.subscribe(topic, "TagA || TagB");
        consumer.registerMessageListener((MessageListenerConcurrently) (messages, context) -> {
            messages.forEach(received::take);
            return ConsumeConcurrentlyStatus.CONSUME_SUCCESS;
        });
        consumer.start();
        return consumer;
    }

    private DefaultLitePullConsumer startLitePull(Received received) throws Exception {
        DefaultLitePullConsumer consumer = Patience.patient(new DefaultLitePullConsumer("pull-" + topic));
        consumer.setNamesrvAddr(namesrv);
        consumer.setConsumeFromWhere(ConsumeFromWhere.CONSUME_FROM_FIRST_OFFSET);
        consumer.subscribe(topic, "*");
        consumer.start();
        Thread poller = new Thread(() -> {
            while (consumer.isRunning()) {
                for (MessageExt message : consumer.poll(1000)) {
                    received.take(message);
                }
            }
        });
        poller.setDaemon(true);
        poller.start();
        return consumer;
    }

    /** Prints how many messages each queue gave, and those that lay elsewhere than the broker had answered. */
    private void printPlaces(Map<String, String> received) {
        List<String> misplaced = answered.keySet().stream()
                .filter(key -> !answered.get(key).equals(received.get(key)))
                .map(key -> key + ": " + answered.get(key) + " but " + received.get(key)).toList();
        Map<String, Long> lengths = new TreeMap<>();
        Map<String, Long> lastOffsets = new TreeMap<>();
        for (String place : received.values()) {
            String[] parts = place.split(":");
            lengths.merge(parts[0], 1L, Long::sum);
            lastOffsets.merge(parts[0], Long.parseLong(parts[1]), Math::max);
        }
        Lines.print("queues", lengths, "lastOffsets", lastOffsets, "misplaced", Received.few(misplaced));
    }

    private List<String> keys(String tagPattern) {
        return KINDS.stream().flatMap(kind -> IntStream.range(0, count)
                .filter(i -> TestMessage.tag(i).matches(tagPattern))
                .mapToObj(i -> TestMessage.key(kind, i))).toList();
    }
}
