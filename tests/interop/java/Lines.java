import com.alibaba.fastjson2.JSON;
import com.alibaba.fastjson2.JSONObject;
import java.security.MessageDigest;
import java.security.NoSuchAlgorithmException;
import java.util.HexFormat;
import java.util.LinkedHashMap;
import java.util.Map;

/** JSON objects, one a line: how these programs and the tests tell each other things. */
final class Lines {
    /** How long a send may take: the tests run in parallel, on machines that do other things, too. */
    static final int PATIENCE_MS = 30_000;
    /** How long to wait for what must come: so long that only a fault makes it late. */
    static final long PATIENCE_S = 240;

    private Lines() {
    }

    /** Prints one object made of names and values in turn. */
    static synchronized void print(Object... namesAndValues) {
        Map<String, Object> line = new LinkedHashMap<>();
        for (int i = 0; i < namesAndValues.length; i += 2) {
            line.put((String) namesAndValues[i], namesAndValues[i + 1]);
        }
        System.out.println(JSON.toJSONString(line));
    }

    static JSONObject parse(String line) {
        return JSON.parseObject(line);
    }

    static String sha1(byte[] body) {
        try {
            return HexFormat.of().formatHex(MessageDigest.getInstance("SHA-1").digest(body));
        } catch (NoSuchAlgorithmException impossible) {
            throw new IllegalStateException(impossible);
        }
    }
}
