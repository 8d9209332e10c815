// The sections of the page, from the rows of the report. What is no row's value is worked out here from
// rows: savings of all topics, shares, and what compaction alone leaves of a topic.
"use strict";
const ROWS = JSON.parse(document.getElementById("rows").textContent);
const byType = (type) => ROWS.filter((row) => row.type === type);
const REPORT = ROWS[0];
const section = (id) => document.getElementById(id);
const topicNames = byType("topic").sort((a, b) => b.bytes - a.bytes).map((row) => row.topic);
const topicChoice = (names, changed) => makeChoice("Topic", names.map((name) => [name, name]), changed);
const MAX_PARTITIONS = 120;

function drawTop() {
  const best = bestByTopic();
  const saved = best.reduce((sum, row) => sum + Math.max(0, row.savedPerMonth), 0);
  const tile = (text, about, value, kind) => make("div", { class: `tile ${kind || ""}`, "data-value": value }, make("b", {}, text), make("span", {}, about));
  section("top").append(
    make("h1", {}, `The logs in ${REPORT.paths.join(", ")}`),
    make("p", { class: "soft" }, `Read on ${timeText(REPORT.created)} UTC by ottla ${REPORT.version}. Numbers are measured on these files; what-if figures of topics above ${bytesText(REPORT.sampleBytes)} are estimated.`),
    make("div", { class: "tiles" },
      tile(bytesText(REPORT.bytes), "on disk", REPORT.bytes),
      tile(countText(REPORT.records), "records", REPORT.records),
      tile(countText(REPORT.topics), `topics, ${countText(REPORT.partitions)} partitions`, REPORT.topics),
      tile(countText(REPORT.errors), "kinds of errors found", REPORT.errors, REPORT.errors ? "bad" : "good"),
      tile(countText(REPORT.openTransactions), REPORT.openTransactions === 1 ? "open transaction" : "open transactions", REPORT.openTransactions, REPORT.openTransactions ? "hold" : "good"),
      best.length ? tile(moneyText(saved), "a month less, at most", saved, "good") : null));
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
    { name: "formats", title: "Formats", wrap: true, node: (row) => mixText(row.formats) },
    { name: "codecs", title: "Codecs", wrap: true, node: (row) => mixText(row.codecs) },
    { name: "producers", title: "Producers", text: countText },
  ], byType("topic").sort((a, b) => b.bytes - a.bytes))));
  const times = byType("timeline");
  if (times.length) home.append(card("Bytes by the newest timestamp of their batch", place((width) => timelinePlot(times, width), "Bytes over time by topic")));
  drawDistributions(home);
}

function drawDistributions(home) {
  const measures = [["batchBytes", "Size of batches", bytesText], ["batchRecords", "Records in a batch", countText], ["recordBytes", "Size of records", bytesText], ["latenessMs", "Lateness of records", durationText]];
  const grid = make("div", { class: "grid" });
  const producers = make("div");
  const draw = () => {
    const topic = choice.select.value;
    grid.replaceChildren(...measures.map(([measure, title, text]) => {
      const rows = byType("distribution").filter((row) => row.topic === topic && row.measure === measure);
      const plot = rows.length ? place((width) => distributionPlot(rows, width, text), `${title} of ${topic}`) : make("p", { class: "soft" }, "No record has a time.");
      return card(title, plot);
    }));
    producers.replaceChildren(makeTable("producers", [
      { name: "producerId", title: "Producer id", node: (row) => row.producerId === null ? "none" : String(row.producerId) },
      { name: "bytes", title: "Size", text: bytesText },
    ], byType("producer").filter((row) => row.topic === topic)));
  };
  const choice = topicChoice(topicNames, draw);
  home.append(make("div", { class: "controls" }, choice.label), grid, card("Producers that wrote most", producers));
  draw();
}

