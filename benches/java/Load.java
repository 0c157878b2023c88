import com.alibaba.fastjson2.JSONObject;
import java.io.BufferedReader;
import java.io.InputStreamReader;
import java.util.ArrayList;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import java.util.concurrent.Semaphore;
import java.util.concurrent.atomic.LongAdder;
import java.util.stream.IntStream;
import org.apache.rocketmq.client.producer.DefaultMQProducer;
import org.apache.rocketmq.client.producer.SendCallback;
import org.apache.rocketmq.client.producer.SendResult;
import org.apache.rocketmq.client.producer.SendStatus;
import org.apache.rocketmq.common.message.Message;
import org.apache.rocketmq.common.message.MessageQueue;

/**
 * A load generator on the Java client for any broker that speaks RocketMQ's protocol. It stays up and takes
 * its orders from standard input, a JSON object a line, so that two brokers can be measured in turn by one
 * process that is equally warm for both. Each order is a window of sending, and is answered by one line.
 *
 * <p>An order: mode (sync, async, oneway), namesrv, pid of the broker, seconds, threads, bodySize, topics
 * (their names are bench-0, bench-1, …), and whether the broker stores what it is sent. All threads share one
 * producer, as an application's do.
 */
public final class Load {
    private static final double RAMP_S = 0.5;
    /** How many async sends may be unanswered. */
    private static final int ASYNC_WINDOW = 512;
    /** A oneway sender waits for every so many-th message: nothing else would ever slow it down. */
    private static final int ONEWAY_SYNC_EVERY = 32;
    private static final long STORED_TIMEOUT_MS = 10_000;

    private static final Map<String, DefaultMQProducer> PRODUCERS = new HashMap<>();

    private final JSONObject order;
    private final DefaultMQProducer producer;
    private final byte[] body;
    private final Semaphore unanswered = new Semaphore(ASYNC_WINDOW);
    private final Latencies latencies = new Latencies();
    private final LongAdder sent = new LongAdder();
    private final LongAdder failed = new LongAdder();
    private final Map<String, Integer> errors = new HashMap<>();
    private volatile boolean measuring;
    private volatile boolean stopping;

    private Load(JSONObject order) throws Exception {
        this.order = order;
        producer = producer(order.getString("namesrv"));
        body = new byte[order.getIntValue("bodySize")];
        for (int i = 0; i < body.length; i++) {
            body[i] = (byte) ('a' + i % 26);
        }
    }

    public static void main(String[] arguments) throws Exception {
        BufferedReader orders = new BufferedReader(new InputStreamReader(System.in));
        for (String line = orders.readLine(); line != null; line = orders.readLine()) {
            new Load(Lines.parse(line)).run();
        }
    }

    private static DefaultMQProducer producer(String namesrv) throws Exception {
        DefaultMQProducer producer = PRODUCERS.get(namesrv);
        if (producer == null) {
            producer = new DefaultMQProducer("load");
            producer.setNamesrvAddr(namesrv);
            producer.setInstanceName(namesrv);
            producer.start();
            PRODUCERS.put(namesrv, producer);
        }
        return producer;
    }

