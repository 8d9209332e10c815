package questions;

import com.fasterxml.jackson.databind.ObjectMapper;
import com.fasterxml.jackson.databind.node.ArrayNode;
import com.fasterxml.jackson.databind.node.ObjectNode;

import org.apache.kafka.common.message.KRaftVersionRecord;
import org.apache.kafka.common.message.LeaderChangeMessage;
import org.apache.kafka.common.message.SnapshotFooterRecord;
import org.apache.kafka.common.message.SnapshotHeaderRecord;
import org.apache.kafka.common.message.VotersRecord;
import org.apache.kafka.common.record.internal.ControlRecordType;
import org.apache.kafka.common.record.internal.ControlRecordUtils;
import org.apache.kafka.common.record.internal.EndTransactionMarker;
import org.apache.kafka.common.record.internal.Record;

import java.nio.ByteBuffer;
import java.util.List;

/** The `control` object of a record line: type, typeId, keyVersion and the fields of the value. */
final class ControlRecords {
    private static final ObjectMapper JSON = new ObjectMapper();

    private ControlRecords() { }

    static ObjectNode describe(Record record) {
        ControlRecordType type = ControlRecordType.parse(record.key());
        ByteBuffer key = record.key();
        ObjectNode node = JSON.createObjectNode();
        node.put("type", type.name()).put("typeId", key.getShort(key.position() + 2)).put("keyVersion", key.getShort(key.position()));
        switch (type) {
            case ABORT, COMMIT -> node.put("coordinatorEpoch", EndTransactionMarker.deserialize(record).coordinatorEpoch());
            case LEADER_CHANGE -> {
                LeaderChangeMessage message = ControlRecordUtils.deserializeLeaderChangeMessage(record);
                node.put("version", message.version()).put("leaderId", message.leaderId());
                addVoters(node.putArray("voters"), message.voters());
                addVoters(node.putArray("grantingVoters"), message.grantingVoters());
            }
            case SNAPSHOT_HEADER -> {
                SnapshotHeaderRecord header = ControlRecordUtils.deserializeSnapshotHeaderRecord(record);
                node.put("version", header.version()).put("lastContainedLogTimestamp", header.lastContainedLogTimestamp());
            }
            case SNAPSHOT_FOOTER -> {
                SnapshotFooterRecord footer = ControlRecordUtils.deserializeSnapshotFooterRecord(record);
                node.put("version", footer.version());
            }
            case KRAFT_VERSION -> {
                KRaftVersionRecord version = ControlRecordUtils.deserializeKRaftVersionRecord(record);
                node.put("version", version.version()).put("kRaftVersion", version.kRaftVersion());
            }
            case KRAFT_VOTERS -> addVoters(node, ControlRecordUtils.deserializeVotersRecord(record));
            default -> { }
        }
        return node;
    }

    private static void addVoters(ArrayNode array, List<LeaderChangeMessage.Voter> voters) {
        for (LeaderChangeMessage.Voter voter : voters)
            array.addArray().add(voter.voterId()).add(voter.voterDirectoryId().toString());
    }

    private static void addVoters(ObjectNode node, VotersRecord record) {
        node.put("version", record.version());
        ArrayNode voters = node.putArray("voters");
        for (VotersRecord.Voter voter : record.voters()) {
            ObjectNode added = voters.addObject();
            added.put("voterId", voter.voterId()).put("directoryId", voter.voterDirectoryId().toString());
            ArrayNode endpoints = added.putArray("endpoints");
            for (VotersRecord.Endpoint endpoint : voter.endpoints())
                endpoints.addArray().add(endpoint.name()).add(endpoint.host()).add(endpoint.port());
            added.putArray("kRaftVersionFeature").add(voter.kRaftVersionFeature().minSupportedVersion())
                .add(voter.kRaftVersionFeature().maxSupportedVersion());
        }
    }
}
