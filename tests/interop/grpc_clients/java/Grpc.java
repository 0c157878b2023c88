import java.nio.charset.StandardCharsets;
import java.time.Duration;
import org.apache.rocketmq.client.apis.ClientConfiguration;
import org.apache.rocketmq.client.apis.ClientServiceProvider;
import org.apache.rocketmq.client.apis.message.Message;
import org.apache.rocketmq.client.apis.message.MessageBuilder;
import org.apache.rocketmq.client.apis.message.MessageView;

/** What the programs of RocketMQ 5's client have in common: they reach the proxy by TLS, and trust any certificate. */
final class Grpc {
    static final ClientServiceProvider PROVIDER = ClientServiceProvider.loadService();

    private Grpc() {
    }

    static ClientConfiguration configuration(String proxy) {
        return ClientConfiguration.newBuilder().setEndpoints(proxy).setRequestTimeout(Duration.ofSeconds(10)).build();
    }

    /** Makes a message whose group, if it is to have one, is the first letter of its body. */
    static Message message(String topic, String body, boolean hasGroup) {
        MessageBuilder builder = PROVIDER.newMessageBuilder().setTopic(topic)
                .setBody(body.getBytes(StandardCharsets.UTF_8));
        return (hasGroup ? builder.setMessageGroup(body.substring(0, 1)) : builder).build();
    }

    static String body(MessageView message) {
        return StandardCharsets.UTF_8.decode(message.getBody()).toString();
    }
}
