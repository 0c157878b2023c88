import java.util.ArrayList;
import java.util.Arrays;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;
import java.util.TreeSet;
import org.apache.rocketmq.client.consumer.AllocateMessageQueueStrategy;
import org.apache.rocketmq.client.consumer.rebalance.AllocateMachineRoomNearby;
import org.apache.rocketmq.client.consumer.rebalance.AllocateMessageQueueAveragely;
import org.apache.rocketmq.client.consumer.rebalance.AllocateMessageQueueAveragelyByCircle;
import org.apache.rocketmq.client.consumer.rebalance.AllocateMessageQueueByMachineRoom;
import org.apache.rocketmq.client.consumer.rebalance.AllocateMessageQueueConsistentHash;
import org.apache.rocketmq.common.message.MessageQueue;

/** Divides queues of up to three brokers among up to five clients by every strategy; prints each share. */
public final class Assignments {
    private static final String[] BROKERS = {"r1@a", "r1@b", "r2@c"};

    public static void main(String[] arguments) {
        for (int queues = 0; queues <= 13; queues++) {
            for (int clients = 1; clients <= 5; clients++) {
                print(queues, clients);
            }
        }
    }

    private static void print(int queueCount, int clientCount) {
        List<MessageQueue> queues = new ArrayList<>();
        for (int i = 0; i < queueCount; i++) {
            queues.add(new MessageQueue("Topic", BROKERS[i % BROKERS.length], i / BROKERS.length));
        }
        queues.sort(null);
        List<String> clients = new ArrayList<>();
        for (int i = 0; i < clientCount; i++) {
            clients.add("r" + (1 + i % 2) + "@10.0.0." + i + "@" + (4000 + i));
        }
        strategies().forEach((name, strategy) -> {
            for (String client : clients) {
                List<Integer> share = queues.isEmpty() ? List.of()
                        : strategy.allocate("group", client, queues, clients).stream().map(queues::indexOf).toList();
                Lines.print("strategy", name, "queues", queueCount, "clients", clientCount,
                        "client", clients.indexOf(client), "share", share);
            }
        });
    }

    private static Map<String, AllocateMessageQueueStrategy> strategies() {
        AllocateMessageQueueByMachineRoom room = new AllocateMessageQueueByMachineRoom();
        room.setConsumeridcs(new TreeSet<>(Arrays.asList("r1")));
        AllocateMachineRoomNearby.MachineRoomResolver resolver = new AllocateMachineRoomNearby.MachineRoomResolver() {
            @Override
            public String brokerDeployIn(MessageQueue queue) {
                return queue.getBrokerName().split("@")[0];
            }

            @Override
            public String consumerDeployIn(String clientId) {
                return clientId.split("@")[0];
            }
        };
        Map<String, AllocateMessageQueueStrategy> strategies = new LinkedHashMap<>();
        strategies.put("averagely", new AllocateMessageQueueAveragely());
        strategies.put("by_circle", new AllocateMessageQueueAveragelyByCircle());
        strategies.put("consistent_hash", new AllocateMessageQueueConsistentHash());
        strategies.put("machine_room", room);
        strategies.put("machine_room_nearby",
                new AllocateMachineRoomNearby(new AllocateMessageQueueAveragely(), resolver));
        return strategies;
    }
}
