// The report's page: reads the data block, keeps what the reader chose, draws the sections again when it changes.
const data = JSON.parse(document.getElementById("data").textContent);
const STATISTICS = { iqm: "interquartile mean", mean: "mean", median: "median" };
const state = {
  tasks: new Set(data.tasks), labels: new Set(data.labels), axis: "episodes", kind: "centre", discount: "return",
  statistic: "iqm", runs: false, run: 0,
};
const byId = (id) => document.getElementById(id);
const fill = (id, ...children) => byId(id).replaceChildren(...children);
const quantity = () => `${state.kind}_${state.discount}`;
const quantityName = () => `${state.discount === "discounted" ? "discounted " : ""}return, ${state.kind === "max" ? "maximum so far" : "current policy"}`;
const chosen = (item) => state.tasks.has(item.task) && state.labels.has(item.label);

function drawWarnings() {
  const items = data.warnings.map((item) => node("div", { class: `notice ${item.level}` }, node("b", {}, `${item.level}: `), item.text));
  if (items.length <= 4) return fill("warnings", ...items);
  const rest = node("details", {}, node("summary", {}, `${items.length - 4} more`), ...items.slice(4));
  return fill("warnings", ...items.slice(0, 4), rest);
}

function chips(legend, name, type, options, isOn, onChange, style = "chip") {
  const field = node("fieldset", {}, node("legend", {}, legend));
  for (const [value, text, mark] of options) {
    const input = node("input", { type, name, value, checked: isOn(value) });
    input.addEventListener("change", () => { onChange(value, input.checked); redraw(); });
    field.append(node("label", { class: style }, input, mark || null, text));
  }
  return field;
}

function setChips(legend, key, values, mark) {
  const options = values.map((value) => [value, value, mark ? mark(value) : null]);
  const toggle = (value, on) => (on ? state[key].add(value) : state[key].delete(value));
  return chips(legend, key, "checkbox", options, (value) => state[key].has(value), toggle, "chip filter");
}

function oneOf(legend, key, options) {
  return chips(legend, key, "radio", options, (value) => state[key] === value, (value) => { state[key] = value; });
}

function drawControls() {
  const parts = [];
  if (data.tasks.length > 1) parts.push(setChips("Tasks", "tasks", data.tasks));
  parts.push(setChips("Searches", "labels", data.labels, (label) => swatch(data.style[label])));
  parts.push(oneOf("Over", "axis", [["episodes", "episodes"], ["steps", "steps"], ["minutes", "minutes"]]));
  parts.push(oneOf("Return of", "kind", [["centre", "current policy"], ["max", "maximum so far"]]));
  parts.push(oneOf("Rewards", "discount", [["return", "undiscounted"], ["discounted", "discounted"]]));
  parts.push(oneOf("Over seeds", "statistic", [["iqm", "IQM"], ["mean", "mean"], ["median", "median"]]));
  parts.push(chips("Show", "runs", "checkbox", [["runs", "single runs"]], () => state.runs, (_, on) => { state.runs = on; }));
  fill("controls", ...parts);
  byId("controls").addEventListener("submit", (event) => event.preventDefault());
}

// When all searches have one name and differ in settings only, the settings say it all.
function shorter(label) {
  const base = label.split(" (")[0];
  const shared = data.labels.length > 1 && data.labels.every((other) => other.startsWith(`${base} (`) && other.endsWith(")"));
  return shared ? label.slice(base.length + 2, -1) : label;
}

function curveSeries(task) {
  const grid = data.grids[task][state.axis];
  const series = [];
  for (const group of data.groups.filter((item) => item.task === task && chosen(item))) {
    const band = ((group.bands[state.axis] || {})[quantity()] || {})[state.statistic];
    const number = data.style[group.label];
    if (band) series.push({ label: group.label, short: shorter(group.label), number, x: grid, y: band[0], low: band[1], high: band[2] });
  }
  for (const run of data.runs.filter((item) => item.task === task && chosen(item)))
    if (state.runs || (!run.counted && run.status !== "done"))
      series.push({ label: run.name, number: data.style[run.label], x: run.x[state.axis] || [], y: run.y[quantity()] || [], thin: true });
  return series;
}

function drawCurves() {
  byId("curves-lead").textContent = `${capital(quantityName())}: ${STATISTICS[state.statistic]} over seeds with its 95 % bootstrap interval. `
    + "Point at a chart, or focus it and use the arrow keys, to read values. Thin lines are single runs; runs that failed or are under way are always shown that way.";
  const panels = data.tasks.filter((task) => state.tasks.has(task)).map((task) =>
    lineChart({ title: task, xLabel: data.axes[state.axis], yLabel: state.discount === "discounted" ? "discounted return" : "return", series: curveSeries(task) }));
  fill("curve-panels", ...(panels.length && state.labels.size ? panels : [nothing()]));
}

