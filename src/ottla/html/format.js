// Numbers as people read them. What is exact stands in the title of its cell, and in data-value.
"use strict";
const UNITS = ["B", "kB", "MB", "GB", "TB", "PB"];
const NONE = "–";
const isNone = (value) => value === null || value === undefined;

function bytesText(size) {
  if (isNone(size)) return NONE;
  const sign = size < 0 ? "−" : "";
  let left = Math.abs(size), unit = 0;
  while (left >= 999.5 && unit < UNITS.length - 1) { left /= 1000; unit += 1; }
  return `${sign}${unit === 0 || left >= 99.95 ? left.toFixed(0) : left.toFixed(1)} ${UNITS[unit]}`;
}
const countText = (count) => isNone(count) ? NONE : count.toLocaleString("en");
const manyText = (count, name) => `${countText(count)} ${name}${count === 1 ? "" : "s"}`;
// Never rounded up to all: 4999 of 5000 are 99.9 %.
function shareText(share) {
  if (isNone(share)) return NONE;
  const rounded = Math.round(1000 * share) / 10;
  return `${rounded === 100 && share < 1 ? 99.9 : rounded} %`.replace("-", "−");
}
const DEFAULT_LEVELS = { gzip: -1, lz4: 9, zstd: 3 };
const levelText = (row) => row.level === null || row.level === DEFAULT_LEVELS[row.codec] ? row.codec : `${row.codec} ${row.level}`;
const powerText = (size) => isNone(size) ? "as they are" : size % 1024 ? countText(size) : `${countText(size / 1024)} KiB`;
const secondsText = (seconds) => isNone(seconds) ? NONE : seconds === 0 ? "0 s" : seconds < 0.95 ? `${seconds.toPrecision(1)} s` : `${seconds.toFixed(seconds < 9.95 ? 1 : 0)} s`;
// Cents are the least that anybody counts.
function moneyText(amount) {
  if (isNone(amount)) return NONE;
  const size = Math.abs(amount).toLocaleString("en", { minimumFractionDigits: 2, maximumFractionDigits: 2 });
  return amount < 0 && size !== "0.00" ? `−${size}` : size;
}
function timeText(timestamp) {
  if (isNone(timestamp) || Math.abs(timestamp) > 8.64e15) return NONE;
  return new Date(timestamp).toISOString().slice(0, 16).replace("T", " ");
}
function durationText(ms) {
  const steps = [[86400e3, "d"], [3600e3, "h"], [60e3, "min"], [1e3, "s"]];
  for (const [size, unit] of steps) if (ms >= size) return `${(ms / size).toFixed(ms / size < 10 ? 1 : 0)} ${unit}`;
  return `${ms} ms`;
}
// Parts of a whole, such as bytes by codec: the greatest first.
function mixText(parts) {
  const entries = Object.entries(parts).sort((a, b) => b[1] - a[1]);
  const total = entries.reduce((sum, [, size]) => sum + size, 0) || 1;
  const shown = entries.filter(([, size]) => size / total >= 0.005);
  return shown.map(([name, size]) => shown.length === 1 ? name : `${name} ${Math.round((100 * size) / total)}\u00a0%`).join(", ") || NONE;
}
