// The sections about all runs: headline, warnings, summary, comparison, time.
const named = (label) => node("span", { class: "name" }, swatch(data.style[label]), label);
const minutes = (value) => (known(value) ? value.toFixed(value < 10 ? 2 : 0) : "–");

function drawHeadline() {
  const sentences = data.headlines.length
    ? data.headlines
    : [data.runs.length ? "Nothing was measured yet." : "No runs yet. They appear here as soon as one starts."];
  fill("headline", ...sentences.map((text) => node("p", {}, text)));
  byId("headline").classList.toggle("several", sentences.length > 1);
}

function drawWarnings() {
  const items = data.warnings.map((item) =>
    node("div", { class: `notice ${item.level}` }, node("b", {}, `${item.level}: `), item.text),
  );
  if (items.length <= 4) return fill("warnings", ...items);
  return fill(
    "warnings",
    ...items.slice(0, 4),
    folded("warnings", `${items.length - 4} more`, false, ...items.slice(4)),
  );
}

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
  return {
    title,
    number: true,
    value: (row) => (read(row) ? read(row)[0] : null),
    cell: (row) => estimateText(read(row)),
    style: (row) => (best(row) ? "best" : ""),
  };
}

function intervalCell(row, rows) {
  const key = `centre_${state.rewards}`,
    read = (other) => other.scores[state.statistic][key];
  const peers = rows
    .filter((other) => other.task === row.task)
    .map(read)
    .filter(Boolean);
  return read(row)
    ? miniInterval(
        read(row),
        Math.min(...peers.map((e) => e[1])),
        Math.max(...peers.map((e) => e[2])),
        data.style[row.label],
      )
    : "";
}

function drawSummary() {
  byId("summary").hidden = single() || !data.runs.length;
  if (single()) return;
  const rows = data.rows.filter(chosen);
  byId("summary-lead").textContent =
    `Compared at the episode count that every search of a task reached; ` +
    `${seeded() ? `${STATISTICS[state.statistic]} over seeds with its 95 % bootstrap interval, ` : ""}` +
    "best value per task marked. “Average” is the mean height of the maximum-so-far curve over training. " +
    "Episodes to threshold: the median over seeds, " +
    "how many seeds got there, and the undiscounted return they had to reach; a dash unless more than half did.";
  if (!rows.length) {
    fill("summary-table", nothing());
    return;
  }
  const reached = (row) =>
    !known(row.threshold)
      ? "–"
      : node(
          "span",
          {},
          row.reached[2] === null ? "–" : format(row.reached[2]),
          " ",
          node("span", { class: "interval" }, `${row.reached[0]}/${row.reached[1]} ≥ ${format(row.threshold)}`),
        );
  const columns = [
    { title: "Task", value: (row) => row.task, cell: (row) => row.task },
    { title: "Search", value: (row) => row.label, cell: (row) => named(row.label) },
    {
      title: "Seeds",
      number: true,
      value: (row) => row.runs,
      cell: (row) => (row.left_out ? `${row.runs} of ${row.runs + row.left_out}` : String(row.runs)),
    },
    { title: "Episodes", number: true, value: (row) => row.episodes, cell: (row) => format(row.episodes) },
    scoreColumn("Current policy", `centre_${state.rewards}`, rows),
    ...(seeded() ? [{ title: "", skip: true, cell: (row) => intervalCell(row, rows) }] : []),
    scoreColumn("Maximum so far", `max_${state.rewards}`, rows),
    scoreColumn("Average", `auc_${state.rewards}`, rows),
    { title: "Episodes to threshold", number: true, value: (row) => row.reached[2], cell: reached },
    {
      title: "Steps",
      number: true,
      value: (row) => row.steps,
      cell: (row) => (known(row.steps) ? compact(row.steps) : "–"),
    },
    { title: "Minutes", number: true, value: (row) => row.minutes, cell: (row) => minutes(row.minutes) },
  ];
  const button = node("button", { type: "button", "data-focus": "csv" }, "Save as CSV");
  button.addEventListener("click", () => saveCsv(rows));
  fill(
    "summary-table",
    sortedTable("summary", columns, rows, {
      caption: "Summary of all searches",
      first: (row, before) => !before || before.task !== row.task,
    }),
    node("div", { class: "row" }, button),
  );
}

