import java.io.PrintStream;
import java.lang.reflect.Constructor;
import java.lang.reflect.Method;
import java.nio.charset.StandardCharsets;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.Base64;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import java.util.concurrent.Future;
import org.apache.kafka.clients.consumer.ConsumerRecord;
import org.apache.kafka.clients.consumer.ConsumerRecords;
import org.apache.kafka.clients.consumer.KafkaConsumer;
import org.apache.kafka.clients.producer.KafkaProducer;
import org.apache.kafka.clients.producer.ProducerRecord;
import org.apache.kafka.common.TopicPartition;
import org.apache.kafka.common.serialization.ByteArrayDeserializer;
import org.apache.kafka.common.serialization.ByteArraySerializer;

/**
 * Producer and consumer of whatever version is on the class path. What came later than 0.9 is
 * found by reflection: times (0.10), headers and transactions (0.11).
 *
 *   produce BOOTSTRAP CODEC...     a topic for each codec, then compacted and transactional ones
 *   consume BOOTSTRAP TOPIC...     what partition 0 of each holds, a line of JSON for each record
 */
public class OldClient {
  private static final long START = 1_500_000_000_000L;
  private static final int RECORDS = 40;

  public static void main(String[] words) throws Exception {
    List<String> rest = Arrays.asList(words).subList(2, words.length);
    if (words[0].equals("produce")) {
      for (String codec : rest) {
        produce(words[1], codec);
      }
      produceCompacted(words[1]);
      if (hasTransactions()) {
        produceTransactions(words[1]);
      }
    } else {
      consume(words[1], rest);
    }
  }

  private static boolean hasTransactions() {
    return Arrays.stream(KafkaProducer.class.getMethods())
        .anyMatch(method -> method.getName().equals("initTransactions"));
  }

  private static Map<String, Object> settings(String bootstrap) {
    Map<String, Object> settings = new HashMap<>();
    settings.put("bootstrap.servers", bootstrap);
    settings.put("key.serializer", ByteArraySerializer.class.getName());
    settings.put("value.serializer", ByteArraySerializer.class.getName());
    settings.put("key.deserializer", ByteArrayDeserializer.class.getName());
    settings.put("value.deserializer", ByteArrayDeserializer.class.getName());
    return settings;
  }

  private static KafkaProducer<byte[], byte[]> producer(
      String bootstrap, String codec, Map<String, Object> more) {
    Map<String, Object> settings = settings(bootstrap);
    for (String name : new String[] {"group.id", "key.deserializer", "value.deserializer"}) {
      settings.remove(name);
    }
    settings.put("acks", "all");
    settings.put("compression.type", codec);
    settings.put("linger.ms", "20");
    settings.put("batch.size", "600");
    settings.putAll(more);
    return new KafkaProducer<>(settings);
  }

  /** Every second codec by an idempotent producer, where there is one. */
  private static void produce(String bootstrap, String codec) throws Exception {
    Map<String, Object> more = new HashMap<>();
    if (hasTransactions() && codec.length() % 2 == 0) {
      more.put("enable.idempotence", "true");
    }
    try (KafkaProducer<byte[], byte[]> producer = producer(bootstrap, codec, more)) {
      List<Future<?>> sent = new ArrayList<>();
      for (int number = 0; number < RECORDS; number++) {
        byte[] key = number % 7 == 0 ? null : bytes(number % 7 == 1 ? "" : "key " + number % 5);
        byte[] value = number % 11 == 3 ? null : value(number);
        sent.add(producer.send(record("codec-" + codec, number, key, value)));
      }
      for (Future<?> one : sent) {
        one.get();
      }
    }
  }

  private static byte[] value(int number) {
    StringBuilder text = new StringBuilder("value " + number + " ");
    for (int i = 0; i < number; i++) {
      text.append((char) ('a' + i % 3));
    }
    return bytes(text.toString());
  }

  private static byte[] bytes(String text) {
    return text.getBytes(StandardCharsets.UTF_8);
  }

