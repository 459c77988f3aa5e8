// The sections about all runs: headline, warnings, curves, summary, comparison, time, settings, list of runs.
const named = (label) => node("span", { class: "name" }, swatch(data.style[label]), label);
const minutes = (value) => (known(value) ? value.toFixed(value < 10 ? 2 : 0) : "–");

function drawHeadline() {
  const sentences = data.headlines.length ? data.headlines : [data.runs.length ? "Nothing was measured yet." : "No runs yet. They appear here as soon as one starts."];
  fill("headline", ...sentences.map((text) => node("p", {}, text)));
  byId("headline").classList.toggle("several", sentences.length > 1);
}

function drawWarnings() {
  const items = data.warnings.map((item) => node("div", { class: `notice ${item.level}` }, node("b", {}, `${item.level}: `), item.text));
  if (items.length <= 4) return fill("warnings", ...items);
  return fill("warnings", ...items.slice(0, 4), folded("warnings", `${items.length - 4} more`, false, ...items.slice(4)));
}

// ---- curves ----
function smoothSeries(one) {
  const weight = SMOOTHING[state.smooth];
  if (!weight || one.kind !== "main") return [one];
  const part = (list) => (list ? smoothed(list, weight) : undefined);
  return [{ ...one, kind: "raw", low: undefined, high: undefined }, { ...one, y: part(one.y), low: part(one.low), high: part(one.high) }];
}

// The curve of one run as it was measured; evaluations have a band of one standard error.
function runSeries(run, kind, style) {
  const y = run.y[quantity(kind)] || [], number = data.style[run.label];
  const banded = style === "main" && quantity(kind) === "centre_return" && run.measured_by === "eval_return" && run.error.some(known);
  const part = (sign) => y.map((value, index) => (known(value) && known(run.error[index]) ? value + sign * run.error[index] : null));
  const label = single() ? { centre: "current policy", max: "maximum so far" }[kind] : run.label;
  return { label, short: single() ? label : shorter(label), number, kind: style, x: run.x[state.axis] || [], y, low: banded ? part(-1) : undefined, high: banded ? part(1) : undefined };
}

function groupSeries(group) {
  const number = data.style[group.label], beside = kinds().length > 1;
  return kinds().flatMap((kind) => {
    const style = beside && kind === "max" ? "max" : "main";
    const word = beside && kind === "max" ? ", maximum" : "";
    if (group.runs === 1) {
      const run = data.runs.find((item) => item.task === group.task && item.label === group.label && item.counted);
      const one = run && runSeries(run, kind, style);
      return one ? [single() ? one : { ...one, label: one.label + word, short: one.short + word }] : [];
    }
    const band = ((group.bands[state.axis] || {})[quantity(kind)] || {})[state.statistic];
    if (!band) return [];
    const range = style === "main" ? { low: band[1], high: band[2] } : {};
    return [{ label: group.label + word, short: shorter(group.label) + word, number, kind: style, x: data.grids[group.task][state.axis], y: band[0], ...range }];
  });
}

function curveSeries(task) {
  const groups = data.groups.filter((group) => group.task === task && chosen(group));
  const loose = data.runs.filter((run) => run.task === task && chosen(run) && !(run.counted && groups.some((group) => group.runs === 1 && group.label === run.label)))
    .filter((run) => state.singles || (!run.counted && run.status !== "done"));
  return [...loose.map((run) => ({ ...runSeries(run, kinds()[0], "thin"), label: run.name })), ...groups.flatMap(groupSeries)].flatMap(smoothSeries);
}

const MEASURES = { eval_return: "fresh evaluation episodes of the current policy", centre_return: "the training episodes at it or around it; nothing was evaluated" };

