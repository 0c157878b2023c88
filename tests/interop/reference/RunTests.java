import org.junit.runner.Description;
import org.junit.runner.JUnitCore;
import org.junit.runner.notification.Failure;
import org.junit.runner.notification.RunListener;

/**
 * Runs the JUnit tests of a class and prints each one's end: "passed", "ignored", or why it failed.
 *
 * <p>Arguments: the class.
 */
public final class RunTests {
    private RunTests() {
    }

    public static void main(String[] arguments) throws ClassNotFoundException {
        JUnitCore runner = new JUnitCore();
        runner.addListener(new Ends());
        runner.run(Class.forName(arguments[0]));
    }

    private static final class Ends extends RunListener {
        private static final String PASSED = "passed";
        private String end;

        @Override
        public void testStarted(Description test) {
            end = PASSED;
        }

        @Override
        public void testFailure(Failure failure) {
            end = failure.getTrace();
            if (failure.getDescription().isSuite()) { // it failed before its first test
                print(failure.getDescription(), end);
            }
        }

        @Override
        public void testFinished(Description test) {
            print(test, end);
        }

        @Override
        public void testIgnored(Description test) {
            print(test, "ignored");
        }

        private static void print(Description test, String end) {
            Lines.print("test", test.isTest() ? test.getMethodName() : test.getClassName(), "end", end);
        }
    }
}