  @SuppressWarnings("unchecked")
  private static ProducerRecord<byte[], byte[]> record(
      String topic, int number, byte[] key, byte[] value) throws Exception {
    long time = START + number * 1000L;
    Constructor<?> timed = null;
    for (Constructor<?> each : ProducerRecord.class.getConstructors()) {
      if (each.getParameterTypes().length == 5 && each.getParameterTypes()[2] == Long.class) {
        timed = each;
      }
    }
    if (timed == null) {
      return new ProducerRecord<>(topic, 0, key, value);
    }
    Object record = timed.newInstance(topic, 0, time, key, value);
    try {
      Object headers = ProducerRecord.class.getMethod("headers").invoke(record);
      Class<?> type = Class.forName("org.apache.kafka.common.header.Headers");
      Method add = type.getMethod("add", String.class, byte[].class);
      for (int i = 0; i < number % 3; i++) {
        add.invoke(headers, "header " + i, i == 0 ? bytes("h" + number) : null);
      }
    } catch (NoSuchMethodException error) {
      // before 0.11
    }
    return (ProducerRecord<byte[], byte[]>) record;
  }

  /** Most keys come again and again, some to be deleted; every send is waited for. */
  private static void produceCompacted(String bootstrap) throws Exception {
    for (String codec : new String[] {"none", "gzip"}) {
      try (KafkaProducer<byte[], byte[]> producer = producer(bootstrap, codec, new HashMap<>())) {
        for (int number = 0; number < 120; number++) {
          byte[] value = number % 13 == 5 ? null : value(number);
          String key = number % 10 == 7 ? "once " + codec + number : "key " + number % 9;
          producer.send(record("compacted", number, bytes(key), value)).get();
        }
      }
    }
  }

  /** One is committed, one aborted, and one committed again. */
  private static void produceTransactions(String bootstrap) throws Exception {
    Map<String, Object> more = new HashMap<>();
    more.put("transactional.id", "writer");
    try (KafkaProducer<byte[], byte[]> producer = producer(bootstrap, "none", more)) {
      Class<?> type = KafkaProducer.class;
      type.getMethod("initTransactions").invoke(producer);
      for (int round = 0; round < 3; round++) {
        type.getMethod("beginTransaction").invoke(producer);
        List<Future<?>> sent = new ArrayList<>();
        for (int number = 0; number < 5; number++) {
          int at = round * 5 + number;
          sent.add(producer.send(record("transactions", at, bytes("key " + at), value(at))));
        }
        for (Future<?> one : sent) {
          one.get();
        }
        type.getMethod(round == 1 ? "abortTransaction" : "commitTransaction").invoke(producer);
      }
    }
  }

  private static void consume(String bootstrap, List<String> topics) throws Exception {
    PrintStream out = new PrintStream(System.out, false, "UTF-8");
    Map<String, Object> settings = settings(bootstrap);
    settings.remove("key.serializer");
    settings.remove("value.serializer");
    settings.put("group.id", "reader");
    settings.put("enable.auto.commit", "false");
    settings.put("auto.offset.reset", "earliest");
    settings.put("isolation.level", "read_committed");
    List<TopicPartition> partitions = new ArrayList<>();
    for (String topic : topics) {
      partitions.add(new TopicPartition(topic, 0));
    }
    try (KafkaConsumer<byte[], byte[]> consumer = new KafkaConsumer<>(settings)) {
      consumer.assign(partitions);
      int empty = 0;
      boolean any = false;
      for (int polls = 0; polls < 200 && !(any && empty >= 4); polls++) {
        ConsumerRecords<byte[], byte[]> found = consumer.poll(500);
        empty = found.count() == 0 ? empty + 1 : 0;
        any |= found.count() > 0;
        for (ConsumerRecord<byte[], byte[]> record : found) {
          out.println(json(record));
        }
      }
    }
    out.flush();
  }

  private static String json(ConsumerRecord<byte[], byte[]> record) throws Exception {
    StringBuilder headers = new StringBuilder("[");
    long time = -1;
    try {
      time = (long) ConsumerRecord.class.getMethod("timestamp").invoke(record);
      Object all = ConsumerRecord.class.getMethod("headers").invoke(record);
      Class<?> type = Class.forName("org.apache.kafka.common.header.Header");
      for (Object one : (Iterable<?>) all) {
        headers.append(headers.length() > 1 ? "," : "");
        headers.append("[\"").append(type.getMethod("key").invoke(one)).append("\",");
        headers.append(base64((byte[]) type.getMethod("value").invoke(one))).append("]");
      }
    } catch (NoSuchMethodException error) {
      // before 0.10, or 0.11
    }
    return String.format(
        "{\"topic\":\"%s\",\"offset\":%d,\"timestamp\":%d,\"key\":%s,\"value\":%s,\"headers\":%s]}",
        record.topic(), record.offset(), time, base64(record.key()), base64(record.value()), headers);
  }

  private static String base64(byte[] data) {
    return data == null ? "null" : "\"" + Base64.getEncoder().encodeToString(data) + "\"";
  }
}
