// The sections of the page, from the rows of the report. What is no row's value is worked out here from
// rows: shares, seconds for a gigabyte, and what the best of all settings saves.
"use strict";
const FEW_PARTITIONS = 12, MANY_PARTITIONS = 60, GB = 1e9;
const section = (id) => document.getElementById(id);
let REPORT, TYPES, TOPICS;

const byType = (type) => TYPES.get(type) || [];
const groupBy = (rows, keyOf) => rows.reduce((groups, row) => { const key = keyOf(row); groups.has(key) ? groups.get(key).push(row) : groups.set(key, [row]); return groups; }, new Map());
const nameOf = (row) => isNone(row.topic) ? null : `${row.topic}-${row.partition}`;
const topicChoice = (names, changed) => makeChoice("Topic", names.map((name) => [name, name]), changed);

async function readRows() {
  const packed = Uint8Array.from(atob(section("rows").textContent), (letter) => letter.charCodeAt(0));
  const stream = new Blob([packed]).stream().pipeThrough(new DecompressionStream("deflate"));
  const tables = JSON.parse(await new Response(stream).text());
  return new Map(Object.entries(tables).map(([type, table]) => [type, unpack(table)]));
}
// Column by column: rows that all get their fields in the same order are quick to make and to read.
function unpack({ count, same, columns }) {
  const rows = Array.from({ length: count }, () => ({}));
  for (const name in same) { const value = same[name]; for (let at = 0; at < count; at += 1) rows[at][name] = value; }
  for (const name in columns) { const values = columns[name]; for (let at = 0; at < count; at += 1) rows[at][name] = values[at]; }
  return rows;
}

function drawTop() {
  const healthy = REPORT.healthyPartitions === REPORT.partitions && !REPORT.errors && !REPORT.warnings;
  const tile = (text, about, value, kind) => make("div", { class: `tile ${kind || ""}`, "data-value": value }, make("b", {}, text), make("span", {}, about));
  section("top").append(
    make("h1", { class: healthy ? "good" : "bad" }, REPORT.health),
    REPORT.saving ? make("p", { class: "lead" }, REPORT.saving) : null,
    make("p", { class: "soft" }, `The logs in ${REPORT.paths.join(", ")}, read on ${timeText(REPORT.created)} UTC by ottla ${REPORT.version}.`),
    make("div", { class: "tiles" },
      tile(shareText(REPORT.healthyPartitions / REPORT.partitions), "of the partitions are healthy", REPORT.healthyPartitions, healthy ? "good" : "bad"),
      isNone(REPORT.savedShare) ? null : tile(shareText(REPORT.savedShare), "saved by zstd alone", REPORT.savedShare, REPORT.savedShare >= 0.01 ? "good" : ""),
      tile(bytesText(REPORT.bytes), "on disk", REPORT.bytes),
      tile(countText(REPORT.records), "records", REPORT.records),
      tile(countText(REPORT.partitions), `partition${REPORT.partitions === 1 ? "" : "s"} of ${manyText(REPORT.topics, "topic")}`, REPORT.partitions)));
}

function drawHealth() {
  const home = section("health");
  const findings = byType("finding"), open = byType("openTransaction");
  const kinds = (severity) => findings.filter((row) => row.severity === severity).length;
  const bad = kinds("error"), doubtful = kinds("warning");
  home.append(make("h2", {}, "Health"), commandLine(REPORT.commands.health));
  home.append(make("p", {}, bad || doubtful || open.length ? `${manyText(bad, "kind")} of errors, ${manyText(doubtful, "kind")} of warnings and ${manyText(open.length, "open transaction")}; each is marked where it is.` : "Every batch, record and index is as it should be."));
  if (findings.length) home.append(card("What was found", makeTable("findings", [
    { name: "severity", title: "Severity", node: (row) => make("span", { class: `chip ${row.severity}` }, row.severity) },
    { name: "partition", title: "Partition", value: nameOf },
    { name: "rule", title: "Rule" },
    { name: "meaning", title: "What it means", wide: true },
    { name: "command", title: "Command to run", wide: true, node: (row) => codeOf(row.command) },
    { name: "count", title: "Places", text: countText },
    { name: "bytes", title: "Bytes", text: bytesText },
    { name: "offset", title: "First offset", text: countText },
  ], findings)));
  drawMap(home, findings, open);
  if (open.length) home.append(card("Transactions that never ended", make("p", {}, "Readers with read_committed stop in front of the first of them, and compaction does too."), commandLine(REPORT.commands.transactions), makeTable("open-transactions", [
    { name: "partition", title: "Partition", value: nameOf },
    { name: "producerId", title: "Producer id", text: String },
    { name: "firstOffset", title: "First offset", text: countText },
    { name: "heldBack", title: "Offsets held back", text: countText },
    { name: "lastTimestamp", title: "Last heard of", text: timeText },
    { name: "hanging", title: "Hangs", node: (row) => row.hanging ? "yes" : "no", value: (row) => row.hanging },
  ], open)));
}

