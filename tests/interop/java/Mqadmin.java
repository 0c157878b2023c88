import java.io.ByteArrayOutputStream;
import java.io.PrintStream;
import java.nio.charset.StandardCharsets;
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
        for (String command : Files.readAllLines(Path.of(arguments[1]))) {
            Lines.print("command", command, "output", output((command + " -n " + arguments[0]).split(" ")));
        }
    }

    private static String output(String[] command) {
        PrintStream out = System.out;
        PrintStream errors = System.err;
        ByteArrayOutputStream written = new ByteArrayOutputStream();
        PrintStream both = new PrintStream(written, true, StandardCharsets.UTF_8);
        System.setOut(both);
        System.setErr(both);
        try {
            MQAdminStartup.main(command);
        } finally {
            System.setOut(out);
            System.setErr(errors);
        }
        return written.toString(StandardCharsets.UTF_8);
    }
}
