import java.lang.reflect.InvocationTargetException;
import java.util.Arrays;

/**
 * Runs the main method of another class, and ends the process with it: the client's threads would keep it
 * alive after an exception.
 *
 * <p>Arguments: the class, its arguments.
 */
public final class Launch {
    private Launch() {
    }

    public static void main(String[] arguments) throws ReflectiveOperationException {
        Object rest = Arrays.copyOfRange(arguments, 1, arguments.length);
        try {
            Class.forName(arguments[0]).getMethod("main", String[].class).invoke(null, rest);
        } catch (InvocationTargetException error) {
            error.getCause().printStackTrace();
            System.exit(1);
        }
        System.exit(0);
    }
}
