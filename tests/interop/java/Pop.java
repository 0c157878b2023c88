import java.util.List;
import org.apache.rocketmq.common.message.MessageExt;

/**
 * Pops a topic until COUNT messages came, or WAIT_MS are over, and prints each message: its key, its handle, when it
 * came, when the broker stored it (if it comes again: for that), and whether it is what was sent.
 *
 * <p>Arguments: broker's name, broker, topic, group, COUNT, INVISIBLE_MS, WAIT_MS.
 */
public final class Pop {
    private static final int AT_ONCE = 32;
    private static final long POLL_MS = 1_000;

    private Pop() {
    }

    public static void main(String[] arguments) throws Exception {
        String topic = arguments[2];
        int count = Integer.parseInt(arguments[4]);
        long invisibleMs = Long.parseLong(arguments[5]);
        long end = System.currentTimeMillis() + Long.parseLong(arguments[6]);
        try (PopClient client = new PopClient(arguments[0], arguments[1], topic, arguments[3])) {
            while (count > 0 && System.currentTimeMillis() < end) {
                List<MessageExt> messages = client.pop(Math.min(AT_ONCE, count), invisibleMs, POLL_MS, false);
                messages.forEach(message -> print(message, topic));
                count -= messages.size();
            }
        }
    }

    static void print(MessageExt message, String topic) {
        boolean isIntact = TestMessage.isIntact(message) && message.getTopic().equals(topic);
        Lines.print("key", message.getKeys(), "handle", PopClient.handle(message), "at", System.currentTimeMillis(),
                "stored", message.getStoreTimestamp(), "tries", message.getReconsumeTimes(), "intact", isIntact);
    }
}
