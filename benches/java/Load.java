import com.alibaba.fastjson2.JSONObject;
import java.io.BufferedReader;
import java.io.InputStreamReader;

/**
 * A load generator on the Java client for any broker that speaks RocketMQ's protocol. It stays up and takes
 * its orders from standard input, a JSON object a line, so that brokers can be measured in turn by one process
 * that is equally warm for all. Each order is a window of load, or to leave a broker that is about to end, and is
 * answered by one line.
 */
public final class Load {
    private Load() {
    }

    public static void main(String[] arguments) throws Exception {
        BufferedReader orders = new BufferedReader(new InputStreamReader(System.in));
        for (String line = orders.readLine(); line != null; line = orders.readLine()) {
            JSONObject order = Lines.parse(line);
            if (order.getString("mode").equals("leave")) {
                Sends.leave(order.getString("namesrv"));
                System.out.println("{}");
            } else {
                window(order).run();
            }
        }
    }

    private static Window window(JSONObject order) throws Exception {
        return switch (order.getString("mode")) {
            case "push" -> new Consumes(order);
            case "pop" -> new Pops(order);
            case "pull" -> new Pulls(order);
            case "id", "key" -> new Queries(order);
            default -> new Sends(order);
        };
    }
}
