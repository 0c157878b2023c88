import com.alibaba.fastjson2.JSONObject;
import java.nio.ByteBuffer;
import java.nio.charset.StandardCharsets;
import java.util.Arrays;
import org.apache.rocketmq.remoting.protocol.RemotingCommand;
import org.apache.rocketmq.remoting.protocol.RequestCode;
import org.apache.rocketmq.remoting.protocol.SerializeType;
import org.apache.rocketmq.remoting.protocol.header.SendMessageRequestHeaderV2;

/** A send as the Java client encodes it, made once; only its opaque number and its unique key's end change. */
final class SendFrame {
    /** All opaque numbers have as many digits as this one. */
    static final int FIRST_OPAQUE = 1_000_000_000;

    private static final int OPAQUE_DIGITS = 10;
    private static final int BINARY_OPAQUE_AT = 8 + 5;
    private static final String KEY = "7F0000010001C0000000000000000000";
    private static final int KEY_DIGITS = 8;
    private static final byte[] HEXADECIMAL = "0123456789ABCDEF".getBytes(StandardCharsets.US_ASCII);

    private static int keys;

    private final byte[] frame;
    private final int keyEnd;
    private final int opaqueAt;
    private final boolean isBinary;

    private SendFrame(JSONObject order, int number) {
        int topics = order.getIntValue("topics");
        SendMessageRequestHeaderV2 header = new SendMessageRequestHeaderV2();
        header.setA("load");
        header.setB("bench-" + number % topics);
        header.setC("TBW102");
        header.setD(4);
        header.setE(number / topics);
        header.setF(0);
        header.setG(System.currentTimeMillis());
        header.setH(0);
        header.setI("UNIQ_KEY\u0001" + KEY + "\u0002WAIT\u0001true\u0002");
        header.setJ(0);
        header.setK(false);
        header.setM(false);
        RemotingCommand command = RemotingCommand.createRequestCommand(RequestCode.SEND_MESSAGE_V2, header);
        command.setSerializeTypeCurrentRPC(SerializeType.valueOf(order.getString("header")));
        command.setOpaque(FIRST_OPAQUE);
        byte[] body = new byte[order.getIntValue("bodySize")];
        Arrays.fill(body, (byte) 'a');
        command.setBody(body);
        ByteBuffer encoded = command.encode();
        frame = new byte[encoded.remaining()];
        encoded.get(frame);
        isBinary = frame[4] != 0;
        String text = new String(frame, StandardCharsets.ISO_8859_1);
        keyEnd = text.indexOf(KEY) + KEY.length();
        opaqueAt = isBinary ? BINARY_OPAQUE_AT : text.indexOf(Integer.toString(FIRST_OPAQUE));
    }

    /** Gives one for each queue of each topic, the topics in turn. */
    static SendFrame[] all(JSONObject order) {
        SendFrame[] frames = new SendFrame[order.getIntValue("topics") * order.getIntValue("queues")];
        Arrays.setAll(frames, number -> new SendFrame(order, number));
        return frames;
    }

    static int longest(SendFrame[] frames) {
        return Arrays.stream(frames).mapToInt(each -> each.frame.length).max().orElse(0);
    }

    void put(ByteBuffer out, int slot) {
        int key = keys++;
        for (int i = 1; i <= KEY_DIGITS; i++, key >>>= 4) {
            frame[keyEnd - i] = HEXADECIMAL[key & 0xF];
        }
        int begin = out.position();
        out.put(frame);
        if (isBinary) {
            out.putInt(begin + opaqueAt, FIRST_OPAQUE + slot);
        } else {
            int at = begin + opaqueAt + OPAQUE_DIGITS;
            for (int rest = slot; rest > 0; rest /= 10) {
                out.put(--at, (byte) ('0' + rest % 10));
            }
        }
    }
}
