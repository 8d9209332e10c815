package questions;

import com.fasterxml.jackson.databind.ObjectMapper;
import com.fasterxml.jackson.databind.node.ArrayNode;
import com.fasterxml.jackson.databind.node.ObjectNode;

import org.apache.kafka.common.header.Header;
import org.apache.kafka.common.record.internal.CompressionType;
import org.apache.kafka.common.record.internal.MemoryRecords;
import org.apache.kafka.common.record.internal.MutableRecordBatch;
import org.apache.kafka.common.record.internal.Record;
import org.apache.kafka.common.utils.AbstractIterator;
import org.apache.kafka.common.utils.BufferSupplier;
import org.apache.kafka.common.utils.CloseableIterator;

import java.io.BufferedReader;
import java.io.IOException;
import java.io.InputStreamReader;
import java.io.PrintStream;
import java.nio.ByteBuffer;
import java.nio.charset.StandardCharsets;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.Base64;

/**
 * What Kafka's record classes say of files, read as a consumer reads: the names of the files come on stdin, the
 * objects of `ottla dump --format jsonl` go to stdout. `--no-check-crcs` as there.
 */
public final class Verdicts {
    private static final ObjectMapper JSON = new ObjectMapper();
    private static final int LOG_OVERHEAD = 12;
    private static final int MINIMUM_LENGTH = 14;
    private static final int BATCH_OVERHEAD = 61;

    private final String file;
    private final ByteBuffer data;
    private final boolean checkCrcs;
    private final PrintStream out;
    private int batches;
    private int records;
    private int errors;

    private Verdicts(Path path, boolean checkCrcs, PrintStream out) throws IOException {
        this.file = path.toString();
        this.data = ByteBuffer.wrap(Files.readAllBytes(path));
        this.checkCrcs = checkCrcs;
        this.out = out;
    }

    public static void main(String[] args) throws IOException {
        boolean checkCrcs = args.length == 0 || !args[0].equals("--no-check-crcs");
        PrintStream out = new PrintStream(System.out, false, StandardCharsets.UTF_8);
        BufferedReader names = new BufferedReader(new InputStreamReader(System.in, StandardCharsets.UTF_8));
        for (String name = names.readLine(); name != null; name = names.readLine())
            new Verdicts(Path.of(name), checkCrcs, out).read();
        out.flush();
    }

    private void read() {
        int position = 0;
        for (int next = readBatchAt(0); next != position; next = readBatchAt(position))
            position = next;
        ObjectNode end = line("end", position);
        end.put("fileSize", data.limit()).put("trailingBytes", data.limit() - position);
        print(end.put("batches", batches).put("records", records).put("errors", errors));
    }

    /** Where to go on; the same position when nothing more can be cut. */
    private int readBatchAt(int position) {
        MutableRecordBatch batch;
        try {
            AbstractIterator<MutableRecordBatch> cut = MemoryRecords.readableRecords(from(position)).batchIterator();
            if (!cut.hasNext())
                return position;
            batch = cut.next();
        } catch (Throwable broken) {
            int resync = nextByLength(position);
            ObjectNode error = error(position, "framing", broken);
            print(resync < 0 ? error.putNull("resync") : error.put("resync", resync));
            return resync < 0 ? position : resync;
        }
        describe(position, batch);
        return position + batch.sizeInBytes();
    }

    private ByteBuffer from(int position) {
        return data.duplicate().position(position).slice();
    }

    private int nextByLength(int position) {
        long length = data.getInt(position + 8);
        long next = position + LOG_OVERHEAD + length;
        return length < MINIMUM_LENGTH || next > data.limit() ? -1 : (int) next;
    }

    private void describe(int position, MutableRecordBatch batch) {
        batches++;
        if (batch.magic() == 2 && batch.sizeInBytes() < BATCH_OVERHEAD) {
            try {
                batch.ensureValid();
            } catch (Throwable broken) {
                print(error(position, "header", broken));
            }
            return;
        }
        print(batchLine(position, batch));
        if (checkCrcs) {
            try {
                batch.ensureValid();
            } catch (Throwable broken) {
                print(error(position, "crc", broken));
                return;
            }
        }
        readRecords(position, batch);
    }