function curvesLead() {
  const measures = [...new Set(data.runs.filter((run) => chosen(run) && run.y.centre_return.some(known)).map((run) => MEASURES[run.measured_by]))];
  const current = `Current policy: mean return of ${measures.join("; for some runs: ") || "its episodes"}. `;
  const most = "Maximum so far: the luckiest evaluation up to there, optimistic. ";
  const over = seeded() ? `Lines are the ${STATISTICS[state.statistic]} over seeds, areas its 95 % bootstrap interval. ` : "";
  const one = single() && data.runs[0].measured_by === "eval_return" ? "The area is one standard error. " : "";
  return (kinds().includes("centre") ? current : "") + (kinds().includes("max") ? most : "") + over + one + (seeded() ? "Thin lines are single runs; failed and unfinished ones are always shown. " : "")
    + "Drag to zoom, double-click to see everything; with the keyboard, arrows read values and + − 0 zoom.";
}

function curveLegend() {
  const items = [];
  const number = data.labels.length === 1 ? data.style[data.labels[0]] : 6;
  if (kinds().length > 1) items.push(node("li", {}, swatch(number), "current policy"), node("li", {}, swatch(number, "max"), "maximum so far"));
  if (state.smooth !== "none") items.push(node("li", {}, swatch(number, "thin"), "before smoothing"));
  return items.length ? node("ul", { class: "legend" }, ...items) : null;
}

function drawCurves() {
  byId("curves-lead").textContent = curvesLead();
  const unit = `${state.rewards === "discounted" ? "discounted" : "undiscounted"} return per episode`;
  const panels = data.tasks.filter((task) => !state.hiddenTasks.has(task) && data.groups.some((group) => group.task === task && chosen(group))).map((task) =>
    lineChart(`curve ${task}`, { title: task, unit, xLabel: data.axes[state.axis], series: curveSeries(task), legend: curveLegend() }));
  fill("curve-panels", ...(panels.length ? panels : [nothing(data.runs.length ? "" : "Nothing to draw yet.")]));
}

// ---- summary ----
function estimateText(estimate) {
  if (!estimate) return "–";
  const between = estimate[1] === estimate[2] ? "" : `[${format(estimate[1])}, ${format(estimate[2])}]`;
  return node("span", {}, format(estimate[0]), " ", node("span", { class: "interval" }, between));
}

function scoreColumn(title, key, rows) {
  const read = (row) => row.scores[state.statistic][key];
  const best = (row) => {
    const peers = rows.filter((other) => other.task === row.task && read(other));
    return peers.length > 1 && read(row) && read(row)[0] >= Math.max(...peers.map((other) => read(other)[0]));
  };
  return { title, number: true, value: (row) => (read(row) ? read(row)[0] : null), cell: (row) => estimateText(read(row)), style: (row) => (best(row) ? "best" : "") };
}

function intervalCell(row, rows) {
  const key = `centre_${state.rewards}`, read = (other) => other.scores[state.statistic][key];
  const peers = rows.filter((other) => other.task === row.task).map(read).filter(Boolean);
  return read(row) ? miniInterval(read(row), Math.min(...peers.map((e) => e[1])), Math.max(...peers.map((e) => e[2])), data.style[row.label]) : "";
}