// Where an offset lies in a partition, as a share of its bytes: by its segment, then evenly.
function shareOf(segments, total, offset) {
  let start = 0;
  for (const [index, segment] of segments.entries()) {
    const following = segments[index + 1];
    if (following && following.baseOffset <= offset) { start += segment.bytes; continue; }
    const span = Math.max(1, (segment.lastOffset ?? segment.baseOffset) + 1 - segment.baseOffset);
    return (start + segment.bytes * Math.min(1, Math.max(0, (offset - segment.baseOffset) / span))) / total;
  }
  return 1;
}

function drawHealth() {
  const home = section("health");
  const findings = byType("finding"), open = byType("openTransaction");
  const kinds = (severity) => findings.filter((row) => row.severity === severity).length;
  const bad = kinds("error"), doubtful = kinds("warning");
  home.append(make("h2", {}, "Health"), commandLine(REPORT.commands.health));
  home.append(make("p", {}, bad || doubtful || open.length ? `${manyText(bad, "kind")} of errors, ${manyText(doubtful, "kind")} of warnings and ${manyText(open.length, "open transaction")}; each is marked where it is.` : "Every batch, record and index is as it should be."));
  drawMap(home, findings, open);
  if (findings.length) home.append(card("What was found", makeTable("findings", [
    { name: "severity", title: "", node: (row) => make("span", { class: `chip ${row.severity}` }, row.severity) },
    { name: "partition", title: "Partition", value: (row) => row.topic === null ? null : `${row.topic}-${row.partition}` },
    { name: "rule", title: "Rule" },
    { name: "meaning", title: "What it means", wide: true },
    { name: "command", title: "What acts on it", wide: true, node: (row) => make("code", {}, row.command) },
    { name: "count", title: "Places", text: countText },
    { name: "bytes", title: "Bytes", text: bytesText },
    { name: "offset", title: "First offset", text: countText },
  ], findings)));
  if (open.length) home.append(card("Transactions that never ended", make("p", {}, "Readers with read_committed stop in front of the first of them, and compaction does too."), commandLine(REPORT.commands.transactions), makeTable("open-transactions", [
    { name: "partition", title: "Partition", value: (row) => `${row.topic}-${row.partition}` },
    { name: "producerId", title: "Producer id", text: String },
    { name: "firstOffset", title: "First offset", text: countText },
    { name: "heldBack", title: "Offsets held back", text: countText },
    { name: "lastTimestamp", title: "Last heard of", text: timeText },
    { name: "hanging", title: "Hangs", node: (row) => row.hanging ? "yes" : "no", value: (row) => row.hanging },
  ], open)));
}

function drawMap(home, findings, open) {
  const same = (a, b) => a.topic === b.topic && a.partition === b.partition;
  const troubled = (row) => [...findings, ...open].some((other) => same(row, other));
  const every = byType("partition").filter((row) => row.bytes);
  const shown = [...every.filter(troubled), ...every.filter((row) => !troubled(row))].slice(0, MAX_PARTITIONS);
  const boxes = [], marks = [], held = [];
  for (const partition of shown) {
    const segments = byType("segment").filter((row) => same(row, partition));
    const total = segments.reduce((sum, row) => sum + row.bytes, 0) || 1;
    let start = 0;
    for (const segment of segments) { boxes.push({ ...segment, start: start / total, stop: (start + segment.bytes) / total }); start += segment.bytes; }
    for (const row of findings.filter((other) => same(other, partition))) for (const [at] of row.places) marks.push({ ...row, at: at / total });
    for (const row of open.filter((other) => same(other, partition))) {
      const at = shareOf(segments, total, row.firstOffset);
      held.push({ ...partition, start: at, stop: 1 });
      marks.push({ ...row, at, kind: "transaction", rule: "open transaction", detail: `producer ${row.producerId}` });
    }
  }
  // Errors are drawn last, so that nothing hides them.
  const weight = { note: 0, warning: 1, error: 2 };
  marks.sort((a, b) => (weight[a.severity] ?? 2) - (weight[b.severity] ?? 2));
  const kinds = [["damage", "damage"], ["gap", "offsets missing"], ["order", "order"], ["index", "index or side file"], ["transaction", "open transaction, and what it holds back"]];
  home.append(card("Where it is",
    make("p", { class: "soft" }, "A row is a partition from its oldest byte to its newest, a box a segment."),
    make("div", { class: "legend" }, ...kinds.map(([kind, text]) => make("span", {}, make("i", { style: `background:${COLORS[kind]}` }), text))),
    place((width) => mapPlot(shown, boxes, marks, held, width), "Segments of each partition with what was found in them"),
    every.length > shown.length ? make("p", { class: "soft" }, `${every.length - shown.length} more partitions are not drawn.`) : null));
}

