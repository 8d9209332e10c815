package bench;

import org.apache.kafka.common.compress.Compression;
import org.apache.kafka.common.header.Header;
import org.apache.kafka.common.record.TimestampType;
import org.apache.kafka.common.record.internal.CompressionType;
import org.apache.kafka.common.record.internal.MemoryRecords;
import org.apache.kafka.common.record.internal.MemoryRecordsBuilder;
import org.apache.kafka.common.record.internal.MutableRecordBatch;
import org.apache.kafka.common.record.internal.Record;
import org.apache.kafka.common.record.internal.RecordBatch;
import org.apache.kafka.common.utils.BufferSupplier;
import org.apache.kafka.common.utils.CloseableIterator;

import java.io.BufferedReader;
import java.io.IOException;
import java.io.InputStreamReader;
import java.io.OutputStream;
import java.nio.ByteBuffer;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.ArrayList;
import java.util.List;

/**
 * Kafka's record classes as a child process: one command a line on stdin, one JSON object a line on stdout.
 *
 * <pre>
 * generate PATH SHAPE CODEC RECORDS_PER_BATCH VALUE_BYTES RECORDS   write a segment
 * load PATH            bring a segment into memory; not timed by the caller
 * decode | scan | verify    one pass over the loaded segment
 * rows                 keep the records of the loaded segment as objects, for encode
 * encode CODEC RECORDS_PER_BATCH    one pass over those rows
 * </pre>
 */
public final class KafkaRecords {
    private static final int BUFFER_BYTES = 8 << 20;

    private final BufferSupplier buffers = BufferSupplier.create();
    private final ByteBuffer batchBuffer = ByteBuffer.allocate(BUFFER_BYTES);
    private ByteBuffer segment = ByteBuffer.allocate(0);
    private Row[] rows = {};
    /** Printed with every answer, so that the compiler cannot drop the work that leads to it. */
    private long sink;

    public static void main(String[] args) throws IOException {
        KafkaRecords records = new KafkaRecords();
        BufferedReader commands = new BufferedReader(new InputStreamReader(System.in));
        for (String line = commands.readLine(); line != null; line = commands.readLine())
            System.out.println(records.answer(line.split(" ")));
    }

    private String answer(String[] command) throws IOException {
        if (command[0].equals("load"))
            segment = ByteBuffer.wrap(Files.readAllBytes(Path.of(command[1])));
        long begin = System.nanoTime();
        long count = switch (command[0]) {
            case "generate" -> generate(command);
            case "load" -> 0;
            case "decode" -> decode();
            case "scan" -> scan();
            case "verify" -> verify();
            case "rows" -> keepRows();
            case "encode" -> encode(Compression.of(CompressionType.forName(command[1])).build(), Integer.parseInt(command[2]));
            default -> throw new IllegalArgumentException(command[0]);
        };
        double seconds = (System.nanoTime() - begin) / 1e9;
        return String.format("{\"seconds\": %.9f, \"count\": %d, \"sink\": %d}", seconds, count, sink);
    }

    private long generate(String[] command) throws IOException {
        rows = Shape.valueOf(command[2]).rows(Integer.parseInt(command[6]), Integer.parseInt(command[5]));
        Compression compression = Compression.of(CompressionType.forName(command[3])).build();
        try (OutputStream file = Files.newOutputStream(Path.of(command[1]))) {
            int perBatch = Integer.parseInt(command[4]);
            for (int first = 0; first < rows.length; first += perBatch) {
                ByteBuffer batch = build(compression, first, Math.min(first + perBatch, rows.length)).buffer();
                file.write(batch.array(), batch.arrayOffset() + batch.position(), batch.remaining());
            }
        }
        return rows.length;
    }

    private long decode() {
        long count = 0;
        for (MutableRecordBatch batch : MemoryRecords.readableRecords(segment.duplicate()).batches()) {
            batch.ensureValid();
            try (CloseableIterator<Record> records = batch.streamingIterator(buffers)) {
                while (records.hasNext()) {
                    Record record = records.next();
                    sink += record.offset() + record.timestamp() + size(copy(record.key())) + size(copy(record.value()));
                    for (Header header : record.headers())
                        sink += header.key().length() + size(header.value());
                    count++;
                }
            }
        }
        return count;
    }

    private long scan() {
        long count = 0;
        for (RecordBatch batch : MemoryRecords.readableRecords(segment.duplicate()).batches()) {
            sink += batch.lastOffset() + batch.maxTimestamp() + batch.sizeInBytes();
            count++;
        }
        return count;
    }

    private long verify() {
        long count = 0;
        for (RecordBatch batch : MemoryRecords.readableRecords(segment.duplicate()).batches()) {
            batch.ensureValid();
            count++;
        }
        return count;
    }

    private long keepRows() {
        List<Row> kept = new ArrayList<>();
        for (MutableRecordBatch batch : MemoryRecords.readableRecords(segment.duplicate()).batches())
            for (Record record : batch)
                kept.add(new Row(record.timestamp(), copy(record.key()), copy(record.value()), record.headers()));
        rows = kept.toArray(new Row[0]);
        return rows.length;
    }

    private long encode(Compression compression, int perBatch) {
        for (int first = 0; first < rows.length; first += perBatch)
            sink += build(compression, first, Math.min(first + perBatch, rows.length)).sizeInBytes();
        return rows.length;
    }

    /** One buffer serves every batch, as the producer's pool does: growing it is no part of what is measured. */
    private MemoryRecords build(Compression compression, int first, int end) {
        batchBuffer.clear();
        try (MemoryRecordsBuilder builder = MemoryRecords.builder(
            batchBuffer, RecordBatch.CURRENT_MAGIC_VALUE, compression, TimestampType.CREATE_TIME, first)) {
            for (int i = first; i < end; i++)
                builder.append(rows[i].timestamp(), rows[i].key(), rows[i].value(), rows[i].headers());
            return builder.build();
        }
    }

    private static byte[] copy(ByteBuffer source) {
        if (source == null)
            return null;
        byte[] bytes = new byte[source.remaining()];
        source.get(bytes);
        return bytes;
    }

    private static int size(byte[] bytes) {
        return bytes == null ? -1 : bytes.length;
    }
}