const capital = (text) => text.charAt(0).toUpperCase() + text.slice(1);
const nothing = () => node("p", { class: "dim" }, "Nothing is selected: choose at least one task and one search above.");
const named = (label) => node("span", { class: "name" }, swatch(data.style[label]), label);

function estimateCell(estimate, title, best) {
  const cell = node("td", { class: best ? "number best" : "number", "data-label": title });
  if (!estimate) return (cell.append("–"), cell);
  cell.append(node("span", {}, format(estimate[0]), " ", node("span", { class: "interval" }, estimate[1] === estimate[2] ? "" : `[${format(estimate[1])}, ${format(estimate[2])}]`)));
  return cell;
}

const minutes = (value) => (known(value) ? value.toFixed(value < 10 ? 2 : 0) : "–");

function drawSummary() {
  const rows = data.rows.filter(chosen);
  byId("summary-lead").textContent = `Compared at the episode count every search of a task reached; ${STATISTICS[state.statistic]} over seeds with its 95 % bootstrap interval, `
    + "best value per task marked. “Average” is the mean height of the maximum-so-far curve over training. Episodes to threshold: the median over seeds, "
    + "how many seeds got there, and the undiscounted return they had to reach; a dash unless more than half did.";
  if (!rows.length) return fill("summary-table", nothing());
  const titles = ["Task", "Search", "Seeds", "Episodes", `Maximum so far`, "", "Current centre", "Average", "Episodes to threshold", "Steps", "Minutes"];
  const head = node("tr", {}, ...titles.map((title, index) => node("th", { scope: "col", class: index > 1 && index !== 5 ? "number" : null }, title)));
  const body = [];
  let before = null;
  for (const row of rows) {
    body.push(summaryRow(row, rows.filter((other) => other.task === row.task), row.task !== before, titles));
    before = row.task;
  }
  const table = node("table", {}, node("caption", { class: "visually-hidden" }, "Summary of all searches"), node("thead", {}, head), node("tbody", {}, ...body));
  const button = node("button", { type: "button" }, "Save as CSV");
  button.addEventListener("click", () => saveCsv(rows));
  return fill("summary-table", node("div", { class: "scroll cards" }, table), node("div", { class: "row" }, button));
}

function summaryRow(row, siblings, first, titles) {
  const keys = [`max_${state.discount}`, `centre_${state.discount}`, `auc_${state.discount}`];
  const estimates = keys.map((key) => row.scores[state.statistic][key]);
  const peers = (key) => siblings.map((other) => other.scores[state.statistic][key]).filter(Boolean);
  const isBest = (index) => siblings.length > 1 && estimates[index] && estimates[index][0] >= Math.max(...peers(keys[index]).map((other) => other[0]));
  const all = peers(keys[0]);
  const mini = node("td", { class: "mini" });
  if (estimates[0]) mini.append(miniInterval(estimates[0], Math.min(...all.map((e) => e[1])), Math.max(...all.map((e) => e[2])), data.style[row.label]));
  const reached = node("span", {}, row.reached[2] === null ? "–" : format(row.reached[2]), " ",
    node("span", { class: "interval" }, `${row.reached[0]}/${row.reached[1]} ≥ ${format(row.threshold)}`));
  const seeds = row.left_out ? `${row.runs} of ${row.runs + row.left_out}` : String(row.runs);
  const plain = (index, text) => node("td", { class: "number", "data-label": titles[index] }, text);
  return node("tr", { class: first ? "first" : null }, node("th", { scope: "row" }, row.task), node("td", { "data-label": titles[1] }, named(row.label)),
    plain(2, seeds), plain(3, format(row.episodes)), estimateCell(estimates[0], titles[4], isBest(0)), mini, estimateCell(estimates[1], titles[6], isBest(1)),
    estimateCell(estimates[2], titles[7], isBest(2)), plain(8, reached), plain(9, known(row.steps) ? compact(row.steps) : "–"), plain(10, minutes(row.minutes)));
}