    private ObjectNode batchLine(int position, MutableRecordBatch batch) {
        ByteBuffer raw = from(position);
        int attributes = batch.magic() == 2 ? raw.getShort(21) & 0xFFFF : raw.get(17) & 0xFF;
        ObjectNode line = line("batch", position).put("size", batch.sizeInBytes()).put("magic", batch.magic());
        try {
            line.put("baseOffset", batch.baseOffset());
        } catch (Throwable unopened) {
            line.putNull("baseOffset");
        }
        line.put("lastOffset", batch.lastOffset()).put("crc", batch.checksum()).put("crcValid", batch.isValid());
        line.put("attributes", attributes).put("codecId", attributes & 7).put("codec", codecName(attributes & 7));
        line.put("timestampType", batch.timestampType().name).put("maxTimestamp", batch.maxTimestamp());
        line.put("partitionLeaderEpoch", batch.partitionLeaderEpoch()).put("producerId", batch.producerId());
        line.put("producerEpoch", batch.producerEpoch()).put("baseSequence", batch.baseSequence());
        line.put("lastSequence", batch.lastSequence()).put("isTransactional", batch.isTransactional());
        line.put("isControl", batch.isControlBatch());
        line.put("deleteHorizonMs", batch.deleteHorizonMs().isPresent() ? batch.deleteHorizonMs().getAsLong() : null);
        line.put("count", batch.countOrNull());
        if (batch.magic() == 2)
            line.put("lastOffsetDelta", raw.getInt(23)).put("baseTimestamp", raw.getLong(27));
        return line;
    }

    private static String codecName(int id) {
        return id <= CompressionType.ZSTD.id ? CompressionType.forId(id).name : null;
    }

    private void readRecords(int position, MutableRecordBatch batch) {
        int index = 0;
        try (CloseableIterator<Record> iterator = batch.streamingIterator(BufferSupplier.NO_CACHING)) {
            while (iterator.hasNext()) {
                readRecord(position, index, batch, iterator.next());
                index++;
            }
        } catch (Throwable broken) {
            print(error(position, "records", broken).put("index", index));
        }
    }

    private void readRecord(int position, int index, MutableRecordBatch batch, Record record) {
        ObjectNode line;
        try {
            // CompletedFetch checks each record too; only messages inside a wrapper have a CRC of their own.
            if (checkCrcs)
                record.ensureValid();
            line = recordLine(position, index, record);
        } catch (Throwable broken) {
            print(error(position, "record", broken).put("index", index).put("offset", record.offset()));
            return;
        }
        records++;
        if (!batch.isControlBatch()) {
            print(line);
            return;
        }
        try {
            line.set("control", ControlRecords.describe(record));
            print(line);
        } catch (Throwable broken) {
            print(line.putNull("control"));
            print(error(position, "control", broken).put("index", index));
        }
    }

    private ObjectNode recordLine(int position, int index, Record record) {
        ObjectNode line = line("record", position).put("index", index).put("offset", record.offset());
        line.put("timestamp", record.timestamp()).put("sequence", record.sequence());
        line.put("key", base64(record.key())).put("value", base64(record.value()));
        ArrayNode headers = line.putArray("headers");
        for (Header header : record.headers())
            headers.addArray().add(header.key()).add(header.value() == null ? null : base64(ByteBuffer.wrap(header.value())));
        return line;
    }

    private static String base64(ByteBuffer bytes) {
        return bytes == null ? null : StandardCharsets.US_ASCII.decode(Base64.getEncoder().encode(bytes.duplicate())).toString();
    }

    private ObjectNode line(String type, int position) {
        return JSON.createObjectNode().put("type", type).put("position", position);
    }

    private ObjectNode error(int position, String stage, Throwable broken) {
        errors++;
        return line("error", position).put("stage", stage).put("exception", broken.getClass().getSimpleName())
            .put("message", broken.getMessage());
    }

    private void print(ObjectNode line) {
        out.println(line.put("file", file));
    }
}
