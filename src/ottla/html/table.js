// Elements and tables. Text from logs only ever becomes text, never markup.
"use strict";
function make(tag, attributes, ...children) {
  const element = document.createElement(tag);
  for (const [name, value] of Object.entries(attributes || {})) if (value !== null && value !== undefined) element.setAttribute(name, value);
  element.append(...children.filter((child) => child !== null));
  return element;
}
const commandLine = (text) => make("p", { class: "command" }, "To see it yourself:", make("code", {}, text));
const card = (title, ...children) => make("div", { class: "card" }, title ? make("h3", {}, title) : null, ...children);

// A column is {name, title, text?, node?, value?, wide?, wrap?}: how a row's value is found, shown and sorted.
function makeTable(id, columns, rows) {
  const body = make("tbody");
  const heads = columns.map((column) => {
    const head = make("th", { scope: "col", class: column.text ? "number" : null }, make("button", { type: "button" }, column.title));
    head.firstChild.addEventListener("click", () => sortBy(column, head));
    return head;
  });
  const valueOf = (column, row) => column.value ? column.value(row) : row[column.name];
  function fill(sorted) {
    body.replaceChildren(...sorted.map((row) => make("tr", {}, ...columns.map((column) => {
      const value = valueOf(column, row);
      const shown = column.node ? column.node(row) : column.text ? column.text(value) : value ?? NONE;
      const exact = typeof value === "number" ? String(value) : null;
      return make("td", { "data-name": column.name, "data-value": value === null || value === undefined ? "" : typeof value === "object" ? JSON.stringify(value) : value, title: column.text ? exact : null, class: column.wide ? "wide" : column.wrap ? "wrap" : column.text ? "number" : null }, shown);
    }))));
  }
  function sortBy(column, head) {
    // Numbers begin with the greatest, words with a; another click turns the order.
    const before = head.getAttribute("aria-sort");
    const descending = before ? before === "ascending" : Boolean(column.text);
    heads.forEach((other) => other.removeAttribute("aria-sort"));
    head.setAttribute("aria-sort", descending ? "descending" : "ascending");
    const order = (a, b) => {
      const [x, y] = [valueOf(column, a), valueOf(column, b)];
      if (x === null || x === undefined) return 1;
      if (y === null || y === undefined) return -1;
      const less = typeof x === "number" && typeof y === "number" ? x - y : String(x).localeCompare(String(y));
      return descending ? -less : less;
    };
    fill([...rows].sort(order));
  }
  fill(rows);
  return make("div", { class: "scroll", tabindex: "0" }, make("table", { id }, make("thead", {}, make("tr", {}, ...heads)), body));
}

function makeChoice(label, options, changed) {
  const select = make("select", { "aria-label": label }, ...options.map(([value, text]) => make("option", { value }, text)));
  select.addEventListener("change", changed);
  return { select, label: make("label", {}, label, select) };
}