function saveCsv(rows) {
  const quote = (value) => {
    const text = String(value ?? "");
    // A leading = + - @ in a text would be run as a formula by spreadsheets.
    const safe = typeof value === "string" && /^[=+\-@\t\r]/.test(text) ? `'${text}` : text;
    return /[",\n]/.test(safe) ? `"${safe.replace(/"/g, '""')}"` : safe;
  };
  const keys = ["max_return", "max_discounted", "centre_return", "centre_discounted", "auc_return", "auc_discounted"];
  const head = ["task", "search", "seeds", "episodes", "steps", "minutes", "threshold", "reached", "median_episodes_to_threshold", "statistic"]
    .concat(keys.flatMap((key) => [key, `${key}_low`, `${key}_high`]));
  const lines = rows.map((row) => [row.task, row.label, row.runs, row.episodes, row.steps, row.minutes, row.threshold, row.reached[0], row.reached[2], state.statistic]
    .concat(keys.flatMap((key) => row.scores[state.statistic][key] || ["", "", ""])));
  const text = [head, ...lines].map((line) => line.map(quote).join(",")).join("\n") + "\n";
  const link = node("a", { href: URL.createObjectURL(new Blob([text], { type: "text/csv" })), download: "summary.csv" });
  document.body.append(link);
  link.click();
  link.remove();
}

function drawImprovement() {
  const table = data.improvements[quantity()] || [];
  const labels = data.labels.filter((label) => state.labels.has(label) && table.some((item) => item.ours === label));
  byId("improvement").hidden = labels.length < 2;
  if (labels.length < 2) return;
  const find = (ours, theirs) => table.find((item) => item.ours === ours && item.theirs === theirs);
  const head = node("tr", {}, node("th", { scope: "col" }, "P(row beats column)"), ...labels.map((label) => node("th", { scope: "col" }, label)));
  const cell = (item) => {
    if (!item) return node("td", { class: "dim" }, "–");
    return node("td", { class: item.estimate[1] > 0.5 && item.runs >= 3 ? "best" : null }, item.estimate[0].toFixed(2), " ",
      node("span", { class: "interval" }, `[${item.estimate[1].toFixed(2)}, ${item.estimate[2].toFixed(2)}]`));
  };
  const body = labels.map((ours) => node("tr", {}, node("th", { scope: "row" }, named(ours)), ...labels.map((theirs) => cell(find(ours, theirs)))));
  fill("improvement-table", node("p", { class: "lead" }, `${capital(quantityName())}; over all tasks, whatever is selected above. Marked: the whole interval is above one half, with at least three seeds on either side.`),
    node("div", { class: "scroll" }, node("table", {}, node("thead", {}, head), node("tbody", {}, ...body))));
}

function drawTimes() {
  const groups = data.groups.filter((group) => chosen(group) && Object.keys(group.phases).length);
  byId("times").hidden = !data.phases.length;
  const panels = data.tasks.filter((task) => groups.some((group) => group.task === task)).map((task) =>
    barChart({ title: task, unit: "seconds per outer iteration", phases: data.phases,
      bars: groups.filter((group) => group.task === task).map((group) => ({ label: shorter(group.label), parts: group.phases })) }));
  const legend = node("ul", { class: "legend" }, ...data.phases.map((phase, number) => {
    const box = node("span", { class: "box" });
    box.style.background = colour(number);
    return node("li", {}, box, phase);
  }));
  fill("time-panels", ...panels);
  const old = byId("times").querySelector(".legend");
  if (old) old.remove();
  byId("time-panels").before(legend);
}

function drawDiagnostics() {
  const runs = data.runs.map((run, index) => [run, index]).filter(([run]) => chosen(run) && Object.keys(run.diagnostics).length);
  if (!runs.length) { fill("diagnostics-choice"); return fill("diagnostics-panels", nothing()); }
  if (!runs.some(([, index]) => index === state.run)) state.run = runs[0][1];
  const select = node("select", { id: "run-choice" }, ...runs.map(([run, index]) =>
    node("option", { value: index, selected: index === state.run }, `${run.task} · ${run.label} · seed ${run.seed}${run.status === "done" ? "" : ` (${run.status})`}`)));
  select.addEventListener("change", () => { state.run = Number(select.value); drawDiagnosticPanels(); });
  fill("diagnostics-choice", node("div", { class: "row" }, node("label", { for: "run-choice" }, "Run"), select));
  return drawDiagnosticPanels();
}

function drawDiagnosticPanels() {
  const run = data.runs[state.run];
  const panels = [];
  for (const panel of data.diagnostics) {
    const series = [];
    panel.columns.forEach(([column, label]) => {
      for (const [index, y] of (run.diagnostics[column] || []).entries()) {
        const several = run.diagnostics[column].length > 1;
        series.push({ label: several ? `${label} ${index + 1}` : label, number: several ? index : series.length, x: run.x[state.axis] || [], y, thin: false });
      }
    });
    if (!series.length) continue;
    const legend = node("ul", { class: "legend" }, ...series.map((one) => node("li", {}, swatch(one.number), one.label)));
    panels.push(lineChart({ title: panel.title, xLabel: data.axes[state.axis], yLabel: panel.unit, series, log: panel.log, clip: panel.clip, legend }));
  }
  fill("diagnostics-panels", ...(panels.length ? panels : [node("p", { class: "dim" }, "This run wrote no diagnostics.")]));
}

function drawSettings() {
  const columns = data.groups.map((group, index) => [group, index]).filter(([group]) => chosen(group));
  const parts = [];
  const head = node("tr", {}, node("th", { scope: "col" }, "Setting"), ...columns.map(([group]) => node("th", { scope: "col" }, `${group.task} · ${group.label}`)));
  const body = [];
  for (const row of data.settings.different) {
    const cells = columns.map(([, index]) => row.cells[index]);
    const present = cells.filter((cell) => cell !== null);
    const common = mostCommon(present);
    body.push(node("tr", {}, node("th", { scope: "row" }, row.name), ...cells.map((cell) =>
      node("td", { class: cell === null ? "dim" : cell !== common ? "differs" : null }, cell === null ? "–" : cell))));
  }
  parts.push(node("h3", {}, "Settings that differ"), node("p", { class: "lead" }, "Marked: not what most columns have. A dash: the search has no such setting."));
  parts.push(body.length ? node("div", { class: "scroll" }, node("table", {}, node("thead", {}, head), node("tbody", {}, ...body))) : node("p", {}, "None: all runs have the same settings."));
  parts.push(pairs(`Settings that are the same in all runs that have them (${data.settings.same.length})`, data.settings.same));
  parts.push(node("h3", {}, "Versions"));
  const versions = data.versions.different.map((row) => node("tr", {}, node("th", { scope: "row" }, row.name), node("td", { class: "differs" },
    row.values.map(([value, count]) => `${value} (${count} run${count === 1 ? "" : "s"})`).join(", "))));
  parts.push(versions.length ? node("div", { class: "scroll" }, node("table", {}, node("tbody", {}, ...versions))) : node("p", {}, "All runs were made with the same versions."));
  parts.push(pairs(`Versions that are the same in all runs (${data.versions.same.length})`, data.versions.same));
  fill("settings-tables", ...parts);
}

function mostCommon(values) {
  const counts = new Map();
  for (const value of values) counts.set(value, (counts.get(value) || 0) + 1);
  return [...counts].sort((a, b) => b[1] - a[1]).map(([value]) => value)[0];
}

function pairs(title, entries) {
  const rows = entries.map(([name, value]) => node("tr", {}, node("th", { scope: "row" }, name), node("td", { class: "path" }, value)));
  return node("details", {}, node("summary", {}, title), node("div", { class: "scroll" }, node("table", {}, node("tbody", {}, ...rows))));
}

function drawRuns() {
  const runs = data.runs.filter(chosen);
  const titles = ["Run", "Status", "Episodes", "Steps", "Minutes", "Maximum return", "Failed episodes", "Folder"];
  const head = node("tr", {}, ...titles.map((title, index) => node("th", { scope: "col", class: index > 1 && index < 7 ? "number" : null }, title)));
  const body = runs.map((run) => node("tr", {}, node("th", { scope: "row" }, `${run.task} · ${run.label} · seed ${run.seed}`),
    node("td", { class: `status-${run.status}`, "data-label": titles[1] }, run.status + (run.status === "done" || !run.reason ? "" : `: ${run.reason}`)),
    ...["episodes", "steps", "minutes", "max_return"].map((key, index) => node("td", { class: "number", "data-label": titles[index + 2] }, key === "minutes" ? minutes(run.last[key]) : format(run.last[key]))),
    node("td", { class: "number", "data-label": titles[6] }, String(run.failed_episodes)), node("td", { class: "path dim", "data-label": titles[7] }, run.path)));
  const table = node("table", {}, node("thead", {}, head), node("tbody", {}, ...body));
  fill("runs-table", node("details", { open: runs.length <= 12 }, node("summary", {}, `${runs.length} run${runs.length === 1 ? "" : "s"}`), node("div", { class: "scroll cards" }, table)));
}

function redraw() {
  for (const draw of [drawCurves, drawSummary, drawImprovement, drawTimes, drawDiagnostics, drawSettings, drawRuns]) draw();
}

drawWarnings();
drawControls();
redraw();
document.documentElement.dataset.ready = "yes";
