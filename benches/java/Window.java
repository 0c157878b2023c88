import com.alibaba.fastjson2.JSONObject;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import java.util.concurrent.atomic.LongAdder;
import java.util.stream.IntStream;

/**
 * One order to a load generator: threads work for a while, and what is done between two moments is counted.
 *
 * <p>Every order has: mode, threads, seconds, and pid of the broker, whose use of the machine is told too, as
 * is that of its slave if there is a slavePid. One to send may have messages instead of seconds: it ends when so many
 * are answered.
 */
abstract class Window {
    private static final double RAMP_S = 0.5;
    private static final double LOOK_EVERY_S = 0.005;

    protected final JSONObject order;
    private final Latencies latencies = new Latencies();
    private final LongAdder messages = new LongAdder();
    private final LongAdder consumed = new LongAdder();
    private final LongAdder failed = new LongAdder();
    private final Map<String, Integer> errors = new HashMap<>();
    private volatile boolean measuring;
    private volatile boolean stopping;

    Window(JSONObject order) {
        this.order = order;
    }

    /** Gets ready; nothing counts yet. */
    void prepare() throws Exception {
    }

    /** Does one piece of work on a thread; is called again and again until the window ends. */
    abstract void work(int thread, int turn) throws Exception;

    /** Waits until the load is steady. */
    void ramp() throws Exception {
        pause(RAMP_S);
    }

    /** Waits until the window is over; gives its length, which is shorter where there was no more to do. */
    double spend(double seconds) throws Exception {
        long begin = System.nanoTime();
        long wanted = order.getLongValue("messages");
        if (wanted == 0) {
            pause(seconds);
        }
        while (messages.sum() < wanted) {
            pause(LOOK_EVERY_S);
        }
        return (System.nanoTime() - begin) / 1e9;
    }

    /** Waits for what is under way when all threads have stopped; gives how many messages were lost. */
    long end() throws Exception {
        return 0;
    }

    final void run() throws Exception {
        prepare();
        List<Thread> threads = IntStream.range(0, order.getIntValue("threads"))
                .mapToObj(id -> new Thread(() -> workUntilStopped(id))).toList();
        threads.forEach(Thread::start);
        ramp();
        long pid = order.getLongValue("pid");
        long ownPid = ProcessHandle.current().pid();
        long slavePid = order.getLongValue("slavePid", ownPid);
        ProcessUse use = ProcessUse.of(pid);
        ProcessUse slaveUse = ProcessUse.of(slavePid);
        ProcessUse ownUse = ProcessUse.of(ownPid);
        double machineMicros = ProcessUse.machineCpuMicros();
        measuring = true;
        double seconds = spend(order.getDoubleValue("seconds"));
        measuring = false;
        machineMicros = ProcessUse.machineCpuMicros() - machineMicros;
        ProcessUse useAfter = ProcessUse.of(pid);
        double brokerMicros = useAfter.cpuMicrosSince(use);
        double slaveMicros = slavePid == ownPid ? 0 : ProcessUse.of(slavePid).cpuMicrosSince(slaveUse);
        double clientMicros = ProcessUse.of(ownPid).cpuMicrosSince(ownUse);
        stopping = true;
        for (Thread thread : threads) {
            thread.join();
        }
        long lost = end();
        double count = Math.max(1, messages.sum());
        Lines.print("mode", order.getString("mode"), "seconds", seconds, "count", messages.sum(),
                "perSecond", messages.sum() / seconds, "consumedPerSecond", consumed.sum() / seconds,
                "meanMs", latencies.meanMs(), "p50Ms", latencies.percentileMs(0.5),
                "p99Ms", latencies.percentileMs(0.99), "maxMs", latencies.percentileMs(1),
                "cpuMicros", brokerMicros / count, "slaveCpuMicros", slaveMicros / count,
                "clientCpuMicros", clientMicros / count,
                "othersCores", (machineMicros - brokerMicros - slaveMicros - clientMicros) / 1e6 / seconds,
                "rssMiB", useAfter.rssMiB(), "anonymousMiB", useAfter.anonymousMiB(), "failed", failed.sum(),
                "errors", errors, "lost", lost);
    }

    /** Counts messages that were sent, or read, by one request begun at a time of System.nanoTime(). */
    final void count(int number, long begin) {
        if (measuring) {
            messages.add(number);
            latencies.add(System.nanoTime() - begin);
        }
    }

    /** Counts messages that came to a consumer, beside those that are sent. */
    final void countConsumed(int number) {
        if (measuring) {
            consumed.add(number);
        }
    }

    final synchronized void note(Throwable error) {
        failed.increment();
        String text = String.valueOf(error).lines().findFirst().orElse("");
        errors.merge(text.replaceAll("[0-9]+", "#"), 1, Integer::sum);
    }

    static void pause(double seconds) throws InterruptedException {
        Thread.sleep((long) (seconds * 1000));
    }

    private void workUntilStopped(int thread) {
        for (int turn = 0; !stopping; turn++) {
            try {
                work(thread, turn);
            } catch (Exception error) {
                note(error);
            }
        }
    }
}
