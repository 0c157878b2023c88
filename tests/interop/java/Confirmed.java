import java.net.InetSocketAddress;
import java.nio.charset.StandardCharsets;
import java.util.ArrayList;
import java.util.List;
import java.util.concurrent.ConcurrentHashMap;
import org.apache.rocketmq.common.BrokerConfig;
import org.apache.rocketmq.common.message.MessageAccessor;
import org.apache.rocketmq.common.message.MessageConst;
import org.apache.rocketmq.common.message.MessageDecoder;
import org.apache.rocketmq.common.message.MessageExtBrokerInner;
import org.apache.rocketmq.store.AppendMessageResult;
import org.apache.rocketmq.store.DefaultMessageStore;
import org.apache.rocketmq.store.config.MessageStoreConfig;
import org.apache.rocketmq.store.stats.BrokerStatsManager;

/**
 * Opens a broker's store with duplicationEnable, as the program does that replicates it, and carries out steps
 * on it: {@code put} appends a message to each of two queues, {@code confirm=N} confirms all but the last N
 * bytes, {@code ends} prints how far each queue is dispatched.
 *
 * <p>Arguments: the directory, steps.
 */
public final class Confirmed {
    private static final String TOPIC = "Confirmed";
    private static final int QUEUES = 2;
    private static final int SETTLE_MS = 300; // dispatch looks each millisecond

    private Confirmed() {
    }

    public static void main(String[] arguments) throws Exception {
        Thread.setDefaultUncaughtExceptionHandler((thread, failure) -> {
            failure.printStackTrace();
            Runtime.getRuntime().halt(1); // the store's threads would go on for ever
        });
        DefaultMessageStore store = new DefaultMessageStore(config(arguments[0]),
                new BrokerStatsManager("Confirmed", false), null, new BrokerConfig(), new ConcurrentHashMap<>());
        if (!store.load()) {
            throw new IllegalStateException("the store cannot be loaded");
        }
        store.start();
        long next = store.getMaxOffsetInQueue(TOPIC, 0);
        for (String step : List.of(arguments).subList(1, arguments.length)) {
            if (step.equals("put")) {
                for (int queue = 0; queue < QUEUES; queue++) {
                    put(store, queue, next);
                }
                next++;
            } else if (step.startsWith("confirm=")) {
                store.setConfirmOffset(store.getMaxPhyOffset() - Long.parseLong(step.substring("confirm=".length())));
                Thread.sleep(SETTLE_MS);
            } else {
                List<Long> ends = new ArrayList<>();
                for (int queue = 0; queue < QUEUES; queue++) {
                    ends.add(store.getMaxOffsetInQueue(TOPIC, queue));
                }
                Lines.print("ends", ends, "confirmed", store.getConfirmOffset(), "written", store.getMaxPhyOffset());
            }
        }
        store.shutdown();
        System.exit(0); // the statistics' threads go on
    }

    private static MessageStoreConfig config(String directory) {
        MessageStoreConfig config = new MessageStoreConfig();
        config.setStorePathRootDir(directory);
        config.setStorePathCommitLog(directory + "/commitlog");
        config.setMappedFileSizeCommitLog(1 << 20);
        config.setMappedFileSizeConsumeQueue(6_000);
        config.setMaxHashSlotNum(1_000);
        config.setMaxIndexNum(4_000);
        config.setTimerWheelEnable(false);
        config.setDuplicationEnable(true);
        return config;
    }

    /** Append a message whose queue offset and store time are those of the store that is replicated. */
    private static void put(DefaultMessageStore store, int queue, long queueOffset) {
        MessageExtBrokerInner message = new MessageExtBrokerInner();
        message.setTopic(TOPIC);
        message.setQueueId(queue);
        message.setQueueOffset(queueOffset);
        message.setBody("body".getBytes(StandardCharsets.UTF_8));
        MessageAccessor.putProperty(message, MessageConst.DUP_INFO, "1_1"); // else a start ends the log here
        message.setBornTimestamp(System.currentTimeMillis());
        message.setStoreTimestamp(System.currentTimeMillis());
        message.setBornHost(new InetSocketAddress("127.0.0.1", 1));
        message.setStoreHost(new InetSocketAddress("127.0.0.1", 2));
        message.setPropertiesString(MessageDecoder.messageProperties2String(message.getProperties()));
        AppendMessageResult result = store.putMessage(message).getAppendMessageResult();
        if (result == null || !result.isOk()) {
            throw new IllegalStateException("not stored: " + result);
        }
    }
}
