// Plots of plain elements whose places are shares of their box: they fit any width without being drawn again.
"use strict";
const COLORS = { damage: "var(--bad)", index: "var(--warn)", order: "var(--accent)", file: "var(--warn)", gap: "var(--soft)", transaction: "var(--hold)" };
const MAX_BOXES = 150;
const percent = (share) => `${(100 * share).toFixed(3)}%`;
const span = (start, stop) => `left:${percent(start)};width:${percent(stop - start)}`;
const figure = (label, ...children) => make("div", { class: "plot", role: "img", "aria-label": label }, ...children);
const legend = (entries) => make("div", { class: "legend" }, ...entries.map(([color, text]) => make("span", {}, make("i", { style: `background:${color}` }), text)));

// Bytes by time, topics on top of each other: a path for each topic, and a column for each time to point at.
function timelinePlot(rows) {
  const topics = [...groupBy(rows, (row) => row.topic)], times = groupBy(rows, (row) => row.from);
  const [first, last] = rows.reduce(([from, to], row) => [Math.min(from, row.from), Math.max(to, row.to)], [Infinity, -Infinity]);
  const sums = new Map([...times].map(([from, its]) => [from, its.reduce((sum, row) => sum + row.bytes, 0)]));
  const top = Math.max(...sums.values()) || 1, length = rows[0].to - rows[0].from;
  const x = (time) => ((time - first) * 1000) / (last - first), height = (size) => (200 * size) / top, width = x(first + length);
  const filled = new Map();
  const paths = topics.map(([, its], at) => makeSvg("path", { fill: `var(--topic-${at})`, d: its.map((row) => {
    const below = filled.get(row.from) || 0;
    filled.set(row.from, below + row.bytes);
    return `M${x(row.from)},${200 - height(below)}h${width}v${-height(row.bytes)}h${-width}z`;
  }).join("") }));
  const columns = [...times].map(([from, its]) => makeSvg("rect", { x: x(from), width, y: 0, height: 200, fill: "transparent" }, makeSvg("title", {}, `${timeText(from)}: ${its.map((row) => `${row.topic} ${bytesText(row.bytes)}`).join(", ")}`)));
  return figure("Bytes over time by topic", legend(topics.map(([name], at) => [`var(--topic-${at})`, name])),
    make("div", { class: "soft small" }, `up to ${bytesText(top)} in ${durationText(length)}`),
    makeSvg("svg", { viewBox: "0 0 1000 200", preserveAspectRatio: "none", class: "timeline" }, ...paths, ...columns),
    make("div", { class: "axis" }, ...[first, (first + last) / 2, last].map((time) => make("span", {}, timeText(time)))));
}

// How many have which size; empty bins between have their place, too.
function distributionPlot(rows, title, text) {
  const counts = new Map(rows.map((row) => [row.from, row]));
  const bins = [];
  for (let from = rows[0].from; from <= rows[rows.length - 1].from; from = from ? 2 * from : 1) bins.push(counts.get(from) || { from, to: from ? 2 * from : 1, count: 0 });
  const most = Math.max(...bins.map((bin) => bin.count));
  const every = Math.ceil(bins.length / 5);
  return figure(title, make("div", { class: "bins" }, ...bins.map((bin, at) => make("div", { class: "bin", title: `${text(bin.from)} to below ${text(bin.to)}: ${countText(bin.count)}` },
    make("i", { style: `height:${percent(bin.count / most)}` }), make("span", {}, at % every ? "" : bin.from === 0 ? "0" : text(bin.from))))));
}

// A partition from its oldest byte to its newest: boxes are segments, or some of them together.
function laneOf(name, segments, marks, held) {
  const total = segments.reduce((sum, row) => sum + row.bytes, 0) || 1;
  const step = Math.ceil(segments.length / MAX_BOXES);
  const boxes = [];
  let start = 0;
  for (let at = 0; at < segments.length; at += step) {
    const its = segments.slice(at, at + step);
    const size = its.reduce((sum, row) => sum + row.bytes, 0);
    boxes.push(make("i", { class: "box", style: span(start / total, (start + size) / total), title: `${its.length === 1 ? "segment" : `${its.length} segments from`} ${its[0].baseOffset}: ${bytesText(size)}` }));
    start += size;
  }
  const waits = held.map((at) => make("i", { class: "held", style: span(at, 1) }));
  const points = marks.map((mark) => make("b", { class: "mark", style: `left:${percent(mark.at)};--mark:${COLORS[mark.kind]}`, title: `${mark.rule}: ${mark.detail}` }));
  return make("div", { class: "lane" }, make("span", { class: "name", title: name }, name), make("div", { class: "track" }, ...boxes, ...waits, ...points));
}

// Bytes of a topic in each setting, against those of today.
function settingsPlot(rows, current, nameOf, label) {
  const most = Math.max(current, ...rows.map((row) => row.high)) || 1;
  return figure(label, ...rows.map((row) => make("div", { class: "lane bar" },
    make("span", { class: "name" }, nameOf(row)),
    make("div", { class: "track" },
      make("i", { class: row.bytes <= current ? "less" : "greater", style: span(0, row.bytes / most) }),
      row.low === row.high ? null : make("i", { class: "bounds", style: span(row.low / most, row.high / most) }),
      make("i", { class: "now", style: `left:${percent(current / most)}` })),
    make("span", { class: "figure" }, bytesText(row.bytes)))),
    make("p", { class: "soft small" }, `The line is today: ${bytesText(current)}.`));
}