function saveCsv(rows) {
  const quote = (value) => {
    const text = String(value ?? "");
    // A leading = + - @ in a text would be run as a formula by spreadsheets.
    const safe = typeof value === "string" && /^[=+\-@\t\r]/.test(text) ? `'${text}` : text;
    return /[",\n]/.test(safe) ? `"${safe.replace(/"/g, '""')}"` : safe;
  };
  const keys = ["max_return", "max_discounted", "centre_return", "centre_discounted", "auc_return", "auc_discounted"];
  const head = [
    "task",
    "search",
    "seeds",
    "episodes",
    "steps",
    "minutes",
    "threshold",
    "reached",
    "median_episodes_to_threshold",
    "statistic",
  ].concat(keys.flatMap((key) => [key, `${key}_low`, `${key}_high`]));
  const lines = rows.map((row) =>
    [
      row.task,
      row.label,
      row.runs,
      row.episodes,
      row.steps,
      row.minutes,
      row.threshold,
      row.reached[0],
      row.reached[2],
      state.statistic,
    ].concat(keys.flatMap((key) => row.scores[state.statistic][key] || ["", "", ""])),
  );
  const text = [head, ...lines].map((line) => line.map(quote).join(",")).join("\n") + "\n";
  const link = node("a", {
    href: URL.createObjectURL(new Blob([text], { type: "text/csv" })),
    download: "summary.csv",
  });
  document.body.append(link);
  link.click();
  link.remove();
}

function drawImprovement() {
  const kind = kinds()[0],
    table = data.improvements[quantity(kind)] || [];
  const labels = data.labels.filter(
    (label) => !state.hiddenLabels.has(label) && table.some((item) => item.ours === label),
  );
  byId("improvement").hidden = labels.length < 2 || !seeded();
  if (byId("improvement").hidden) return;
  const find = (ours, theirs) => table.find((item) => item.ours === ours && item.theirs === theirs);
  const text = (item) =>
    item
      ? node(
          "span",
          {},
          item.estimate[0].toFixed(2),
          " ",
          node("span", { class: "interval" }, `[${item.estimate[1].toFixed(2)}, ${item.estimate[2].toFixed(2)}]`),
        )
      : "–";
  const columns = [
    { title: "P(row beats column)", value: (ours) => ours, cell: named },
    ...labels.map((theirs) => ({
      title: theirs,
      value: (ours) => (find(ours, theirs) ? find(ours, theirs).estimate[0] : null),
      cell: (ours) => text(find(ours, theirs)),
      style: (ours) => {
        const item = find(ours, theirs);
        return item && item.estimate[1] > 0.5 && item.runs >= 3 ? "best" : item ? "" : "dim";
      },
    })),
  ];
  byId("improvement-lead").textContent =
    `Chance that a run of the search in the row ends above a run of the search in the column, ` +
    `by its ${kind === "max" ? "maximum so far" : "current policy"}, ` +
    "averaged over the tasks both were run on, whatever is selected above; ties count half. In brackets the 95 " +
    "% bootstrap interval. Marked: the whole interval is above one half, with at least three seeds on either side.";
  fill("improvement-table", sortedTable("improvement", columns, labels, { caption: "Probability of improvement" }));
}

function drawTimes() {
  const groups = data.groups.filter((group) => chosen(group) && Object.keys(group.phases).length);
  byId("times").hidden = !data.phases.length;
  const panels = data.tasks
    .filter((task) => groups.some((group) => group.task === task))
    .map((task) =>
      barChart({
        title: task,
        unit: "seconds per outer iteration",
        phases: data.phases,
        bars: groups
          .filter((group) => group.task === task)
          .map((group) => ({ label: shorter(group.label), parts: group.phases })),
      }),
    );
  const boxes = data.phases.map((phase, number) => {
    const box = node("span", { class: "box" });
    box.style.background = colour(number);
    return node("li", {}, box, phase);
  });
  fill("time-legend", ...boxes);
  fill("time-panels", ...panels);
}
