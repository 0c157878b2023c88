import com.alibaba.fastjson2.JSON;
import com.alibaba.fastjson2.JSONObject;
import java.security.MessageDigest;
import java.security.NoSuchAlgorithmException;
import java.util.HexFormat;
import java.util.LinkedHashMap;
import java.util.Map;

/** JSON objects, one a line: how these programs and the tests tell each other things. */
final class Lines {
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