    private void run() throws Exception {
        boolean counts = order.getString("mode").equals("oneway") && order.getBooleanValue("stores");
        long storedBefore = counts ? stored() : 0;
        List<Thread> threads = IntStream.range(0, order.getIntValue("threads"))
                .mapToObj(id -> new Thread(() -> send(id))).toList();
        threads.forEach(Thread::start);
        pause(RAMP_S);
        long pid = order.getLongValue("pid");
        long ownPid = ProcessHandle.current().pid();
        ProcessUse use = ProcessUse.of(pid);
        ProcessUse ownUse = ProcessUse.of(ownPid);
        double machineMicros = ProcessUse.machineCpuMicros();
        long begin = System.nanoTime();
        measuring = true;
        pause(order.getDoubleValue("seconds"));
        measuring = false;
        double seconds = (System.nanoTime() - begin) / 1e9;
        machineMicros = ProcessUse.machineCpuMicros() - machineMicros;
        ProcessUse useAfter = ProcessUse.of(pid);
        double brokerMicros = useAfter.cpuMicrosSince(use);
        double clientMicros = ProcessUse.of(ownPid).cpuMicrosSince(ownUse);
        stopping = true;
        for (Thread thread : threads) {
            thread.join();
        }
        unanswered.acquire(ASYNC_WINDOW);

        long count = latencies.count();
        Lines.print("mode", order.getString("mode"), "seconds", seconds, "count", count,
                "perSecond", count / seconds, "meanMs", latencies.meanMs(),
                "p50Ms", latencies.percentileMs(0.5), "p99Ms", latencies.percentileMs(0.99),
                "cpuMicros", brokerMicros / Math.max(1, count),
                "clientCpuMicros", clientMicros / Math.max(1, count),
                "othersCores", (machineMicros - brokerMicros - clientMicros) / 1e6 / seconds,
                "rssMiB", useAfter.rssMiB(), "anonymousMiB", useAfter.anonymousMiB(), "failed", failed.sum(),
                "errors", errors, "lost", counts ? awaitStored(storedBefore) : 0);
    }

    private void send(int id) {
        String mode = order.getString("mode");
        int topics = order.getIntValue("topics");
        for (int i = 0; !stopping; i++) {
            Message message = new Message("bench-" + (id * 7 + i) % topics, body);
            try {
                switch (mode) {
                    case "sync" -> sendSync(message);
                    case "async" -> sendAsync(message);
                    default -> sendOneway(message, i % ONEWAY_SYNC_EVERY == 0);
                }
            } catch (Exception error) {
                note(error);
            }
        }
    }

    private void sendSync(Message message) throws Exception {
        long begin = System.nanoTime();
        check(producer.send(message), begin);
    }

    private void sendAsync(Message message) throws Exception {
        unanswered.acquire();
        long begin = System.nanoTime();
        try {
            producer.send(message, new SendCallback() {
                @Override
                public void onSuccess(SendResult result) {
                    check(result, begin);
                    unanswered.release();
                }

                @Override
                public void onException(Throwable error) {
                    note(error);
                    unanswered.release();
                }
            });
        } catch (Exception error) {
            unanswered.release();
            throw error;
        }
    }

    private void sendOneway(Message message, boolean wait) throws Exception {
        long begin = System.nanoTime();
        if (wait) {
            check(producer.send(message), begin);
        } else {
            producer.sendOneway(message);
            count(begin);
        }
    }

    private void check(SendResult result, long begin) {
        if (result.getSendStatus() == SendStatus.SEND_OK) {
            count(begin);
        } else {
            note(new IllegalStateException(result.getSendStatus().toString()));
        }
    }

    private void count(long begin) {
        sent.increment();
        if (measuring) {
            latencies.add(System.nanoTime() - begin);
        }
    }

    private synchronized void note(Throwable error) {
        failed.increment();
        errors.merge(String.valueOf(error).lines().findFirst().orElse("").replaceAll("[0-9]+", "#"), 1, Integer::sum);
    }

    /** Waits until the broker has stored all that was sent; gives the number of messages that it has not. */
    private long awaitStored(long before) throws Exception {
        long deadline = System.currentTimeMillis() + STORED_TIMEOUT_MS;
        long lost = sent.sum() - (stored() - before);
        while (lost != 0 && System.currentTimeMillis() < deadline) {
            lost = sent.sum() - (stored() - before);
        }
        return lost;
    }

    private long stored() throws Exception {
        List<MessageQueue> queues = new ArrayList<>();
        for (int i = 0; i < order.getIntValue("topics"); i++) {
            queues.addAll(producer.fetchPublishMessageQueues("bench-" + i));
        }
        long messages = 0;
        for (MessageQueue queue : queues) {
            messages += producer.maxOffset(queue) - producer.minOffset(queue);
        }
        return messages;
    }

    private static void pause(double seconds) throws InterruptedException {
        Thread.sleep((long) (seconds * 1000));
    }
}
