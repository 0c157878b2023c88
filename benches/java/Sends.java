import com.alibaba.fastjson2.JSONObject;
import java.util.ArrayList;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import java.util.concurrent.Semaphore;
import java.util.concurrent.TimeUnit;
import java.util.concurrent.atomic.LongAdder;
import java.util.concurrent.locks.LockSupport;
import java.util.stream.IntStream;
import org.apache.rocketmq.acl.common.AclClientRPCHook;
import org.apache.rocketmq.acl.common.SessionCredentials;
import org.apache.rocketmq.client.consumer.DefaultMQPushConsumer;
import org.apache.rocketmq.client.producer.DefaultMQProducer;
import org.apache.rocketmq.client.producer.SendCallback;
import org.apache.rocketmq.client.producer.SendResult;
import org.apache.rocketmq.client.producer.SendStatus;
import org.apache.rocketmq.common.message.Message;
import org.apache.rocketmq.common.message.MessageQueue;
import org.apache.rocketmq.remoting.RPCHook;

/**
 * Sending to topics in turn (bench-0, bench-1, …) over one producer that all threads share, as an application's do.
 *
 * <p>The order's mode is sync, async, oneway or batch. Further: bodySize, topics; stores, whether the broker
 * keeps what it is sent; consumes, whether a consumer reads it at the same time; rate, messages a second of
 * all threads together (0: as many as can be).
 */
final class Sends extends Window {
    /** How many async sends may be unanswered. */
    private static final int ASYNC_WINDOW = 512;
    /** A oneway sender waits for every so many-th message: nothing else would ever slow it down. */
    private static final int ONEWAY_SYNC_EVERY = 32;
    private static final int BATCH = 32;
    private static final long STORED_TIMEOUT_MS = 10_000;
    private static final Map<String, DefaultMQProducer> PRODUCERS = new HashMap<>();

    private final DefaultMQProducer producer;
    private final byte[] body;
    private final int topics;
    private final long periodNanos;
    private final Semaphore unanswered = new Semaphore(ASYNC_WINDOW);
    private final LongAdder sent = new LongAdder();
    private final boolean countsStored;
    private long storedBefore;
    private long firstNanos;
    private DefaultMQPushConsumer consumer;

    Sends(JSONObject order) throws Exception {
        super(order);
        producer = producer(order.getString("namesrv"));
        body = body(order.getIntValue("bodySize"));
        topics = order.getIntValue("topics");
        double rate = order.getDoubleValue("rate");
        periodNanos = rate == 0 ? 0 : (long) (1e9 * order.getIntValue("threads") / rate);
        countsStored = order.getString("mode").equals("oneway") && order.getBooleanValue("stores");
    }

    static byte[] body(int size) {
        byte[] body = new byte[size];
        for (int i = 0; i < size; i++) {
            body[i] = (byte) ('a' + i % 26);
        }
        return body;
    }

    static DefaultMQProducer producer(String namesrv) throws Exception {
        DefaultMQProducer producer = PRODUCERS.get(namesrv);
        if (producer == null) {
            producer = new DefaultMQProducer("load", signature());
            producer.setNamesrvAddr(namesrv);
            producer.setInstanceName(namesrv);
            producer.start();
            PRODUCERS.put(namesrv, producer);
        }
        return producer;
    }

    /** What signs requests, if this load generator was given an access key; else null. */
    private static RPCHook signature() {
        String accessKey = System.getProperty("load.accessKey");
        return accessKey == null ? null
                : new AclClientRPCHook(new SessionCredentials(accessKey, System.getProperty("load.secretKey")));
    }

    /** Keeps no connection to a cluster: it is about to end. */
    static void leave(String namesrv) {
        DefaultMQProducer producer = PRODUCERS.remove(namesrv);
        if (producer != null) {
            producer.shutdown();
        }
    }

    @Override
    void prepare() throws Exception {
        if (order.getBooleanValue("consumes")) {
            consumer = Consumes.start(order, false, this::countConsumed);
        }
        storedBefore = countsStored ? stored() : 0;
        firstNanos = System.nanoTime();
    }

    @Override
    void work(int thread, int turn) throws Exception {
        long begin = System.nanoTime();
        if (periodNanos != 0) { // a late message counts from when it should have been sent
            begin = firstNanos + turn * periodNanos + thread * periodNanos / order.getIntValue("threads");
            LockSupport.parkNanos(begin - System.nanoTime());
        }
        String topic = "bench-" + (thread * 7 + turn) % topics;
        switch (order.getString("mode")) {
            case "sync" -> check(producer.send(new Message(topic, body)), 1, begin);
            case "batch" -> check(producer.send(batch(topic)), BATCH, begin);
            case "async" -> sendAsync(new Message(topic, body), begin);
            case "oneway" -> sendOneway(new Message(topic, body), turn % ONEWAY_SYNC_EVERY == 0, begin);
            default -> throw new IllegalArgumentException(order.getString("mode"));
        }
    }

    @Override
    long end() throws Exception {
        if (!unanswered.tryAcquire(ASYNC_WINDOW, STORED_TIMEOUT_MS, TimeUnit.MILLISECONDS)) {
            note(new IllegalStateException("sends were never answered"));
        }
        if (consumer != null) {
            consumer.shutdown();
        }
        return countsStored ? awaitStored() : 0;
    }

    private List<Message> batch(String topic) {
        return IntStream.range(0, BATCH).mapToObj(i -> new Message(topic, body)).toList();
    }

    private void sendAsync(Message message, long begin) throws Exception {
        unanswered.acquire();
        try {
            producer.send(message, new SendCallback() {
                @Override
                public void onSuccess(SendResult result) {
                    unanswered.release();
                    check(result, 1, begin);
                }

                @Override
                public void onException(Throwable error) {
                    unanswered.release();
                    note(error);
                }
            });
        } catch (Exception error) {
            unanswered.release();
            throw error;
        }
    }

    private void sendOneway(Message message, boolean wait, long begin) throws Exception {
        if (wait) {
            check(producer.send(message), 1, begin);
        } else {
            producer.sendOneway(message);
            sent.increment();
            count(1, begin);
        }
    }

    private void check(SendResult result, int number, long begin) {
        if (result.getSendStatus() == SendStatus.SEND_OK) {
            sent.add(number);
            count(number, begin);
        } else {
            note(new IllegalStateException(result.getSendStatus().toString()));
        }
    }

    /** Waits until the broker has stored all that was sent; gives the number of messages that it has not. */
    private long awaitStored() throws Exception {
        long deadline = System.currentTimeMillis() + STORED_TIMEOUT_MS;
        long lost = sent.sum() - (stored() - storedBefore);
        while (lost != 0 && System.currentTimeMillis() < deadline) {
            lost = sent.sum() - (stored() - storedBefore);
        }
        return lost;
    }

    private long stored() throws Exception {
        List<MessageQueue> queues = new ArrayList<>();
        for (int i = 0; i < topics; i++) {
            queues.addAll(producer.fetchPublishMessageQueues("bench-" + i));
        }
        long messages = 0;
        for (MessageQueue queue : queues) {
            messages += producer.maxOffset(queue) - producer.minOffset(queue);
        }
        return messages;
    }
}
