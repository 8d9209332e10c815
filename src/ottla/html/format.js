// Numbers as people read them. What is exact stands in the title of its cell, and in data-value.
"use strict";
const UNITS = ["B", "kB", "MB", "GB", "TB", "PB"];
const NONE = "–";

function bytesText(size) {
  if (size === null || size === undefined) return NONE;
  const sign = size < 0 ? "−" : "";
  let left = Math.abs(size), unit = 0;
  while (left >= 999.5 && unit < UNITS.length - 1) { left /= 1000; unit += 1; }
  return `${sign}${unit === 0 || left >= 99.95 ? left.toFixed(0) : left.toFixed(1)} ${UNITS[unit]}`;
}
const manyText = (count, name) => `${countText(count)} ${name}${count === 1 ? "" : "s"}`;
const countText = (count) => count === null || count === undefined ? NONE : count.toLocaleString("en");
const shareText = (share) => share === null || share === undefined ? NONE : `${(100 * share).toFixed(1)} %`;
const levelText = (row) => row.level === null ? row.codec : row.level === -1 ? `${row.codec} default` : `${row.codec} ${row.level}`;
const powerText = (size) => size % 1024 ? countText(size) : `${countText(size / 1024)} KiB`;
function moneyText(amount) {
  if (amount === null || amount === undefined) return NONE;
  const size = Math.abs(amount);
  if (size < 5e-7) return "0";
  const digits = size >= 0.995 ? 2 : Math.min(6, 1 - Math.floor(Math.log10(size)));
  return (amount < 0 ? "−" : "") + size.toLocaleString("en", { minimumFractionDigits: digits, maximumFractionDigits: digits });
}
function timeText(timestamp) {
  if (timestamp === null || timestamp === undefined || Math.abs(timestamp) > 8.64e15) return NONE;
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
