import com.fasterxml.jackson.databind.JsonNode;
import com.fasterxml.jackson.databind.ObjectMapper;

import org.apache.kafka.common.TopicIdPartition;
import org.apache.kafka.common.Uuid;
import org.apache.kafka.server.log.remote.storage.RemoteLogManager;
import org.apache.kafka.server.log.remote.storage.RemoteLogSegmentId;
import org.apache.kafka.server.log.remote.storage.RemoteLogSegmentMetadata;

import java.io.BufferedReader;
import java.io.InputStreamReader;
import java.lang.reflect.Method;
import java.util.NavigableMap;
import java.util.TreeMap;

/** For each line on stdin, a lineage and a segment: whether a broker reads the segment. */
final class Lineage {
    private static final ObjectMapper JSON = new ObjectMapper();

    private Lineage() { }

    public static void main(String[] arguments) throws Exception {
        Method within = find("isRemoteSegmentWithinLeaderEpochs", RemoteLogSegmentMetadata.class, long.class, NavigableMap.class);
        Method filter = find("buildFilteredLeaderEpochMap", NavigableMap.class);
        TopicIdPartition partition = new TopicIdPartition(Uuid.ONE_UUID, 0, "orders");
        BufferedReader lines = new BufferedReader(new InputStreamReader(System.in));
        for (String line = lines.readLine(); line != null; line = lines.readLine()) {
            JsonNode told = JSON.readTree(line);
            RemoteLogSegmentMetadata segment = new RemoteLogSegmentMetadata(
                new RemoteLogSegmentId(partition, Uuid.ONE_UUID), told.get("start").asLong(), told.get("end").asLong(),
                0L, 0, 0L, 1, epochs(told.get("epochs")));
            Object lineage = filter.invoke(null, epochs(told.get("lineage")));
            System.out.println(within.invoke(null, segment, Long.MAX_VALUE, lineage));
        }
    }

    private static Method find(String name, Class<?>... types) throws NoSuchMethodException {
        Method found = RemoteLogManager.class.getDeclaredMethod(name, types);
        found.setAccessible(true);
        return found;
    }

    private static TreeMap<Integer, Long> epochs(JsonNode pairs) {
        TreeMap<Integer, Long> found = new TreeMap<>();
        pairs.forEach(pair -> found.put(pair.get(0).asInt(), pair.get(1).asLong()));
        return found;
    }
}
