import com.alibaba.fastjson2.JSONObject;
import java.nio.file.Files;
import java.nio.file.Path;
import org.apache.rocketmq.client.consumer.AckResult;

/**
 * Acknowledges popped messages, or changes their invisible times, and prints what the broker answered to each.
 *
 * <p>Arguments: broker's name, broker, topic, group, FILE (a line of JSON for each: its "handle", and "invisibleMs" if
 * that is to be changed).
 */
public final class Settle {
    private Settle() {
    }

    public static void main(String[] arguments) throws Exception {
        try (PopClient client = new PopClient(arguments[0], arguments[1], arguments[2], arguments[3])) {
            for (String line : Files.readAllLines(Path.of(arguments[4]))) {
                JSONObject order = Lines.parse(line);
                String handle = order.getString("handle");
                Long invisibleMs = order.getLong("invisibleMs");
                AckResult result = invisibleMs == null ? client.ack(handle) : client.change(handle, invisibleMs);
                Lines.print("status", result.getStatus(), "handle", result.getExtraInfo());
            }
        }
    }
}
