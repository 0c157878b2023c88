import java.nio.file.Files;
import java.nio.file.Path;
import org.apache.rocketmq.tools.command.MQAdminStartup;

/**
 * Runs mqadmin commands one after the other, as its own shell script would do in a JVM for each, and prints
 * what each wrote.
 *
 * <p>Arguments: name server, FILE (a command a line).
 */
public final class Mqadmin {
    private Mqadmin() {
    }

    public static void main(String[] arguments) throws Exception {
        synchronized (MQAdminStartup.class) { // it keeps the name server in a system property
            for (String command : Files.readAllLines(Path.of(arguments[1]))) {
                String[] words = (command + " -n " + arguments[0]).split(" ");
                Lines.print("command", command, "output", Printer.printedBy(() -> MQAdminStartup.main(words)));
            }
        }
    }
}
