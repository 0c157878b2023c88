import java.io.ByteArrayOutputStream;
import java.io.IOException;
import java.io.OutputStream;
import java.io.PrintStream;
import java.nio.charset.StandardCharsets;

/**
 * Sends what is printed to where the printing thread wants it: programs that run side by side share System.out.
 *
 * <p>A thread prints where the one that started it did, unless it chooses for itself.
 */
public final class Printer extends OutputStream {
    private static final InheritableThreadLocal<OutputStream> TARGET = new InheritableThreadLocal<>();
    private final OutputStream otherwise;

    private Printer(OutputStream otherwise) {
        this.otherwise = otherwise;
    }

    /** Put printers in the place of System.out and System.err; a thread that has chosen nothing prints to OTHERWISE. */
    public static void install(OutputStream otherwise) {
        PrintStream printer = new PrintStream(new Printer(otherwise), true, StandardCharsets.UTF_8);
        System.setOut(printer);
        System.setErr(printer);
    }

    /** Choose where this thread prints, and each one that it starts from now on. */
    public static void printTo(OutputStream target) {
        TARGET.set(target);
    }

    /** Run a piece of work and return what it printed. Printers must be installed. */
    public static String printedBy(Runnable work) {
        OutputStream before = TARGET.get();
        ByteArrayOutputStream written = new ByteArrayOutputStream();
        TARGET.set(written);
        try {
            work.run();
        } finally {
            TARGET.set(before);
        }
        return written.toString(StandardCharsets.UTF_8);
    }

    /** Return how many whole lines the work has printed so far, of which this thread waits to be told. */
    public static long linesPrinted() {
        String written = ((ByteArrayOutputStream) TARGET.get()).toString(StandardCharsets.UTF_8);
        return written.chars().filter(character -> character == '\n').count();
    }

    private OutputStream target() {
        OutputStream chosen = TARGET.get();
        return chosen == null ? otherwise : chosen;
    }

    @Override
    public void write(int octet) throws IOException {
        target().write(octet);
    }

    @Override
    public void write(byte[] bytes, int offset, int length) throws IOException {
        target().write(bytes, offset, length);
    }

    @Override
    public void flush() throws IOException {
        target().flush();
    }
}
