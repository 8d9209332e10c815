package questions;

import org.apache.kafka.common.compress.Compression;
import org.apache.kafka.common.record.internal.CompressionType;
import org.apache.kafka.common.utils.BufferSupplier;

import java.io.BufferedReader;
import java.io.IOException;
import java.io.InputStream;
import java.io.InputStreamReader;
import java.io.PrintStream;
import java.nio.ByteBuffer;
import java.nio.charset.StandardCharsets;
import java.util.Base64;
import java.util.zip.CRC32;

/**
 * What Kafka's compression streams say of bytes. A line on stdin is codec id, magic and the stream in base64; the
 * answer is `refused` when the stream can not be opened, `broken` when reading it fails, else size and CRC-32 of
 * what came out.
 */
public final class CodecVerdicts {
    private CodecVerdicts() {
    }

    public static void main(String[] args) throws IOException {
        PrintStream out = new PrintStream(System.out, false, StandardCharsets.UTF_8);
        BufferedReader lines = new BufferedReader(new InputStreamReader(System.in, StandardCharsets.UTF_8));
        for (String line = lines.readLine(); line != null; line = lines.readLine()) {
            String[] parts = line.split(" ", -1);
            byte[] data = Base64.getDecoder().decode(parts[2]);
            out.println(verdict(Integer.parseInt(parts[0]), Byte.parseByte(parts[1]), data));
        }
        out.flush();
    }

    private static String verdict(int codec, byte magic, byte[] data) {
        Compression compression = Compression.of(CompressionType.forId(codec)).build();
        InputStream stream;
        try {
            stream = compression.wrapForInput(ByteBuffer.wrap(data), magic, BufferSupplier.NO_CACHING);
        } catch (RuntimeException | Error error) {
            return "refused";
        }
        try {
            return read(stream);
        } catch (IOException | RuntimeException | Error error) {
            return "broken";
        }
    }

    /** Read as a record iterator does: single bytes and then pieces, until there is no more. */
    private static String read(InputStream stream) throws IOException {
        CRC32 crc = new CRC32();
        long size = 0;
        byte[] piece = new byte[1000];
        for (int first = stream.read(); first >= 0; first = stream.read()) {
            crc.update(first);
            size++;
            int count = stream.read(piece);
            if (count < 0)
                break;
            crc.update(piece, 0, count);
            size += count;
        }
        return size + " " + crc.getValue();
    }
}
