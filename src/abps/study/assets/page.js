// The page itself: controls, settings and the list of runs, and what is drawn when.
function chips(legend, name, type, options, isOn, onChange, style = "chip") {
  const field = node("fieldset", {}, node("legend", {}, legend));
  for (const [value, text, mark] of options) {
    const input = node("input", { type, name, value, checked: isOn(value), "data-focus": `${name} ${value}` });
    input.addEventListener("change", () => {
      onChange(value, input.checked);
      redraw();
    });
    field.append(node("label", { class: style }, input, mark || null, text));
  }
  return field;
}

function setChips(legend, key, values, mark) {
  const options = values.map((value) => [value, value, mark ? mark(value) : null]);
  const toggle = (value, on) => (on ? state[key].delete(value) : state[key].add(value));
  return chips(legend, key, "checkbox", options, (value) => !state[key].has(value), toggle, "chip filter");
}

function oneOf(legend, key, options) {
  return chips(
    legend,
    key,
    "radio",
    options,
    (value) => state[key] === value,
    (value) => {
      state[key] = value;
    },
  );
}

function drawControls() {
  const parts = [];
  if (data.tasks.length > 1) parts.push(setChips("Tasks", "hiddenTasks", data.tasks));
  if (data.labels.length > 1)
    parts.push(setChips("Searches", "hiddenLabels", data.labels, (label) => swatch(data.style[label])));
  parts.push(
    oneOf("Over", "axis", [
      ["episodes", "episodes"],
      ["steps", "steps"],
      ["minutes", "minutes"],
    ]),
  );
  if (evaluated())
    parts.push(
      oneOf("Return of", "kind", [
        ["centre", "current policy"],
        ["max", "maximum so far"],
        ["both", "both"],
      ]),
    );
  if (data.quantities.includes("max_discounted"))
    parts.push(
      oneOf("Rewards", "rewards", [
        ["return", "undiscounted"],
        ["discounted", "discounted"],
      ]),
    );
  parts.push(
    oneOf("Smoothing", "smooth", [
      ["none", "none"],
      ["light", "light"],
      ["strong", "strong"],
    ]),
  );
  if (seeded())
    parts.push(
      oneOf("Over seeds", "statistic", [
        ["iqm", "IQM"],
        ["mean", "mean"],
        ["median", "median"],
      ]),
    );
  if (seeded())
    parts.push(
      chips(
        "Show",
        "singles",
        "checkbox",
        [["singles", "single runs"]],
        () => state.singles,
        (_, on) => {
          state.singles = on;
        },
      ),
    );
  fill("controls-inner", ...parts);
}

// ---- settings and runs ----
const MANY = 12; // Rows from which on a long table is folded.
const LONG = 60; // Letters from which on a reason is folded.

function mostCommon(values) {
  const counts = new Map();
  for (const value of values) counts.set(value, (counts.get(value) || 0) + 1);
  return [...counts].sort((a, b) => b[1] - a[1]).map(([value]) => value)[0];
}

function pairs(key, title, entries) {
  const columns = [
    { title: "Name", value: (row) => row[0], cell: (row) => row[0] },
    { title: "Value", value: (row) => row[1], cell: (row) => row[1], style: () => "path" },
  ];
  return folded(key, title, false, sortedTable(key, columns, entries));
}

function drawSettings() {
  const columns = data.groups.map((group, index) => [group, index]).filter(([group]) => chosen(group));
  const parts = [];
  if (!single()) {
    const common = (row) => mostCommon(columns.map(([, index]) => row.cells[index]).filter((cell) => cell !== null));
    const shown = [
      { title: "Setting", value: (row) => row.name, cell: (row) => row.name },
      ...columns.map(([group, index]) => ({
        title: `${group.task} · ${group.label}`,
        value: (row) => row.cells[index],
        cell: (row) => row.cells[index] ?? "–",
        style: (row) => (row.cells[index] === null ? "dim" : row.cells[index] !== common(row) ? "differs" : ""),
      })),
    ];
    const different = data.settings.different.filter((row) => columns.some(([, index]) => row.cells[index] !== null));
    if (different.length)
      parts.push(
        folded(
          "settings",
          `Settings that differ (${different.length})`,
          different.length <= MANY,
          node("p", { class: "lead" }, "Marked: not what most columns have. A dash: the search has no such setting."),
          sortedTable("settings", shown, different),
        ),
      );
    else parts.push(node("p", {}, "All runs have the same settings."));
  }
  parts.push(
    pairs(
      "same",
      single()
        ? `Settings (${data.settings.same.length})`
        : `Settings that are the same in all runs that have them (${data.settings.same.length})`,
      data.settings.same,
    ),
  );
  if (!single()) {
    const values = (row) => row.values.map(([value, count]) => `${value} (${plural(count, "run")})`).join(", ");
    parts.push(
      data.versions.different.length
        ? sortedTable(
            "versions",
            [
              { title: "Package", value: (row) => row.name, cell: (row) => row.name },
              { title: "Versions", value: values, cell: values, style: () => "differs" },
            ],
            data.versions.different,
          )
        : node("p", {}, "All runs were made with the same versions."),
    );
  }
  parts.push(
    pairs(
      "equal",
      single()
        ? `Versions (${data.versions.same.length})`
        : `Versions that are the same in all runs (${data.versions.same.length})`,
      data.versions.same,
    ),
  );
  fill("settings-tables", ...parts);
}

