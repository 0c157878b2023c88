import java.nio.charset.StandardCharsets;
import java.util.Arrays;
import org.apache.rocketmq.common.message.Message;

/**
 * The messages that the programs send: everything follows from a kind and a number, so that whoever
 * receives one can tell what it must look like.
 */
final class TestMessage {
    private static final String[] TAGS = {"TagA", "TagB", "TagC"};
    private static final int LONG_EVERY = 100;
    /** Above the client's threshold (4096), so that it is compressed on its way. */
    private static final int LONG_BODY = 6000;

    private TestMessage() {
    }

    static Message make(String topic, String kind, int number) {
        return new Message(topic, tag(number), key(kind, number), body(kind, number));
    }

    static String key(String kind, int number) {
        return kind + "-" + number;
    }

    static String tag(int number) {
        return TAGS[number % TAGS.length];
    }

    static byte[] body(String kind, int number) {
        byte[] start = (key(kind, number) + "|").getBytes(StandardCharsets.UTF_8);
        byte[] body = Arrays.copyOf(start, number % LONG_EVERY == 0 ? LONG_BODY : 40 + number % 90);
        Arrays.fill(body, start.length, body.length, (byte) ('a' + number % 26));
        return body;
    }

    /** Tells whether a received message is, field by field, the one that was sent. */
    static boolean isIntact(Message message) {
        String key = message.getKeys();
        int dash = key.lastIndexOf('-');
        String kind = key.substring(0, dash);
        int number = Integer.parseInt(key.substring(dash + 1));
        return tag(number).equals(message.getTags()) && Arrays.equals(body(kind, number), message.getBody());
    }
}
