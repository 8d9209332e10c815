import com.fasterxml.jackson.databind.JsonNode;
import com.fasterxml.jackson.databind.ObjectMapper;
import java.io.BufferedReader;
import java.io.InputStreamReader;
import java.nio.ByteBuffer;
import java.nio.charset.StandardCharsets;
import java.util.HexFormat;
import org.apache.kafka.common.protocol.ByteBufferAccessor;
import org.apache.kafka.common.protocol.Message;
import org.apache.kafka.common.protocol.MessageUtil;
import org.apache.kafka.common.protocol.Readable;

/**
 * For each line "class, version, JSON" (tabs between) on stdin: the bytes Kafka's generated class writes
 * for it, and the JSON Kafka prints after reading those bytes again.
 */
public class MessageBytes {
    public static void main(String[] args) throws Exception {
        ObjectMapper mapper = new ObjectMapper();
        BufferedReader lines = new BufferedReader(new InputStreamReader(System.in, StandardCharsets.UTF_8));
        for (String line = lines.readLine(); line != null; line = lines.readLine()) {
            String[] parts = line.split("\t", 3);
            short version = Short.parseShort(parts[1]);
            Class<?> message = Class.forName(parts[0]);
            Class<?> converter = Class.forName(parts[0] + "JsonConverter");
            Message written = (Message) converter.getMethod("read", JsonNode.class, short.class)
                .invoke(null, mapper.readTree(parts[2]), version);
            ByteBuffer bytes = MessageUtil.toVersionPrefixedByteBuffer(version, written);
            bytes.getShort();
            byte[] copy = new byte[bytes.remaining()];
            bytes.duplicate().get(copy);
            Object again = message.getConstructor(Readable.class, short.class)
                .newInstance(new ByteBufferAccessor(bytes), version);
            Object json = converter.getMethod("write", message, short.class).invoke(null, again, version);
            System.out.println(HexFormat.of().formatHex(copy) + "\t" + json);
        }
    }
}
