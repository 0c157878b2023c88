import org.apache.rocketmq.client.ClientConfig;
import org.apache.rocketmq.client.producer.DefaultMQProducer;

/** How long these programs wait for servers, which share a machine with the other tests that run. */
final class Patience {
    /** How long any request may take; RocketMQ's clients give up after 3 s. */
    static final int REQUEST_MS = 30_000;
    /** How long to wait for what must come: so long that only a fault makes it late. */
    static final long WAIT_S = 240;

    private Patience() {
    }

    /** Gives a client {@link #REQUEST_MS} for each request, sends and all others. */
    static <C extends ClientConfig> C patient(C client) {
        client.setMqClientApiTimeout(REQUEST_MS);
        if (client instanceof DefaultMQProducer producer) {
            producer.setSendMsgTimeout(REQUEST_MS);
        }
        return client;
    }
}
