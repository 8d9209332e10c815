package questions;

import org.apache.kafka.tools.api.Decoder;

import java.util.Base64;

/** Lets kafka-dump-log print keys and payloads that are no text, so that nothing is lost in a comparison. */
public final class Base64Decoder implements Decoder<String> {
    @Override
    public String fromBytes(byte[] bytes) {
        return bytes == null ? "null" : "b64:" + Base64.getEncoder().encodeToString(bytes);
    }
}
