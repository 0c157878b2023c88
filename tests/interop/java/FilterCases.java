import com.alibaba.fastjson2.JSONArray;
import com.alibaba.fastjson2.JSONObject;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.ArrayList;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import org.apache.rocketmq.common.filter.ExpressionType;
import org.apache.rocketmq.filter.FilterFactory;
import org.apache.rocketmq.filter.expression.EvaluationContext;
import org.apache.rocketmq.filter.expression.Expression;
import org.apache.rocketmq.filter.expression.MQFilterException;

/**
 * Asks RocketMQ's SQL92 filter about each expression of a file and each set of properties, and prints the
 * answers: one letter for each set, T true, F false, N null, E an exception; or "refused".
 *
 * <p>Arguments: FILE (JSON: "properties" is a list of objects, "expressions" a list of texts).
 */
public final class FilterCases {
    private FilterCases() {
    }

    public static void main(String[] arguments) throws Exception {
        JSONObject cases = Lines.parse(Files.readString(Path.of(arguments[0])));
        List<EvaluationContext> contexts = new ArrayList<>();
        for (Object properties : cases.getJSONArray("properties")) {
            contexts.add(new Properties((JSONObject) properties));
        }
        JSONArray expressions = cases.getJSONArray("expressions");
        for (Object expression : expressions) {
            Lines.print("expression", expression, "answers", answers((String) expression, contexts));
        }
    }

    private static String answers(String text, List<EvaluationContext> contexts) {
        Expression expression;
        try {
            expression = FilterFactory.INSTANCE.get(ExpressionType.SQL92).compile(text);
        } catch (MQFilterException refusal) {
            return "refused";
        }
        StringBuilder answers = new StringBuilder();
        for (EvaluationContext context : contexts) {
            answers.append(answer(expression, context));
        }
        return answers.toString();
    }

    private static char answer(Expression expression, EvaluationContext context) {
        try {
            Object value = expression.evaluate(context);
            return value == null ? 'N' : (Boolean) value ? 'T' : 'F';
        } catch (Exception failure) {
            return 'E';
        }
    }

    private static final class Properties implements EvaluationContext {
        private final JSONObject values;

        Properties(JSONObject values) {
            this.values = values;
        }

        @Override
        public Object get(String name) {
            return values.getString(name);
        }

        @Override
        public Map<String, Object> keyValues() {
            return new HashMap<>(values);
        }
    }
}