// Where an offset lies in a partition, as a share of its bytes: by its segment, then evenly.
function shareOf(segments, total, offset) {
  let start = 0;
  for (const [index, segment] of segments.entries()) {
    const following = segments[index + 1];
    if (following && following.baseOffset <= offset) { start += segment.bytes; continue; }
    const width = Math.max(1, (segment.lastOffset ?? segment.baseOffset) + 1 - segment.baseOffset);
    return (start + segment.bytes * Math.min(1, Math.max(0, (offset - segment.baseOffset) / width))) / total;
  }
  return 1;
}

// The partitions that have something are drawn; where there are many, the others only when asked for.
function drawMap(home, findings, open) {
  const segments = groupBy(byType("segment"), nameOf);
  const found = groupBy(findings, nameOf), waiting = groupBy(open, nameOf);
  const every = byType("partition").filter((row) => row.bytes).sort((a, b) => COLLATOR.compare(nameOf(a), nameOf(b)));
  if (!every.length) return;
  const lane = (row) => drawLane(nameOf(row), segments.get(nameOf(row)) || [], found.get(nameOf(row)) || [], waiting.get(nameOf(row)) || []);
  const troubled = every.filter((row) => found.has(nameOf(row)) || waiting.has(nameOf(row)));
  const quiet = every.filter((row) => !found.has(nameOf(row)) && !waiting.has(nameOf(row)));
  const few = every.length <= FEW_PARTITIONS;
  const drawn = few ? every : troubled.slice(0, MANY_PARTITIONS), more = few ? [] : troubled.slice(MANY_PARTITIONS);
  const kinds = [["damage", "damage"], ["gap", "offsets missing"], ["order", "order"], ["index", "index or side file"], ["transaction", "open transaction, and what it holds back"]];
  const folded = (rows, title) => rows.length ? fold(title, () => rows.map(lane)) : null;
  home.append(card("Where it is",
    make("p", { class: "soft" }, "A row is a partition from its oldest byte to its newest, a box a segment."),
    troubled.length ? legend(kinds.map(([kind, text]) => [COLORS[kind], text])) : null,
    figure("Segments of each partition with what was found in them", ...drawn.map(lane)),
    folded(more, `${manyText(more.length, "more partition")} with findings`),
    few ? null : folded(quiet, `${manyText(quiet.length, "partition")} without findings, ${bytesText(quiet.reduce((sum, row) => sum + row.bytes, 0))}`)));
}

function drawLane(name, segments, findings, open) {
  const total = segments.reduce((sum, row) => sum + row.bytes, 0) || 1;
  const held = open.map((row) => shareOf(segments, total, row.firstOffset));
  const waits = open.map((row, at) => ({ at: held[at], kind: "transaction", rule: "open transaction", detail: `producer ${row.producerId}` }));
  const places = findings.flatMap((row) => row.places.map(([at]) => ({ ...row, at: at / total })));
  // Errors are drawn last, so that nothing hides them.
  const weight = { note: 0, warning: 1, error: 2 };
  const marks = [...waits, ...places].sort((a, b) => (weight[a.severity] ?? 2) - (weight[b.severity] ?? 2));
  return laneOf(name, segments, marks, held);
}

