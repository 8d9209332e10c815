package questions;

import com.fasterxml.jackson.databind.JsonNode;
import com.fasterxml.jackson.databind.ObjectMapper;
import com.fasterxml.jackson.databind.node.ArrayNode;
import com.fasterxml.jackson.databind.node.ObjectNode;

import org.apache.kafka.clients.consumer.ConsumerRecord;
import org.apache.kafka.clients.consumer.KafkaConsumer;
import org.apache.kafka.clients.consumer.KafkaShareConsumer;
import org.apache.kafka.clients.consumer.OffsetAndTimestamp;
import org.apache.kafka.clients.producer.KafkaProducer;
import org.apache.kafka.clients.producer.ProducerRecord;
import org.apache.kafka.clients.producer.RecordMetadata;
import org.apache.kafka.common.TopicPartition;
import org.apache.kafka.common.header.Header;
import org.apache.kafka.common.header.internals.RecordHeader;
import org.apache.kafka.common.serialization.ByteArrayDeserializer;
import org.apache.kafka.common.serialization.ByteArraySerializer;
import org.apache.kafka.common.serialization.Serdes;
import org.apache.kafka.streams.KafkaStreams;
import org.apache.kafka.streams.StreamsBuilder;
import org.apache.kafka.streams.kstream.Consumed;
import org.apache.kafka.streams.kstream.Produced;

import java.io.BufferedReader;
import java.io.IOException;
import java.io.InputStreamReader;
import java.nio.charset.StandardCharsets;
import java.time.Duration;
import java.util.ArrayList;
import java.util.Base64;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import java.util.Properties;
import java.util.concurrent.Future;
import java.util.concurrent.atomic.AtomicInteger;

/**
 * The Java clients as a child process: one JSON request a line on stdin, one JSON answer a line on stdout.
 * Bytes are base64. A record is {topic, partition, timestamp, key, value, headers: [[key, value], ...]}.
 */
public final class Clients {
    private static final ObjectMapper JSON = new ObjectMapper();

    public static void main(String[] args) throws Exception {
        BufferedReader requests = new BufferedReader(new InputStreamReader(System.in, StandardCharsets.UTF_8));
        for (String line = requests.readLine(); line != null; line = requests.readLine())
            System.out.println(JSON.writeValueAsString(answer(JSON.readTree(line))));
    }

    private static JsonNode answer(JsonNode request) throws Exception {
        return switch (request.get("do").asText()) {
            case "produce" -> produce(request);
            case "consume" -> consume(request);
            case "share" -> share(request);
            case "stream" -> stream(request);
            case "offsetsForTimes" -> offsetsForTimes(request);
            default -> throw new IllegalArgumentException(request.toString());
        };
    }

    private static Map<String, Object> config(JsonNode request) {
        Map<String, Object> config = new HashMap<>();
        request.get("config").properties().forEach(entry -> config.put(entry.getKey(), entry.getValue().asText()));
        return config;
    }

    /** Runs steps like [["init"], ["begin"], ["send", records], ["commit"]]; answers the offsets of all records sent. */
    private static JsonNode produce(JsonNode request) throws Exception {
        KafkaProducer<byte[], byte[]> producer =
            new KafkaProducer<>(config(request), new ByteArraySerializer(), new ByteArraySerializer());
        ArrayNode offsets = JSON.createArrayNode();
        boolean finished = true;
        for (JsonNode step : request.get("steps")) {
            switch (step.get(0).asText()) {
                case "init" -> producer.initTransactions();
                case "begin" -> producer.beginTransaction();
                case "send" -> {
                    List<Future<RecordMetadata>> sent = new ArrayList<>();
                    for (JsonNode record : step.get(1))
                        sent.add(producer.send(toRecord(record)));
                    producer.flush();
                    for (Future<RecordMetadata> one : sent)
                        offsets.add(one.get().offset());
                }
                case "commit" -> producer.commitTransaction();
                case "abort" -> producer.abortTransaction();
                case "leave" -> finished = false;
                default -> throw new IllegalArgumentException(step.toString());
            }
        }
        // A producer closed in haste leaves its transaction open, as a crash would.
        producer.close(finished ? Duration.ofMinutes(1) : Duration.ZERO);
        return offsets;
    }