function progressCell(run) {
  const done = run.last.episodes || 0;
  if (!run.budget) return format(done);
  const share = node("span");
  share.style.width = `${Math.min(100, (100 * done) / run.budget)}%`;
  return node(
    "span",
    { class: "progress" },
    node("span", { class: "track", "aria-hidden": "true" }, share),
    `${format(done)} of ${format(run.budget)}`,
  );
}

// The reason of a failed run is a long sentence: in a narrow column it would be twenty lines high.
function statusCell(run, text) {
  return text.length <= LONG ? text : folded(`why ${run.path}`, run.status, false, run.reason);
}

function drawRuns() {
  const runs = data.runs.filter(chosen);
  const title = (run) => `${run.task} · ${run.label} · seed ${run.seed}`;
  const status = (run) => run.status + (run.status === "done" || !run.reason ? "" : `: ${run.reason}`);
  const amount = (title_, key, show) => ({
    title: title_,
    number: true,
    value: (run) => run.last[key],
    cell: (run) => show(run.last[key]),
  });
  const columns = [
    { title: "Run", value: title, cell: title },
    { title: "Status", value: status, cell: (run) => statusCell(run, status(run)), style: (run) => `status status-${run.status}` },
    { title: "Episodes", number: true, value: (run) => run.last.episodes, cell: progressCell },
    amount("Steps", "steps", format),
    amount("Minutes", "minutes", minutes),
    amount("Current policy", "centre_return", format),
    amount("Maximum so far", "max_return", format),
    {
      title: "Failed episodes",
      number: true,
      value: (run) => run.failed_episodes,
      cell: (run) => String(run.failed_episodes),
    },
  ];
  if (runs.some((run) => known(run.beyond)))
    columns.push({
      title: "Beyond a limit",
      number: true,
      value: (run) => run.beyond,
      cell: (run) => format(run.beyond),
    });
  if (data.live)
    columns.push(
      { title: "Episodes per minute", number: true, value: (run) => run.rate, cell: (run) => format(run.rate) },
      { title: "Time left", number: true, value: (run) => run.left, cell: (run) => duration(run.left) },
    );
  columns.push({ title: "Folder", value: (run) => run.path, cell: (run) => run.path, style: () => "path dim" });
  fill(
    "runs-table",
    folded(
      "runs",
      plural(runs.length, "run"),
      runs.length <= MANY || Boolean(data.live),
      sortedTable("runs", columns, runs),
    ),
  );
}

// ---- drawing ----
function redraw() {
  for (const draw of [drawCurves, drawSummary, drawImprovement, drawRun, drawTimes, drawSettings, drawRuns]) draw();
  writeAddress();
}

function drawAll() {
  for (const draw of [drawHeadline, drawWarnings, drawControls, redraw]) draw();
}

byId("controls").addEventListener("submit", (event) => event.preventDefault());
addEventListener("hashchange", () => {
  if (location.hash.includes("=") || !location.hash) {
    readAddress();
    drawControls();
    redraw();
  }
});
matchMedia("(prefers-color-scheme: dark)").addEventListener("change", drawAll);
readAddress();
if (data.live) byId("curves").after(byId("runs"));
if (matchMedia("(max-width: 640px)").matches) byId("controls-fold").open = false;
drawAll();
document.documentElement.dataset.ready = "yes";
if (data.live) poll();
