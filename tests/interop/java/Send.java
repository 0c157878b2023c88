import org.apache.rocketmq.client.producer.DefaultMQProducer;

/**
 * Sends COUNT messages, one after the other, and prints the key of each.
 *
 * <p>Arguments: name server, topic, kind (the start of the keys), COUNT.
 */
public final class Send {
    private Send() {
    }

    public static void main(String[] arguments) throws Exception {
        String kind = arguments[2];
        DefaultMQProducer producer = Patience.patient(new DefaultMQProducer("send-" + arguments[1]));
        producer.setNamesrvAddr(arguments[0]);
        producer.start();
        for (int i = 0; i < Integer.parseInt(arguments[3]); i++) {
            producer.send(TestMessage.make(arguments[1], kind, i));
            Lines.print("key", TestMessage.key(kind, i));
        }
        producer.shutdown();
    }
}
