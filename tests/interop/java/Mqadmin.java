import java.nio.file.Files;
import java.nio.file.Path;
import java.util.Arrays;
import java.util.Set;
import org.apache.rocketmq.remoting.netty.NettyRemotingClient;
import org.apache.rocketmq.tools.command.MQAdminStartup;

/**
 * Runs mqadmin commands one after the other, as its own shell script would do in a JVM for each, and prints
 * what each wrote.
 *
 * <p>Arguments: name server, FILE (a command a line; an empty one lists all sub-commands).
 */
public final class Mqadmin {
    /** Commands that go on until they are stopped: they are, when a table has its head and its first line. */
    private static final Set<String> ENDLESS = Set.of("clusterRT");
    private static final int LINES_OF_A_LOOK = 2;
    private static final long STEP_MS = 10;

    private Mqadmin() {
    }

    public static void main(String[] arguments) throws Exception {
        synchronized (MQAdminStartup.class) { // it keeps the name server in a system property
            for (String command : Files.readAllLines(Path.of(arguments[1]))) {
                String[] words = command.isEmpty() ? new String[0] : (command + " -n " + arguments[0]).split(" ");
                Commands.forget();
                Lines.print("command", command, "output", Printer.printedBy(() -> run(words)));
            }
        }
    }

    private static void run(String[] words) {
        Thread running = new Thread(() -> MQAdminStartup.main(words));
        running.start();
        boolean isEndless = words.length > 0 && ENDLESS.contains(words[0]);
        try {
            for (running.join(STEP_MS); running.isAlive(); running.join(STEP_MS)) {
                if (isEndless && Printer.linesPrinted() >= LINES_OF_A_LOOK) {
                    isEndless = false;
                    running.interrupt();
                } else if (isShuttingDown(running)) {
                    wakeEventThreads();
                }
            }
        } catch (InterruptedException error) {
            throw new IllegalStateException(error);
        }
    }

    private static boolean isShuttingDown(Thread running) {
        return Arrays.stream(running.getStackTrace())
                .anyMatch(frame -> frame.getClassName().equals(NettyRemotingClient.class.getName())
                        && frame.getMethodName().equals("shutdown"));
    }

    /** A client that shuts down waits for a thread that looks for events each three seconds. Others look again. */
    private static void wakeEventThreads() {
        Thread.getAllStackTraces().keySet().stream()
                .filter(thread -> thread.getName().equals("NettyEventExecutor"))
                .forEach(Thread::interrupt);
    }

    /** The sub-commands, of which some keep their client, which they have shut down, for the next time. */
    private static final class Commands extends MQAdminStartup {
        static void forget() {
            SUB_COMMANDS.clear();
        }
    }
}
