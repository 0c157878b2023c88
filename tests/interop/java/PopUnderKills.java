import java.util.List;
import java.util.Random;
import java.util.concurrent.TimeUnit;
import org.apache.rocketmq.client.consumer.AckResult;
import org.apache.rocketmq.client.consumer.AckStatus;
import org.apache.rocketmq.common.message.MessageExt;

/**
 * Pops a topic until it is killed, and prints a line for each message it got, for each that it asks to acknowledge, and
 * for each that the broker said is. Some messages it forgets, and some it asks to be invisible for longer and forgets
 * then, as a busy program does.
 *
 * <p>Arguments: broker's name, broker, topic, group, INVISIBLE_MS.
 */
public final class PopUnderKills {
    private static final int AT_ONCE = 16;
    private static final long POLL_MS = 1_000;
    private static final long PAUSE_MS = 100;
    private static final double FORGETS = 0.05;
    private static final double WANTS_LONGER = 0.1;

    private PopUnderKills() {
    }

    public static void main(String[] arguments) throws Exception {
        String topic = arguments[2];
        long invisibleMs = Long.parseLong(arguments[4]);
        Random chance = new Random();
        try (PopClient client = new PopClient(arguments[0], arguments[1], topic, arguments[3])) {
            while (true) {
                try {
                    List<MessageExt> messages = client.pop(AT_ONCE, invisibleMs, POLL_MS, false);
                    messages.forEach(message -> Pop.print(message, topic));
                    for (MessageExt message : messages) {
                        double choice = chance.nextDouble();
                        if (choice < FORGETS) {
                            print("forgot", message);
                        } else if (choice < FORGETS + WANTS_LONGER) {
                            lengthen(client, message, invisibleMs);
                        } else {
                            acknowledge(client, message);
                        }
                    }
                } catch (Exception unreachable) { // the broker is gone: it will come back
                    TimeUnit.MILLISECONDS.sleep(PAUSE_MS);
                }
            }
        }
    }

    /** Says so before, too: who is killed in between does not know whether the broker has heard it. */
    private static void acknowledge(PopClient client, MessageExt message) throws Exception {
        print("asked", message);
        if (client.ack(PopClient.handle(message)).getStatus() == AckStatus.OK) {
            print("acked", message);
        }
    }

    private static void lengthen(PopClient client, MessageExt message, long invisibleMs) throws Exception {
        AckResult changed = client.change(PopClient.handle(message), invisibleMs * 2);
        if (changed.getStatus() == AckStatus.OK) {
            Lines.print("changed", message.getKeys(), "handle", changed.getExtraInfo(),
                    "at", System.currentTimeMillis());
        }
    }
    private static void print(String what, MessageExt message) {
        Lines.print(what, message.getKeys(), "handle", PopClient.handle(message), "at", System.currentTimeMillis());
    }
}
