import com.alibaba.fastjson2.JSONObject;
import java.util.concurrent.CountDownLatch;
import java.util.concurrent.TimeUnit;

/** A window of reading what is stored: from the first message that comes to the last, or to the end of the window. */
abstract class Reads extends Window {
    private static final long FIRST_TIMEOUT_S = 60;
    private static final long IDLE_NANOS = 1_000_000_000;
    private static final long QUIET_NANOS = 200_000_000;
    private static final double LOOK_EVERY_S = 0.02;

    private final CountDownLatch first = new CountDownLatch(1);
    private volatile long lastNanos;

    Reads(JSONObject order) {
        super(order);
    }

    @Override
    final void ramp() throws Exception {
        if (!first.await(FIRST_TIMEOUT_S, TimeUnit.SECONDS)) {
            note(new IllegalStateException("no message came"));
        }
    }

    @Override
    final double spend(double seconds) throws Exception {
        long begin = System.nanoTime();
        long end = begin + (long) (seconds * 1e9);
        lastNanos = begin;
        while (System.nanoTime() < end && System.nanoTime() - lastNanos < IDLE_NANOS) {
            pause(LOOK_EVERY_S);
        }
        boolean drained = System.nanoTime() - lastNanos > QUIET_NANOS;
        return (Math.max(drained ? lastNanos : end, begin + 1) - begin) / 1e9;
    }

    /** Counts messages that were asked for at a time of System.nanoTime(). */
    final void take(int number, long askedNanos) {
        if (number > 0) {
            lastNanos = System.nanoTime();
            first.countDown();
            count(number, askedNanos);
        }
    }
}