function drawContents() {
  const home = section("contents");
  home.append(make("h2", {}, "What is there"), commandLine(REPORT.commands.contents));
  home.append(card("Topics", makeTable("topics", [
    { name: "topic", title: "Topic" },
    { name: "bytes", title: "Size", text: bytesText },
    { name: "partitions", title: "Partitions", text: countText },
    { name: "segments", title: "Segments", text: countText },
    { name: "batches", title: "Batches", text: countText },
    { name: "records", title: "Records", text: countText },
    { name: "firstTimestamp", title: "From", text: timeText },
    { name: "lastTimestamp", title: "To", text: timeText },
    { name: "formats", title: "Formats", node: (row) => mixText(row.formats) },
    { name: "codecs", title: "Codecs", node: (row) => mixText(row.codecs) },
    { name: "producers", title: "Producers", text: countText },
  ], byType("topic").sort((a, b) => b.bytes - a.bytes))));
  const remote = byType("partition").filter((row) => !isNone(row.remoteRange));
  if (remote.length) home.append(card("In remote storage", make("p", { class: "soft" }, "What lies in remote storage only was not read for this page: name its bucket or folder too."), makeTable("remote", [
    { name: "partition", title: "Partition", value: nameOf },
    { name: "remoteRange", title: "Offsets", node: (row) => row.remoteRange.map(countText).join(" to "), value: (row) => row.remoteRange[0] },
    { name: "remoteOffsets", title: "Of them not read", text: countText },
  ], remote)));
  const times = byType("timeline");
  if (new Set(times.map((row) => row.from)).size > 1) home.append(card("Bytes by the newest timestamp of their batch", timelinePlot(times)));
  drawSchemas(home);
  drawDistributions(home);
}

function drawSchemas(home) {
  const rows = byType("schema");
  if (!rows.length) return;
  const why = (row) => Object.entries(row.reasons).map(([reason, count]) => `${reason} (${countText(count)})`).join(", ");
  home.append(card("Schemas of keys and values", make("p", { class: "soft" }, "By the registry in these logs, of some windows of each partition."), commandLine(REPORT.commands.schemas), makeTable("schemas", [
    { name: "topic", title: "Topic" },
    { name: "of", title: "Of" },
    { name: "schema", title: "Schema" },
    { name: "subject", title: "Subject" },
    { name: "version", title: "Version", text: countText },
    { name: "schemaType", title: "Type" },
    { name: "records", title: "Records", text: countText },
    { name: "firstTimestamp", title: "From", text: timeText },
    { name: "lastTimestamp", title: "To", text: timeText },
    { name: "undecodable", title: "Not decoded", text: shareText, value: (row) => row.records ? row.undecodable / row.records : 0 },
    { name: "reasons", title: "Why", wide: true, node: (row) => why(row) || NONE },
  ], rows)));
}

function drawDistributions(home) {
  const measures = [["batchBytes", "Size of batches", bytesText], ["batchRecords", "Records in a batch", countText], ["recordBytes", "Size of records", bytesText], ["latenessMs", "Lateness of records", durationText]];
  const bins = groupBy(byType("distribution"), (row) => row.topic), writers = groupBy(byType("producer"), (row) => row.topic);
  const grid = make("div", { class: "grid" }), facts = make("ul", { class: "plain" }), producers = make("div");
  const draw = () => {
    const topic = choice.select.value;
    const its = measures.map(([measure, title, text]) => [title, text, (bins.get(topic) || []).filter((row) => row.measure === measure)]);
    grid.replaceChildren(...its.filter(([, , rows]) => rows.length > 1).map(([title, text, rows]) => card(title, distributionPlot(rows, `${title} of ${topic}`, text))));
    // What is alike everywhere needs no plot.
    facts.replaceChildren(...its.filter(([, , rows]) => rows.length < 2).map(([title, text, [only]]) => make("li", {}, only ? `${title}: ${only.from ? `all from ${text(only.from)} to below ${text(only.to)}` : `all ${text(0)}`}.` : `${title}: no record has a time.`)));
    producers.replaceChildren(makeTable("producers", [
      { name: "producerId", title: "Producer id", node: (row) => row.producerId === null ? "none" : String(row.producerId) },
      { name: "bytes", title: "Size", text: bytesText },
    ], writers.get(topic) || []));
  };
  const choice = topicChoice(TOPICS, draw);
  home.append(make("div", { class: "controls" }, choice.label), grid, facts, card("Producers that wrote most", producers));
  draw();
}

const isConversion = (row) => row.kind === "convert" && row.magic === 2;
const isOld = (row) => row.magic === 0 || row.magic === 1;
const isLead = (row) => isConversion(row) && row.codec === "zstd" && row.level === DEFAULT_LEVELS.zstd && row.batchBytes === null;
const savedShare = (row) => row.currentBytes ? row.savedBytes / row.currentBytes : 0;
const settingText = (row) => row.kind === "convert" ? `${row.magic === 2 ? "" : `v${row.magic} `}${levelText(row)}` : row.kind === "today" ? "today" : "the codec of today";
const smallest = (rows) => rows.reduce((best, row) => best && best.bytes <= row.bytes ? best : row, null);