function drawSummary() {
  byId("summary").hidden = single() || !data.runs.length;
  if (single()) return;
  const rows = data.rows.filter(chosen);
  byId("summary-lead").textContent = `Compared at the episode count that every search of a task reached; ${seeded() ? `${STATISTICS[state.statistic]} over seeds with its 95 % bootstrap interval, ` : ""}`
    + "best value per task marked. “Average” is the mean height of the maximum-so-far curve over training. Episodes to threshold: the median over seeds, "
    + "how many seeds got there, and the undiscounted return they had to reach; a dash unless more than half did.";
  if (!rows.length) { fill("summary-table", nothing()); return; }
  const reached = (row) => (!known(row.threshold) ? "–" : node("span", {}, row.reached[2] === null ? "–" : format(row.reached[2]), " ", node("span", { class: "interval" }, `${row.reached[0]}/${row.reached[1]} ≥ ${format(row.threshold)}`)));
  const columns = [
    { title: "Task", value: (row) => row.task, cell: (row) => row.task },
    { title: "Search", value: (row) => row.label, cell: (row) => named(row.label) },
    { title: "Seeds", number: true, value: (row) => row.runs, cell: (row) => (row.left_out ? `${row.runs} of ${row.runs + row.left_out}` : String(row.runs)) },
    { title: "Episodes", number: true, value: (row) => row.episodes, cell: (row) => format(row.episodes) },
    scoreColumn("Current policy", `centre_${state.rewards}`, rows),
    ...(seeded() ? [{ title: "", skip: true, cell: (row) => intervalCell(row, rows) }] : []),
    scoreColumn("Maximum so far", `max_${state.rewards}`, rows),
    scoreColumn("Average", `auc_${state.rewards}`, rows),
    { title: "Episodes to threshold", number: true, value: (row) => row.reached[2], cell: reached },
    { title: "Steps", number: true, value: (row) => row.steps, cell: (row) => (known(row.steps) ? compact(row.steps) : "–") },
    { title: "Minutes", number: true, value: (row) => row.minutes, cell: (row) => minutes(row.minutes) },
  ];
  const button = node("button", { type: "button", "data-focus": "csv" }, "Save as CSV");
  button.addEventListener("click", () => saveCsv(rows));
  fill("summary-table", sortedTable("summary", columns, rows, { caption: "Summary of all searches", first: (row, before) => !before || before.task !== row.task }), node("div", { class: "row" }, button));
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
  const kind = kinds()[0], table = data.improvements[quantity(kind)] || [];
  const labels = data.labels.filter((label) => !state.hiddenLabels.has(label) && table.some((item) => item.ours === label));
  byId("improvement").hidden = labels.length < 2 || !seeded();
  if (byId("improvement").hidden) return;
  const find = (ours, theirs) => table.find((item) => item.ours === ours && item.theirs === theirs);
  const text = (item) => (item ? node("span", {}, item.estimate[0].toFixed(2), " ", node("span", { class: "interval" }, `[${item.estimate[1].toFixed(2)}, ${item.estimate[2].toFixed(2)}]`)) : "–");
  const columns = [{ title: "P(row beats column)", value: (ours) => ours, cell: named }, ...labels.map((theirs) => ({
    title: theirs, value: (ours) => (find(ours, theirs) ? find(ours, theirs).estimate[0] : null), cell: (ours) => text(find(ours, theirs)),
    style: (ours) => { const item = find(ours, theirs); return item && item.estimate[1] > 0.5 && item.runs >= 3 ? "best" : item ? "" : "dim"; } }))];
  byId("improvement-lead").textContent = `Chance that a run of the search in the row ends above a run of the search in the column, by its ${kind === "max" ? "maximum so far" : "current policy"}, `
    + "averaged over the tasks both were run on, whatever is selected above; ties count half. In brackets the 95 % bootstrap interval. Marked: the whole interval is above one half, with at least three seeds on either side.";
  fill("improvement-table", sortedTable("improvement", columns, labels, { caption: "Probability of improvement" }));
}

function drawTimes() {
  const groups = data.groups.filter((group) => chosen(group) && Object.keys(group.phases).length);
  byId("times").hidden = !data.phases.length;
  const panels = data.tasks.filter((task) => groups.some((group) => group.task === task)).map((task) =>
    barChart({ title: task, unit: "seconds per outer iteration", phases: data.phases,
      bars: groups.filter((group) => group.task === task).map((group) => ({ label: shorter(group.label), parts: group.phases })) }));
  const boxes = data.phases.map((phase, number) => {
    const box = node("span", { class: "box" });
    box.style.background = colour(number);
    return node("li", {}, box, phase);
  });
  fill("time-legend", ...boxes);
  fill("time-panels", ...panels);
}
