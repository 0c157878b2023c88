import java.util.ArrayList;
import java.util.Collection;
import java.util.List;
import java.util.Map;
import java.util.Set;
import java.util.concurrent.ConcurrentHashMap;
import java.util.concurrent.CountDownLatch;
import java.util.concurrent.Semaphore;
import java.util.concurrent.TimeUnit;
import org.apache.rocketmq.common.message.MessageClientExt;
import org.apache.rocketmq.common.message.MessageExt;

/** What a consumer got, held against the keys that it must get: each once and nothing else. */
final class Received {
    private static final long QUIET_S = 2;
    private final Set<String> expected;
    private final Map<String, Integer> times = new ConcurrentHashMap<>();
    private final Map<String, String> places = new ConcurrentHashMap<>();
    private final Collection<String> unexpected = ConcurrentHashMap.newKeySet();
    private final Collection<String> damaged = ConcurrentHashMap.newKeySet();
    private final CountDownLatch missing;
    private final Semaphore surplus = new Semaphore(0);

    Received(Collection<String> expectedKeys) {
        expected = Set.copyOf(expectedKeys);
        missing = new CountDownLatch(expected.size());
    }

    void take(MessageExt message) {
        String key = message.getKeys();
        if (!TestMessage.isIntact(message)) {
            damaged.add(key);
        }
        if (!expected.contains(key)) {
            unexpected.add(key);
            return;
        }
        places.put(key, place(message.getQueueId(), message.getQueueOffset(), message.getMsgId(),
                ((MessageClientExt) message).getOffsetMsgId()));
        if (times.merge(key, 1, Integer::sum) == 1) {
            missing.countDown();
        } else {
            surplus.release();
        }
    }

    /** Waits until every expected message came, and then until nothing more comes for a while. */
    void await(long timeoutS) throws InterruptedException {
        if (missing.await(timeoutS, TimeUnit.SECONDS)) {
            while (surplus.tryAcquire(QUIET_S, TimeUnit.SECONDS)) {
                continue;
            }
        }
    }

    /** Where each message was received from, by key. */
    Map<String, String> places() {
        return places;
    }

    /** Prints the verdict: a list that should be empty shows its first few members. */
    void print(String consumer) {
        List<String> twice = new ArrayList<>();
        times.forEach((key, count) -> {
            if (count > 1) {
                twice.add(key);
            }
        });
        List<String> never = new ArrayList<>(expected);
        never.removeAll(times.keySet());
        Lines.print("consumer", consumer, "expected", expected.size(), "received", times.size(),
                "missing", few(never), "twice", few(twice), "unexpected", few(unexpected), "damaged", few(damaged));
    }

    static String place(int queueId, long queueOffset, String messageId, String offsetMessageId) {
        return queueId + ":" + queueOffset + ":" + messageId + ":" + offsetMessageId;
    }

    static List<String> few(Collection<String> keys) {
        return keys.stream().limit(5).toList();
    }
}