function drawWhatIf() {
  const home = section("what-if");
  const topics = groupBy(byType("whatIf"), (row) => row.topic);
  home.append(make("h2", {}, "What if"), commandLine(REPORT.commands.whatIf));
  if (!topics.size) { home.append(make("p", {}, "This report was made without it.")); return; }
  home.append(make("p", {}, `Windows of each topic were re-encoded in every setting, as ottla convert does. A topic of up to ${bytesText(REPORT.sampleBytes)} was tried whole; of a larger one that much, and the true value lies between the bounds ${REPORT.confidence * 100} times in 100. CPU time is that of the codec on this machine, for a gigabyte of keys, values and headers.`));
  const raw = new Map(byType("topic").map((row) => [row.topic, row.recordBytes]));
  const forGb = (row, name) => isNone(row[name]) || !raw.get(row.topic) ? null : (row[name] * GB) / raw.get(row.topic);
  drawSavings(home, topics, forGb);
  drawSettings(home, topics, forGb);
  drawOldFormats(home);
}

function drawSavings(home, topics, forGb) {
  const leads = TOPICS.map((topic) => (topics.get(topic) || []).find(isLead)).filter(Boolean).map((lead) => {
    const its = topics.get(lead.topic);
    const best = smallest(its.filter(isConversion)), rebatched = smallest(its.filter((row) => row.kind === "rebatch"));
    return { ...lead, today: its.find((row) => row.kind === "today"), best, rebatchedBytes: rebatched ? rebatched.bytes : null };
  });
  if (!leads.length) return;
  const cpu = (name, title) => ({ name, title, text: secondsText, value: (row) => forGb(row, name), node: (row) => row.today && !isNone(row.today[name]) ? `${secondsText(forGb(row.today, name))} → ${secondsText(forGb(row, name))}` : secondsText(forGb(row, name)) });
  home.append(card("zstd at its default level, in the batches of today", makeTable("savings", [
    { name: "topic", title: "Topic" },
    { name: "currentBytes", title: "Now", text: bytesText },
    { name: "bytes", title: "With zstd", text: bytesText },
    { name: "saving", title: "Saves", text: shareText, value: savedShare },
    cpu("writeSeconds", "CPU to write"),
    cpu("readSeconds", "CPU to read"),
    { name: "savedPerMonth", title: "Less a month", text: moneyText },
    { name: "rebatchedBytes", title: "Larger batches alone", text: bytesText },
    { name: "best", title: "Most of all settings", text: shareText, value: (row) => savedShare(row.best), node: (row) => `${shareText(savedShare(row.best))}, ${settingText(row.best)}${row.best.batchBytes ? ` in ${powerText(row.best.batchBytes)}` : ""}` },
  ], leads), make("p", { class: "soft small below" }, `A gigabyte costs ${moneyText(REPORT.pricePerGbMonth)} a month here, for one copy.`)));
}

function drawSettings(home, topics, forGb) {
  const plot = make("div"), table = make("div");
  // Another size is one more flag.
  const commandOf = (row) => row.kind !== "convert" || row.command ? row.command : `${topics.get(row.topic).find((other) => other.command && other.codec === row.codec && other.level === row.level).command} --batch-bytes ${row.batchBytes}`;
  const draw = () => {
    const topic = names.select.value, size = sizes.select.value === "" ? null : Number(sizes.select.value);
    const its = topics.get(topic).filter((row) => row.batchBytes === size && !isOld(row));
    const sampled = its.some((row) => row.low !== row.high);
    plot.replaceChildren(settingsPlot(its.filter(isConversion), topics.get(topic)[0].currentBytes, settingText, `Bytes of ${topic} by codec`));
    table.replaceChildren(makeTable("settings", [
      { name: "setting", title: "Setting", value: settingText },
      { name: "bytes", title: "Bytes", text: bytesText },
      ...(sampled ? [{ name: "low", title: "At least", text: bytesText }, { name: "high", title: "At most", text: bytesText }] : []),
      { name: "saving", title: "Saves", text: shareText, value: savedShare },
      { name: "writeSeconds", title: "CPU to write", text: secondsText, value: (row) => forGb(row, "writeSeconds") },
      { name: "readSeconds", title: "CPU to read", text: secondsText, value: (row) => forGb(row, "readSeconds") },
      { name: "savedPerMonth", title: "Less a month", text: moneyText },
      { name: "command", title: "Command", wide: true, value: commandOf, node: (row) => row.kind === "convert" ? codeOf(commandOf(row)) : row.kind === "rebatch" ? "batch.size of the producers" : NONE },
    ], [...its.filter((row) => row.kind === "today"), ...its.filter((row) => row.kind !== "today")]));
  };
  // Nothing can be tried of a topic that is empty or wholly damaged.
  const names = topicChoice(TOPICS.filter((name) => topics.has(name)), draw);
  const lengths = [...new Set(byType("whatIf").map((row) => row.batchBytes))].sort((a, b) => (a ?? 0) - (b ?? 0));
  const sizes = makeChoice("Batches", lengths.map((size) => [isNone(size) ? "" : String(size), isNone(size) ? "as they are" : `of ${powerText(size)}`]), draw);
  home.append(card("By codec and size of batches", make("div", { class: "controls" }, names.label, sizes.label), plot, table));
  draw();
}

