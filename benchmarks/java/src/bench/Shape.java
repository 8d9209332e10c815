package bench;

import org.apache.kafka.common.header.Header;
import org.apache.kafka.common.header.internals.RecordHeader;

import java.nio.charset.StandardCharsets;
import java.util.Random;

/** What the benchmark records look like. Seeded: the same arguments give the same rows. */
enum Shape {
    /** JSON values, one header on every fourth record. */
    TEXT,
    /** The same rows with values that no codec can shrink. */
    RANDOM,
    /** The same rows with values that repeat a short pattern. */
    REPETITIVE,
    /** JSON values, eight headers on every record. */
    HEADERS,
    /** Half of the keys, half of the values and all header values are null. */
    NULLS;

    private static final int SEED = 20240611;
    private static final long FIRST_TIMESTAMP = 1_700_000_000_000L;
    private static final String[] WORDS = {
        "order", "created", "shipped", "payment", "warehouse", "customer", "refund", "invoice", "berlin", "osaka", "lagos", "quito",
    };

    Row[] rows(int count, int valueBytes) {
        Random random = new Random(SEED);
        Row[] rows = new Row[count];
        long timestamp = FIRST_TIMESTAMP;
        for (int i = 0; i < count; i++) {
            timestamp += random.nextInt(3);
            boolean nullKey = this == NULLS && i % 2 == 0;
            boolean nullValue = this == NULLS && i % 4 < 2;
            byte[] key = String.format("k%06d", random.nextInt(1_000_000)).getBytes(StandardCharsets.US_ASCII);
            byte[] value = value(random, i, valueBytes);
            rows[i] = new Row(timestamp, nullKey ? null : key, nullValue ? null : value, headers(random, i));
        }
        return rows;
    }

    private byte[] value(Random random, int index, int size) {
        if (this == RANDOM) {
            byte[] value = new byte[size];
            random.nextBytes(value);
            return value;
        }
        StringBuilder text = new StringBuilder();
        while (text.length() < size)
            text.append(this == REPETITIVE ? "abcdefgh" : field(random, index, text.length()));
        return text.substring(0, size).getBytes(StandardCharsets.US_ASCII);
    }

    private static String field(Random random, int index, int at) {
        if (at == 0)
            return "{\"id\":" + index;
        return ",\"" + WORDS[random.nextInt(WORDS.length)] + "\":\"" + WORDS[random.nextInt(WORDS.length)] + random.nextInt(10_000) + "\"";
    }

    private Header[] headers(Random random, int index) {
        int count = this == HEADERS ? 8 : index % 4 == 0 ? 1 : 0;
        Header[] headers = new Header[count];
        for (int i = 0; i < count; i++) {
            byte[] value = Long.toHexString(random.nextLong() | Long.MIN_VALUE).getBytes(StandardCharsets.US_ASCII);
            headers[i] = new RecordHeader("trace-id-" + i, this == NULLS ? null : value);
        }
        return headers;
    }
}
