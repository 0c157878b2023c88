import java.util.concurrent.atomic.AtomicIntegerArray;
import java.util.concurrent.atomic.LongAdder;

/** A histogram of durations in steps of 10 µs up to a second; any number of threads may add to it. */
final class Latencies {
    private static final int STEP_NANOS = 10_000;
    private static final int STEPS = 100_000;
    private final AtomicIntegerArray counts = new AtomicIntegerArray(STEPS);
    private final LongAdder count = new LongAdder();
    private final LongAdder sumNanos = new LongAdder();

    void add(long nanos) {
        counts.incrementAndGet((int) Math.min(nanos / STEP_NANOS, STEPS - 1));
        count.increment();
        sumNanos.add(nanos);
    }

    long count() {
        return count.sum();
    }

    double meanMs() {
        return sumNanos.sum() / 1e6 / Math.max(1, count());
    }

    /** Gives the middle of the step in which the share of the durations is reached. */
    double percentileMs(double share) {
        long needed = (long) Math.ceil(share * count());
        long seen = 0;
        for (int step = 0; step < STEPS; step++) {
            seen += counts.get(step);
            if (seen >= needed) {
                return (step + 0.5) * STEP_NANOS / 1e6;
            }
        }
        return 0;
    }
}
