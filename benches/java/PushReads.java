import com.alibaba.fastjson2.JSONObject;
import org.apache.rocketmq.client.consumer.DefaultMQPushConsumer;

/** A window of reading by a push consumer, whose own threads do the work. */
abstract class PushReads extends Reads {
    DefaultMQPushConsumer consumer;

    PushReads(JSONObject order) {
        super(order);
    }

    @Override
    final void work(int thread, int turn) {
        throw new IllegalStateException("the client's own threads do the work: give no threads");
    }

    @Override
    final long end() {
        consumer.shutdown();
        return 0;
    }
}
