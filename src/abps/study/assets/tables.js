// Tables that can be sorted by every column, and that become cards where they do not fit: nothing is ever cut off.

// Columns: { title, number: bool, value: row → what is sorted by, cell: row → text or node,
//   skip: bool (no line in a card), style: row → class }.
// `first` marks rows that begin a new block while the table is in its own order.
function sortedTable(id, columns, rows, { caption, first } = {}) {
  const sort = state.sort[id];
  const order = sort && sort[0] < columns.length ? sort : null;
  const sorted = order ? ordered(rows, columns[order[0]], order[1]) : rows;
  const head = node("tr", {}, ...columns.map((column, index) => headCell(id, column, index, order)));
  const body = sorted.map((row, index) =>
    node(
      "tr",
      { class: first && !order && first(row, sorted[index - 1]) ? "first" : null },
      ...columns.map((column, number) => bodyCell(column, row, number)),
    ),
  );
  const table = node(
    "table",
    {},
    caption ? node("caption", { class: "visually-hidden" }, caption) : null,
    node("thead", {}, head),
    node("tbody", {}, ...body),
  );
  const holder = node(
    "div",
    {},
    rows.length > 1 ? stackSort(id, columns, order) : null,
    node("div", { class: "scroll" }, table),
  );
  stackWhenNarrow(holder, table);
  return holder;
}

// Measure the table as a table; where it is wider than its place, show every row as a card.
function stackWhenNarrow(holder, table) {
  let width = 0;
  new ResizeObserver(() => {
    if (holder.clientWidth === width || !holder.clientWidth) return;
    width = holder.clientWidth;
    holder.classList.remove("stack");
    holder.classList.toggle("stack", table.offsetWidth > width);
  }).observe(holder);
}

// Unknown values stay last, whichever way the others go.
function ordered(rows, column, way) {
  const sign = way === "down" ? -1 : 1;
  const missing = (value) =>
    value === null || value === undefined || (typeof value === "number" && Number.isNaN(value));
  return [...rows].sort((a, b) => {
    const left = column.value(a),
      right = column.value(b);
    if (missing(left) || missing(right)) return missing(left) - missing(right);
    return (
      sign *
      (typeof left === "number" && typeof right === "number"
        ? left - right
        : String(left).localeCompare(String(right), "en", { numeric: true }))
    );
  });
}

function headCell(id, column, index, order) {
  const way = order && order[0] === index ? order[1] : null;
  const cell = node("th", {
    scope: "col",
    class: column.number ? "number" : null,
    "aria-sort": way ? { up: "ascending", down: "descending" }[way] : null,
  });
  if (!column.value) return (cell.append(column.title), cell);
  const button = node(
    "button",
    {
      type: "button",
      class: "sort",
      "data-focus": `sort ${id} ${index}`,
      title: `Sort by ${column.title.toLowerCase()}`,
    },
    column.title,
    node("span", { class: "way", "aria-hidden": "true" }, way === "up" ? "▲" : way === "down" ? "▼" : "↕"),
  );
  // Numbers start with the largest, names with A; a third press gives the table's own order back.
  const ways = column.number ? ["down", "up"] : ["up", "down"];
  button.addEventListener("click", () => setSort(id, index, way === null ? ways[0] : way === ways[0] ? ways[1] : null));
  cell.append(button);
  return cell;
}

function setSort(id, index, way) {
  if (way) state.sort[id] = [index, way];
  else delete state.sort[id];
  redraw();
}

function bodyCell(column, row, number) {
  const content = column.cell(row);
  const name = [column.number ? "number" : "", column.skip ? "mini" : "", column.style ? column.style(row) || "" : ""]
    .filter(Boolean)
    .join(" ");
  return number === 0
    ? node("th", { scope: "row" }, content)
    : node("td", { class: name || null, "data-label": column.title }, content);
}

// The head of a stack of cards is hidden; this takes its place.
function stackSort(id, columns, order) {
  const choice = (column, index, way, word) =>
    node(
      "option",
      { value: `${index}.${way}`, selected: Boolean(order && order[0] === index && order[1] === way) },
      `${column.title} ${word}`,
    );
  const select = node(
    "select",
    { "data-focus": `stack sort ${id}` },
    node("option", { value: "" }, "as given"),
    ...columns.flatMap((column, index) =>
      column.value ? [choice(column, index, "down", "↓"), choice(column, index, "up", "↑")] : [],
    ),
  );
  select.addEventListener("change", () => {
    const [index, way] = select.value.split(".");
    setSort(id, Number(index), way);
  });
  return node("label", { class: "stack-sort" }, "Sorted by ", select);
}