// For each topic the setting of the current format that takes least.
function bestByTopic() {
  const rows = byType("whatIf").filter((row) => row.kind === "convert" && row.magic === 2);
  return topicNames.map((topic) => rows.filter((row) => row.topic === topic).sort((a, b) => a.bytes - b.bytes)[0]).filter(Boolean);
}
const settingText = (row) => row.kind === "rebatch" ? "as it is" : `v${row.magic} ${levelText(row)}`;

function drawWhatIf() {
  const home = section("what-if");
  const rows = byType("whatIf");
  home.append(make("h2", {}, "What if"), commandLine(REPORT.commands.whatIf));
  if (!rows.length) { home.append(make("p", {}, "This report was made without it.")); return; }
  home.append(make("p", {}, `Windows of each topic were re-encoded in every setting, as ottla convert does. A topic of up to ${bytesText(REPORT.sampleBytes)} was tried whole; of a larger one that much, and the true value lies between the bounds ${REPORT.confidence * 100} times in 100. A gigabyte costs ${moneyText(REPORT.pricePerGbMonth)} a month here, for one copy.`));
  drawSummary(home, rows);
  drawSettings(home, rows);
  drawOverheads(home);
}

function drawSummary(home, rows) {
  const compaction = byType("compaction");
  const summary = bestByTopic().map((best) => {
    const its = rows.filter((row) => row.topic === best.topic);
    const rebatched = its.filter((row) => row.kind === "rebatch").sort((a, b) => a.bytes - b.bytes)[0];
    const parts = compaction.filter((row) => row.topic === best.topic);
    // A partition that no cleaner gets through stays as it is.
    const compactedBytes = parts.some((row) => row.remainingBytes !== null) ? parts.reduce((sum, row) => sum + (row.remainingBytes === null ? row.bytes : row.remainingBytes + row.otherBytes), 0) : null;
    return { ...best, setting: `${settingText(best)}, ${powerText(best.batchBytes)}`, rebatchedBytes: rebatched ? rebatched.bytes : null, compactedBytes };
  });
  home.append(card("The most that each topic can save", makeTable("savings", [
    { name: "topic", title: "Topic" },
    { name: "currentBytes", title: "Now", text: bytesText },
    { name: "setting", title: "Smallest setting" },
    { name: "bytes", title: "Then", text: bytesText },
    { name: "saving", title: "Saves", text: shareText, value: (row) => row.currentBytes ? row.savedBytes / row.currentBytes : 0 },
    { name: "savedPerMonth", title: "A month", text: moneyText },
    { name: "rebatchedBytes", title: "Larger batches alone", text: bytesText },
    { name: "compactedBytes", title: "Compaction alone", text: bytesText },
  ], summary)));
}

function drawOverheads(home) {
  const rows = byType("overhead").map((row) => ({ ...row, format: `v${row.magic}` }));
  if (rows.length) home.append(card("What formats take beside keys, values and headers", make("p", { class: "soft" }, "Uncompressed. Topics with transactions are shown in v2 alone: older formats have no place for them."), makeTable("overheads", [
    { name: "topic", title: "Topic" },
    { name: "format", title: "Format" },
    { name: "records", title: "Records", text: countText },
    { name: "recordBytes", title: "Keys, values, headers", text: bytesText },
    { name: "bytes", title: "In the format", text: bytesText },
    { name: "perRecord", title: "Bytes beside a record", text: (value) => value.toFixed(1) },
  ], rows)));
}

