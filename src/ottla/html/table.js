// Elements and tables. Text from logs only ever becomes text, never markup.
"use strict";
const SHOWN_AT_FIRST = 25, FEW = 4, SHORT = 26;

function fillElement(element, attributes, children) {
  for (const [name, value] of Object.entries(attributes || {})) if (!isNone(value)) element.setAttribute(name, value);
  element.append(...children.filter((child) => child !== null));
  return element;
}
const make = (tag, attributes, ...children) => fillElement(document.createElement(tag), attributes, children);
const makeSvg = (tag, attributes, ...children) => fillElement(document.createElementNS("http://www.w3.org/2000/svg", tag), attributes, children);
// Lines end between the words of a command, never after a dash of one.
const codeOf = (text) => make("code", {}, ...text.split(" ").flatMap((word, at) => [at ? " " : null, make("span", {}, word)]));
const commandLine = (text) => make("p", { class: "command" }, "To see it yourself:", codeOf(text));
const card = (title, ...children) => make("div", { class: "card" }, title ? make("h3", {}, title) : null, ...children);

// What is opened is drawn then, and not before.
function fold(title, draw) {
  const details = make("details", { class: "fold" }, make("summary", {}, title));
  details.addEventListener("toggle", () => details.append(...draw()), { once: true });
  return details;
}

// A column is {name, title, text?, node?, value?, wide?}: how a row's value is found, shown and sorted.
function makeTable(id, columns, rows) {
  const body = make("tbody");
  let sorted = rows, count = SHOWN_AT_FIRST;
  const heads = columns.map((column) => {
    const head = make("th", { scope: "col", class: column.text ? "number" : null }, make("button", { type: "button" }, column.title));
    head.firstChild.addEventListener("click", () => sortBy(column, head));
    return head;
  });
  const valueOf = (column, row) => column.value ? column.value(row) : row[column.name];
  function makeCell(column, row) {
    const value = valueOf(column, row);
    const shown = column.node ? column.node(row) : column.text ? column.text(value) : value ?? NONE;
    const held = isNone(value) ? "" : typeof value === "object" ? JSON.stringify(value) : value;
    return make("td", { "data-name": column.name, "data-title": column.title, "data-value": held, title: column.text && typeof value === "number" ? value : null, class: column.wide ? "wide" : column.text ? "number" : String(held).length <= SHORT ? "short" : null }, shown);
  }
  const fill = () => body.replaceChildren(...sorted.slice(0, count).map((row) => make("tr", {}, ...columns.map((column) => makeCell(column, row)))));
  function sortBy(column, head) {
    // Numbers begin with the greatest, words with a; another click turns the order.
    const before = head.getAttribute("aria-sort");
    const descending = before ? before === "ascending" : Boolean(column.text);
    heads.forEach((other) => other.removeAttribute("aria-sort"));
    head.setAttribute("aria-sort", descending ? "descending" : "ascending");
    const order = (a, b) => {
      const [x, y] = [valueOf(column, a), valueOf(column, b)];
      if (isNone(x)) return 1;
      if (isNone(y)) return -1;
      const less = typeof x === "number" && typeof y === "number" ? x - y : COLLATOR.compare(String(x), String(y));
      return descending ? -less : less;
    };
    sorted = [...rows].sort(order);
    fill();
  }
  fill();
  const box = make("div", { class: "scroll", tabindex: "0" }, make("table", { id, class: rows.length < FEW ? "few" : null }, make("thead", {}, make("tr", {}, ...heads)), body));
  if (rows.length <= count) return box;
  const more = make("button", { type: "button", class: "more" }, `Show all ${countText(rows.length)}`);
  more.addEventListener("click", () => { count = rows.length; fill(); more.remove(); });
  return make("div", {}, box, more);
}
// users-2 comes before users-10.
const COLLATOR = new Intl.Collator("en", { numeric: true });

function makeChoice(label, options, changed) {
  const select = make("select", { "aria-label": label }, ...options.map(([value, text]) => make("option", { value }, text)));
  select.addEventListener("change", changed);
  return { select, label: make("label", {}, label, select) };
}
