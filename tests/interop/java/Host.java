import com.alibaba.fastjson2.JSON;
import com.alibaba.fastjson2.JSONObject;
import java.io.BufferedReader;
import java.io.ByteArrayOutputStream;
import java.io.IOException;
import java.io.InputStreamReader;
import java.io.OutputStream;
import java.io.PrintStream;
import java.io.PrintWriter;
import java.io.StringWriter;
import java.lang.reflect.InvocationTargetException;
import java.net.URL;
import java.net.URLClassLoader;
import java.nio.charset.StandardCharsets;
import java.util.Collection;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;
import java.util.Set;
import java.util.TreeSet;
import java.util.concurrent.atomic.AtomicInteger;
import org.apache.rocketmq.client.impl.MQClientManager;

/**
 * Runs programs of this folder side by side in one process, as orders come, until there are no more orders.
 *
 * <p>An order is a line of JSON: "id", "program" (a class) and "arguments". Each answer is one, too, with the order's
 * "id": "line" for a line that the program printed, to System.out or System.err, and at the end "failure" ("", or the
 * stack trace of what it threw) and "clients" (the RocketMQ clients that nobody has shut down, if nothing else runs).
 *
 * <p>RocketMQ's classes are loaded once. Those of this folder are loaded anew for each order: no static field of a
 * program keeps what an earlier run put there.
 */
public final class Host {
    private static final PrintStream ANSWERS = System.out;
    private static final AtomicInteger RUNNING = new AtomicInteger();

    private Host() {
    }

    public static void main(String[] arguments) throws IOException {
        Printer.install(System.err);
        BufferedReader orders = new BufferedReader(new InputStreamReader(System.in, StandardCharsets.UTF_8));
        for (String line = orders.readLine(); line != null; line = orders.readLine()) {
            JSONObject order = JSON.parseObject(line);
            new Thread(() -> run(order), order.getString("program")).start();
        }
        Runtime.getRuntime().halt(0);
    }

    private static void run(JSONObject order) {
        Object id = order.get("id");
        AnsweredLines lines = new AnsweredLines(id);
        Printer.printTo(lines);
        RUNNING.incrementAndGet();
        String failure = "";
        try {
            Object arguments = order.getList("arguments", String.class).toArray(new String[0]);
            Class<?> program = new Programs().loadClass(order.getString("program"));
            program.getMethod("main", String[].class).invoke(null, arguments);
        } catch (InvocationTargetException error) {
            failure = trace(error.getCause());
        } catch (ReflectiveOperationException error) {
            failure = trace(error);
        }
        lines.end();
        Collection<String> left = new TreeSet<>(MQClientManager.getInstance().getFactoryTable().keySet());
        answer("id", id, "failure", failure, "clients", RUNNING.decrementAndGet() == 0 ? left : List.of());
    }

    private static String trace(Throwable error) {
        StringWriter text = new StringWriter();
        error.printStackTrace(new PrintWriter(text));
        return text.toString();
    }

    private static synchronized void answer(Object... namesAndValues) {
        Map<String, Object> answer = new LinkedHashMap<>();
        for (int i = 0; i < namesAndValues.length; i += 2) {
            answer.put((String) namesAndValues[i], namesAndValues[i + 1]);
        }
        byte[] line = (JSON.toJSONString(answer) + "\n").getBytes(StandardCharsets.UTF_8);
        ANSWERS.write(line, 0, line.length);
        ANSWERS.flush();
    }

    /** The classes of this folder, each loaded for one program; the rest is shared by all. */
    private static final class Programs extends URLClassLoader {
        private static final Set<String> SHARED = Set.of(Printer.class.getName());

        Programs() {
            super(new URL[] {Host.class.getProtectionDomain().getCodeSource().getLocation()},
                    Host.class.getClassLoader());
        }

        @Override
        protected Class<?> loadClass(String name, boolean resolves) throws ClassNotFoundException {
            synchronized (getClassLoadingLock(name)) {
                boolean isOwn = !SHARED.contains(name) && findResource(name.replace('.', '/') + ".class") != null;
                Class<?> loaded = isOwn ? findLoadedClass(name) : super.loadClass(name, resolves);
                return loaded == null ? findClass(name) : loaded;
            }
        }
    }

    /** Makes an answer of each line that is written. */
    private static final class AnsweredLines extends OutputStream {
        private final ByteArrayOutputStream line = new ByteArrayOutputStream();
        private final Object id;

        AnsweredLines(Object id) {
            this.id = id;
        }

        @Override
        public synchronized void write(int octet) {
            if (octet == '\n') {
                answer("id", id, "line", line.toString(StandardCharsets.UTF_8));
                line.reset();
            } else {
                line.write(octet);
            }
        }

        /** Answer what stands behind the last line's end. */
        synchronized void end() {
            if (line.size() > 0) {
                write('\n');
            }
        }
    }
}