function drawOldFormats(home) {
  const overheads = byType("overhead").map((row) => ({ ...row, format: `v${row.magic}` }));
  const rows = byType("whatIf").filter(isOld);
  if (!overheads.length && !rows.length) return;
  home.append(make("div", { class: "card" }, fold("Older formats", () => [
    make("h3", {}, "What formats take beside keys, values and headers"),
    make("p", { class: "soft" }, "Uncompressed. Topics with transactions are shown in v2 alone: older formats have no place for them."),
    makeTable("overheads", [
      { name: "topic", title: "Topic" },
      { name: "format", title: "Format" },
      { name: "records", title: "Records", text: countText },
      { name: "recordBytes", title: "Keys, values, headers", text: bytesText },
      { name: "bytes", title: "In the format", text: bytesText },
      { name: "perRecord", title: "Bytes beside a record", text: (value) => value.toFixed(1) },
    ], overheads),
    make("h3", {}, "What topics would take in them"),
    makeTable("old-settings", [
      { name: "topic", title: "Topic" },
      { name: "setting", title: "Setting", value: settingText },
      { name: "bytes", title: "Bytes", text: bytesText },
      { name: "saving", title: "Saves", text: shareText, value: savedShare },
    ], rows),
  ])));
}

function drawCompaction() {
  const home = section("compaction");
  const rows = byType("compaction").sort((a, b) => b.bytes - a.bytes);
  home.append(make("h2", {}, "Compaction"), commandLine(REPORT.commands.compaction));
  if (!rows.length) { home.append(make("p", {}, "Nothing says that one of these topics is compacted: no cleanup.policy in a metadata log, no checkpoint of a cleaner. Name the topics that are.")); return; }
  home.append(make("p", {}, "What a cleaner would make of the topics that are compacted. What remains was found by running a whole round, the active segment included, which a broker leaves alone, up to the first open transaction."));
  home.append(card("", makeTable("cleaning", [
    { name: "partition", title: "Partition", value: nameOf },
    { name: "bytes", title: "Size", text: bytesText },
    { name: "cleanedBytes", title: "Cleaned", text: bytesText },
    { name: "remainingBytes", title: "Of that remains", text: bytesText },
    { name: "dirtyRatio", title: "Dirty", text: shareText },
    { name: "distinctKeys", title: "Distinct keys", text: countText },
    { name: "tombstones", title: "Tombstones that stay", text: countText },
    { name: "unkeyedRecords", title: "Without key", text: countText },
    { name: "obstacles", title: "What stands in the way", wide: true, node: (row) => row.obstacles.length ? make("ul", { class: "plain" }, ...row.obstacles.map((each) => make("li", {}, `${each.cause}: ${each.detail}`))) : NONE },
  ], rows)));
}

readRows().then((types) => {
  TYPES = types;
  [REPORT] = byType("report");
  TOPICS = byType("topic").sort((a, b) => b.bytes - a.bytes).map((row) => row.topic);
  drawTop();
  drawHealth();
  drawContents();
  drawWhatIf();
  drawCompaction();
  section("end").append(make("p", {}, "Sizes are in powers of ten; hold a number to see it exactly. Batches that already have a codec are copied by convert whatever its level. The figures of this page are those of the lines that ottla report prints, or worked out from them."));
  performance.mark("drawn");
}, (error) => section("top").append(make("h1", {}, "This page needs a browser of 2023 or later."), make("p", {}, String(error))));