function drawSettings(home, rows) {
  const plot = make("div"), table = make("div");
  const draw = () => {
    const topic = topics.select.value, magic = Number(formats.select.value), size = Number(sizes.select.value);
    const its = rows.filter((row) => row.topic === topic);
    const shown = its.filter((row) => row.kind === "convert" && row.magic === magic && row.batchBytes === size);
    plot.replaceChildren(place((width) => whatIfPlot(shown, its[0].currentBytes, width), `Bytes of ${topic} by codec`));
    table.replaceChildren(makeTable("settings", [
      { name: "setting", title: "Setting", value: settingText },
      { name: "batchBytes", title: "Batches of", text: powerText },
      { name: "bytes", title: "Bytes", text: bytesText },
      { name: "low", title: "At least", text: bytesText },
      { name: "high", title: "At most", text: bytesText },
      { name: "saving", title: "Saves", text: shareText, value: (row) => row.currentBytes ? row.savedBytes / row.currentBytes : 0 },
      { name: "perMonth", title: "A month", text: moneyText },
      { name: "savedPerMonth", title: "Less a month", text: moneyText },
      { name: "command", title: "Command", node: (row) => row.command ? make("code", {}, row.command) : "batch.size of the producers" },
    ], its));
  };
  // Nothing can be tried of a topic that is empty or wholly damaged.
  const topics = topicChoice(topicNames.filter((name) => rows.some((row) => row.topic === name)), draw);
  const formats = makeChoice("Format", [["2", "v2"], ["1", "v1"], ["0", "v0"]], draw);
  const lengths = [...new Set(rows.map((row) => row.batchBytes))].sort((a, b) => a - b);
  const sizes = makeChoice("Batches of", lengths.map((size) => [String(size), powerText(size)]), draw);
  home.append(card("By format, codec, level and batch size", make("div", { class: "controls" }, topics.label, formats.label, sizes.label), plot), card("Every setting of the topic", table));
  draw();
}

function drawCompaction() {
  const home = section("compaction");
  home.append(make("h2", {}, "Compaction"), commandLine(REPORT.commands.compaction));
  home.append(make("p", {}, "What a cleaner would make of each partition. What remains was found by running a whole round, the active segment included, which a broker leaves alone, up to the first open transaction."));
  home.append(card("", makeTable("cleaning", [
    { name: "partition", title: "Partition", value: (row) => `${row.topic}-${row.partition}` },
    { name: "bytes", title: "Size", text: bytesText },
    { name: "cleanedBytes", title: "Cleaned", text: bytesText },
    { name: "remainingBytes", title: "Of that remains", text: bytesText },
    { name: "dirtyRatio", title: "Dirty", text: shareText },
    { name: "distinctKeys", title: "Distinct keys", text: countText },
    { name: "tombstones", title: "Tombstones that stay", text: countText },
    { name: "unkeyedRecords", title: "Without key", text: countText },
    { name: "obstacles", title: "What stands in the way", wide: true, node: (row) => row.obstacles.length ? make("ul", { class: "plain" }, ...row.obstacles.map((each) => make("li", {}, `${each.cause}: ${each.detail}`))) : NONE },
  ], byType("compaction").sort((a, b) => b.bytes - a.bytes))));
}

drawTop();
drawContents();
drawHealth();
drawWhatIf();
drawCompaction();
section("end").append(make("p", {}, "Sizes are in powers of ten; hold a number to see it exactly. Batches that already have a codec are copied by convert whatever its level. The figures of this page are those of the lines that ottla report prints, or worked out from them."));
