// Plots by Observable Plot, drawn again when their width changes.
"use strict";
const redraws = new Map();
const watcher = new ResizeObserver((entries) => {
  for (const entry of entries) {
    const width = Math.floor(entry.contentRect.width);
    const drawn = redraws.get(entry.target);
    if (drawn && width > 0 && width !== drawn.width) { drawn.width = width; drawn.draw(width); }
  }
});
// A place for a plot; `draw(width)` gives it.
function place(draw, label) {
  const box = make("div", { class: "plot", role: "img", "aria-label": label });
  const redraw = (width) => box.replaceChildren(draw(width));
  redraws.set(box, { draw: redraw, width: 0 });
  watcher.observe(box);
  box.again = () => { const { width } = redraws.get(box); if (width) redraw(width); };
  return box;
}
const STYLE = { background: "transparent", fontSize: "12px", overflow: "visible", fontFamily: "inherit" };
const COLORS = { damage: "var(--bad)", index: "var(--warn)", order: "var(--accent)", file: "var(--warn)", gap: "var(--soft)", transaction: "var(--hold)" };
const cut = (text, length) => text.length > length ? `${text.slice(0, length - 1)}…` : text;

function timelinePlot(rows, width) {
  return Plot.plot({
    width, height: 240, marginLeft: 58, style: STYLE,
    x: { type: "utc", label: null, ticks: Math.max(3, Math.floor(width / 130)) },
    y: { label: "bytes", grid: true, tickFormat: bytesText, ticks: 5 },
    color: { scheme: "observable10", legend: true },
    marks: [
      Plot.rectY(rows, { x1: (row) => new Date(row.from), x2: (row) => new Date(row.to), y: "bytes", fill: "topic", tip: width > 500, inset: 0.2 }),
      Plot.ruleY([0]),
    ],
  });
}
function distributionPlot(rows, width, text) {
  const label = (from) => from === 0 ? "0" : text(from);
  const bins = rows.map((row) => ({ ...row, label: label(row.from) }));
  // Empty bins between have their place, too.
  const floors = [];
  for (let from = rows[0].from; from <= rows[rows.length - 1].from; from = from ? 2 * from : 1) floors.push(from);
  return Plot.plot({
    width, height: 170, marginLeft: 52, marginBottom: floors.length > 5 ? 48 : 24, style: STYLE,
    x: { label: null, domain: floors.map(label), tickRotate: floors.length > 5 ? -40 : 0, tickFormat: (name, index) => index % Math.ceil(floors.length / 8) ? "" : name, tickSize: floors.length > 8 ? 0 : 6 },
    y: { label: null, grid: true, ticks: 4, tickFormat: "~s" },
    marks: [Plot.barY(bins, { x: "label", y: "count", fill: "var(--accent)", tip: width > 500, title: (bin) => `${text(bin.from)} to below ${text(bin.to)}: ${countText(bin.count)}` }), Plot.ruleY([0])],
  });
}
function mapPlot(partitions, segments, marks, held, width) {
  const room = width < 520 ? 92 : 150;
  const label = (row) => `${row.topic}-${row.partition}`;
  return Plot.plot({
    width, height: 30 + 26 * partitions.length, marginLeft: room, marginRight: 24, marginBottom: 6, marginTop: 22, style: STYLE,
    x: { axis: "top", label: null, domain: [0, 1], tickFormat: (share) => share === 0 ? "oldest" : share === 1 ? "newest" : "", ticks: [0, 1], tickSize: 0 },
    y: { label: null, domain: partitions.map(label), tickFormat: (name) => cut(name, width < 520 ? 13 : 22), tickSize: 0 },
    marks: [
      Plot.barX(segments, { x1: "start", x2: "stop", y: label, fill: (row) => row.segment % 2 ? "var(--bar-2)" : "var(--bar)", inset: 0.5, rx: 2, title: (row) => `segment ${row.baseOffset}: ${bytesText(row.bytes)}`, tip: width > 500 }),
      Plot.barX(held, { x1: "start", x2: "stop", y: label, fill: "var(--hold)", fillOpacity: 0.35, insetTop: 4, insetBottom: 4 }),
      Plot.tickX(marks, { x: "at", y: label, stroke: (mark) => COLORS[mark.kind], strokeWidth: 3 }),
      Plot.dot(marks, { x: "at", y: label, dy: -8, r: 4, symbol: "triangle", rotate: 180, fill: (mark) => COLORS[mark.kind], title: (mark) => `${mark.rule}: ${mark.detail}` }),
    ],
  });
}
function whatIfPlot(rows, current, width) {
  const name = levelText;
  const narrow = width < 520;
  return Plot.plot({
    width, height: 56 + 26 * rows.length, marginLeft: narrow ? 96 : 110, marginRight: 24, marginTop: 20, marginBottom: 34, style: STYLE,
    x: { axis: "bottom", label: null, grid: true, zero: true, tickFormat: bytesText, ticks: narrow ? 3 : 7, nice: true },
    y: { label: null, domain: rows.map(name), tickSize: 0 },
    marks: [
      Plot.barX(rows, { x: "bytes", y: name, fill: (row) => row.bytes <= current ? "var(--accent)" : "var(--warn)", fillOpacity: 0.75, rx: 2, insetTop: 4, insetBottom: 4 }),
      Plot.ruleY(rows, { x1: "low", x2: "high", y: name, strokeWidth: 2 }),
      Plot.tickX(rows.filter((row) => row.low !== row.high), { x: "low", y: name, insetTop: 8, insetBottom: 8 }),
      Plot.tickX(rows.filter((row) => row.low !== row.high), { x: "high", y: name, insetTop: 8, insetBottom: 8 }),
      Plot.ruleX([current], { stroke: "var(--ink)", strokeDasharray: "4 3", strokeWidth: 1.5 }),
      Plot.text([current], { x: (value) => value, frameAnchor: "top", dy: -14, text: () => `now ${bytesText(current)}`, fontWeight: 600 }),
    ],
  });
}