    private static ProducerRecord<byte[], byte[]> toRecord(JsonNode record) throws IOException {
        List<Header> headers = new ArrayList<>();
        for (JsonNode header : record.get("headers"))
            headers.add(new RecordHeader(header.get(0).asText(), bytes(header.get(1))));
        Long timestamp = record.get("timestamp").isNull() ? null : record.get("timestamp").asLong();
        return new ProducerRecord<>(record.get("topic").asText(), record.get("partition").asInt(), timestamp,
            bytes(record.get("key")), bytes(record.get("value")), headers);
    }

    /** All records of one partition that a consumer with this config is given, from an offset up to its end. */
    private static JsonNode consume(JsonNode request) {
        TopicPartition partition = new TopicPartition(request.get("topic").asText(), request.get("partition").asInt());
        ArrayNode records = JSON.createArrayNode();
        try (KafkaConsumer<byte[], byte[]> consumer = consumer(request)) {
            consumer.assign(List.of(partition));
            consumer.seekToBeginning(List.of(partition));
            long end = consumer.endOffsets(List.of(partition)).get(partition);
            while (consumer.position(partition) < end)
                for (ConsumerRecord<byte[], byte[]> record : consumer.poll(Duration.ofMillis(200)))
                    records.add(fromRecord(record));
        }
        return records;
    }

    /** As a member of a share group (KIP-932): take the first records that come, acknowledge them, leave. */
    private static JsonNode share(JsonNode request) {
        ArrayNode records = JSON.createArrayNode();
        try (KafkaShareConsumer<byte[], byte[]> consumer = new KafkaShareConsumer<>(
                config(request), new ByteArrayDeserializer(), new ByteArrayDeserializer())) {
            consumer.subscribe(List.of(request.get("topic").asText()));
            while (records.isEmpty())
                for (ConsumerRecord<byte[], byte[]> record : consumer.poll(Duration.ofMillis(200)))
                    records.add(fromRecord(record));
            consumer.commitSync();
        }
        return records;
    }

    /** As a member of a streams group (KIP-1071): copy records of one topic to another until `count` arrived. */
    private static JsonNode stream(JsonNode request) throws Exception {
        AtomicInteger copied = new AtomicInteger();
        StreamsBuilder builder = new StreamsBuilder();
        builder.stream(request.get("topic").asText(), Consumed.with(Serdes.ByteArray(), Serdes.ByteArray()))
            .peek((key, value) -> copied.incrementAndGet())
            .to(request.get("to").asText(), Produced.with(Serdes.ByteArray(), Serdes.ByteArray()));
        Properties config = new Properties();
        config.putAll(config(request));
        try (KafkaStreams streams = new KafkaStreams(builder.build(), config)) {
            streams.start();
            while (copied.get() < request.get("count").asInt())
                Thread.sleep(20);
        }
        return JSON.getNodeFactory().numberNode(copied.get());
    }

    private static KafkaConsumer<byte[], byte[]> consumer(JsonNode request) {
        return new KafkaConsumer<>(config(request), new ByteArrayDeserializer(), new ByteArrayDeserializer());
    }

    private static ObjectNode fromRecord(ConsumerRecord<byte[], byte[]> record) {
        ObjectNode node = JSON.createObjectNode();
        node.put("offset", record.offset());
        node.put("timestamp", record.timestamp());
        node.put("timestampType", record.timestampType().name);
        node.put("key", base64(record.key()));
        node.put("value", base64(record.value()));
        ArrayNode headers = node.putArray("headers");
        for (Header header : record.headers())
            headers.addArray().add(header.key()).add(base64(header.value()));
        return node;
    }

    /** For each timestamp [offset, timestamp] of the first record at or after it, or null. */
    private static JsonNode offsetsForTimes(JsonNode request) {
        TopicPartition partition = new TopicPartition(request.get("topic").asText(), request.get("partition").asInt());
        ArrayNode found = JSON.createArrayNode();
        try (KafkaConsumer<byte[], byte[]> consumer = consumer(request)) {
            for (JsonNode timestamp : request.get("timestamps")) {
                OffsetAndTimestamp at = consumer.offsetsForTimes(Map.of(partition, timestamp.asLong())).get(partition);
                if (at == null)
                    found.addNull();
                else
                    found.addArray().add(at.offset()).add(at.timestamp());
            }
        }
        return found;
    }

    private static byte[] bytes(JsonNode text) throws IOException {
        return text.isNull() ? null : text.binaryValue();
    }

    private static String base64(byte[] bytes) {
        return bytes == null ? null : Base64.getEncoder().encodeToString(bytes);
    }
}
