import com.fasterxml.jackson.databind.JsonNode;
import com.fasterxml.jackson.databind.ObjectMapper;
import com.google.protobuf.DescriptorProtos.FileDescriptorProto;
import com.google.protobuf.DescriptorProtos.FileDescriptorSet;
import com.google.protobuf.Descriptors.FileDescriptor;
import com.google.protobuf.DynamicMessage;
import java.util.ArrayList;
import java.util.Base64;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import org.apache.avro.Schema;
import org.apache.avro.generic.GenericDatumReader;
import org.apache.avro.io.DecoderFactory;
import org.apache.kafka.clients.producer.KafkaProducer;
import org.apache.kafka.clients.producer.ProducerRecord;

/** Produces values with any serialiser of a registry: jobs come on stdin. Apicurio's and Glue's are used. */
public class Serialise {
    private static final ObjectMapper JSON = new ObjectMapper();

    interface Parse {
        Object apply(byte[] data) throws Exception;
    }

    public static void main(String[] arguments) throws Exception {
        JsonNode given = JSON.readTree(System.in);
        for (JsonNode job : given.get("jobs")) {
            Map<String, Object> config = new HashMap<>();
            job.get("config").fields().forEachRemaining(each -> config.put(each.getKey(), each.getValue().asText()));
            config.put("bootstrap.servers", given.get("bootstrap").asText());
            config.put("key.serializer", "org.apache.kafka.common.serialization.ByteArraySerializer");
            config.put("value.serializer", job.get("serializer").asText());
            Parse parse = parser(job);
            try (KafkaProducer<byte[], Object> producer = new KafkaProducer<>(config)) {
                for (JsonNode value : job.get("values")) {
                    Object data = parse.apply(Base64.getDecoder().decode(value.asText()));
                    producer.send(new ProducerRecord<>(job.get("topic").asText(), data)).get();
                }
            }
        }
    }

    private static Parse parser(JsonNode job) throws Exception {
        String text = job.get("schema").asText();
        switch (job.get("kind").asText()) {
            case "avro":
                Schema schema = new Schema.Parser().parse(text);
                GenericDatumReader<Object> reader = new GenericDatumReader<>(schema);
                return data -> reader.read(null, DecoderFactory.get().binaryDecoder(data, null));
            case "protobuf":
                FileDescriptor file = describe(FileDescriptorSet.parseFrom(Base64.getDecoder().decode(text)));
                String name = job.get("message").asText();
                return data -> DynamicMessage.parseFrom(file.findMessageTypeByName(name), data);
            default:
                return data -> document(text, data);
        }
    }

    /** The last file of a set: those before it are what it imports. */
    private static FileDescriptor describe(FileDescriptorSet set) throws Exception {
        List<FileDescriptor> made = new ArrayList<>();
        for (FileDescriptorProto each : set.getFileList()) {
            made.add(FileDescriptor.buildFrom(each, made.toArray(new FileDescriptor[0])));
        }
        return made.get(made.size() - 1);
    }

    /** Glue wants a document together with its schema. */
    private static Object document(String schema, byte[] data) throws Exception {
        Class<?> glue;
        try {
            glue = Class.forName("com.amazonaws.services.schemaregistry.serializers.json.JsonDataWithSchema");
        } catch (ClassNotFoundException apicurio) {
            return JSON.readTree(data);
        }
        Object builder = glue.getMethod("builder", String.class, String.class).invoke(null, schema, new String(data, "UTF-8"));
        return builder.getClass().getMethod("build").invoke(builder);
    }
}
