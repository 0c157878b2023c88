/**
 * Replies to requests until there were COUNT of them.
 *
 * <p>Arguments: name server, topic, COUNT.
 */
public final class Answer {
    private static final long LOOK_MS = 20;

    private Answer() {
    }

    public static void main(String[] arguments) throws Exception {
        Answers answers = new Answers(arguments[0], arguments[1]);
        int count = Integer.parseInt(arguments[2]);
        long end = System.currentTimeMillis() + Patience.WAIT_S * 1_000;
        while (answers.count() < count && System.currentTimeMillis() < end) {
            Thread.sleep(LOOK_MS);
        }
        answers.close();
    }
}
