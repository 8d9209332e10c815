package bench;

import org.apache.kafka.common.header.Header;

/** One record as an application holds it. */
record Row(long timestamp, byte[] key, byte[] value, Header[] headers) { }
