import com.alibaba.fastjson2.JSONObject;
import java.io.BufferedReader;
import java.io.IOException;
import java.io.InputStreamReader;
import java.net.InetSocketAddress;
import java.net.StandardSocketOptions;
import java.nio.channels.SelectionKey;
import java.nio.channels.Selector;
import java.nio.channels.SocketChannel;
import java.util.ArrayList;
import java.util.HashMap;
import java.util.List;
import java.util.Map;

/**
 * A load generator over many connections that costs as little as can be: one thread, one selector, frames
 * that are made beforehand. Each connection keeps a number of sends under way; an answer brings the next one.
 * It takes its orders from standard input, a JSON object a line, each for a window of sending, and answers each
 * by a line; so one warm process measures several brokers in turn.
 *
 * <p>An order: broker (host:port), pid of the broker, seconds, connections, window (sends under way on each),
 * bodySize, topics (their names are bench-0, bench-1, …), queues of each, header (JSON or ROCKETMQ).
 */
public final class RawLoad {
    private static final long RAMP_NANOS = 500_000_000;
    private static final int SUCCESS = 0;
    private static final long LAST_ANSWERS_NANOS = 10_000_000_000L;

    private final JSONObject order;
    private final Map<Integer, Integer> codes = new HashMap<>();
    private Latencies latencies = new Latencies();

    private RawLoad(JSONObject order) {
        this.order = order;
    }

    public static void main(String[] arguments) throws Exception {
        BufferedReader orders = new BufferedReader(new InputStreamReader(System.in));
        for (String line = orders.readLine(); line != null; line = orders.readLine()) {
            new RawLoad(Lines.parse(line)).run();
        }
    }

    private void run() throws Exception {
        SendFrame[] frames = SendFrame.all(order);
        List<RawConnection> connections = new ArrayList<>();
        try (Selector selector = Selector.open()) {
            int count = order.getIntValue("connections");
            for (int i = 0; i < count; i++) {
                connections.add(connect(selector, frames, (int) ((long) i * frames.length / count)));
            }
            for (RawConnection connection : connections) {
                connection.fillWindow();
            }
            serve(selector, System.nanoTime() + RAMP_NANOS);
            latencies = new Latencies();
            codes.clear();
            measure(selector);
            stop(selector, connections);
        } finally {
            for (RawConnection connection : connections) {
                connection.channel().close();
            }
        }
    }

    private void measure(Selector selector) throws IOException {
        long pid = order.getLongValue("pid");
        long ownPid = ProcessHandle.current().pid();
        ProcessUse use = ProcessUse.of(pid);
        ProcessUse ownUse = ProcessUse.of(ownPid);
        double machineMicros = ProcessUse.machineCpuMicros();
        long begin = System.nanoTime();
        serve(selector, begin + (long) (order.getDoubleValue("seconds") * 1e9));
        double seconds = (System.nanoTime() - begin) / 1e9;
        machineMicros = ProcessUse.machineCpuMicros() - machineMicros;
        double brokerMicros = ProcessUse.of(pid).cpuMicrosSince(use);
        double clientMicros = ProcessUse.of(ownPid).cpuMicrosSince(ownUse);
        long count = latencies.count();
        Lines.print("count", count, "perSecond", count / seconds,
                "meanMs", latencies.meanMs(), "p50Ms", latencies.percentileMs(0.5),
                "p99Ms", latencies.percentileMs(0.99),
                "cpuMicros", brokerMicros / Math.max(1, count),
                "clientCpuMicros", clientMicros / Math.max(1, count),
                "othersCores", (machineMicros - brokerMicros - clientMicros) / 1e6 / seconds,
                "failed", codes.values().stream().mapToLong(Integer::intValue).sum() - count, "codes", codes.toString());
    }

    private RawConnection connect(Selector selector, SendFrame[] frames, int first) throws IOException {
        String[] address = order.getString("broker").split(":");
        SocketChannel channel = SocketChannel.open(
                new InetSocketAddress(address[0], Integer.parseInt(address[1])));
        channel.setOption(StandardSocketOptions.TCP_NODELAY, true);
        channel.configureBlocking(false);
        SelectionKey key = channel.register(selector, SelectionKey.OP_READ);
        RawConnection connection = new RawConnection(key, frames, first, order.getIntValue("window"), this::note);
        key.attach(connection);
        return connection;
    }

    /** Takes answers and sends on, until a time. */
    private void serve(Selector selector, long until) throws IOException {
        for (long left = until - System.nanoTime(); left > 0; left = until - System.nanoTime()) {
            selector.select(key -> ((RawConnection) key.attachment()).serve(), left / 1_000_000 + 1);
        }
    }

    /** Sends no more, and waits for the answers that are still to come. */
    private void stop(Selector selector, List<RawConnection> connections) throws IOException {
        connections.forEach(RawConnection::stop);
        long until = System.nanoTime() + LAST_ANSWERS_NANOS;
        while (connections.stream().anyMatch(RawConnection::isWaiting)) {
            if (System.nanoTime() > until) {
                throw new IOException("sends were never answered");
            }
            serve(selector, System.nanoTime() + 1_000_000);
        }
    }

    private void note(int code, long nanos) {
        codes.merge(code, 1, Integer::sum);
        if (code == SUCCESS) {
            latencies.add(nanos);
        }
    }
}
