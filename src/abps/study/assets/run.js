// The section about one run, chosen by the reader: what to type next, episodes, policy, how its search is doing.
const MARKS = { good: "✓", fair: "•", poor: "!" };
const details = new Map(); // Run → [version, details], on a live page as they come from the server.

function detailsOf(run) {
  if (data.details[run.id]) return data.details[run.id];
  const kept = details.get(run.id);
  if (!kept || kept[0] !== run.version) askForDetails(run);
  return kept ? kept[1] : null;
}

function chosenRun() {
  const runs = data.runs.filter(chosen);
  return runs.find((run) => run.id === state.run) || runs.find((run) => run.counted) || runs[0] || null;
}

function drawRun() {
  const run = chosenRun();
  byId("one").hidden = !run;
  if (!run) return;
  const runs = data.runs.filter(chosen);
  const title = (item) =>
    `${item.task} · ${item.label} · seed ${item.seed}${item.status === "done" ? "" : ` (${item.status})`}`;
  const select = node(
    "select",
    { id: "run-choice", "data-focus": "run" },
    ...runs.map((item) => node("option", { value: item.id, selected: item === run }, title(item))),
  );
  select.addEventListener("change", () => {
    state.run = select.value;
    redraw();
  });
  fill("run-choice-row", ...(single() ? [] : [node("label", { for: "run-choice" }, "Run"), select]));
  const found = detailsOf(run);
  byId("one-title").textContent = single() ? "The run" : "One run";
  if (!found) {
    for (const id of [
      "run-headline",
      "run-facts",
      "next-steps",
      "episodes-panel",
      "costs-panels",
      "policy-picture",
      "findings",
      "diagnostics-panels",
    ])
      fill(id);
    fill("run-headline", "Reading…");
    return;
  }
  fill("run-headline", ...(single() ? [] : [found.headline]));
  fill(
    "run-facts",
    ...found.facts.map((fact) =>
      node(
        "div",
        { class: "fact" },
        node("dt", {}, fact.name),
        node("dd", {}, fact.value),
        node("dd", { class: "dim" }, fact.note),
      ),
    ),
  );
  drawNext(found);
  drawEpisodes(run, found);
  drawCosts(run, found);
  drawPolicy(found);
  drawDiagnostics(run, found);
}

function drawNext(found) {
  byId("next").hidden = !found.next.length;
  fill(
    "next-steps",
    ...found.next.map((step) => {
      const button = node(
        "button",
        { type: "button", class: "copy", "aria-label": `Copy: ${step.command}`, "data-focus": `copy ${step.command}` },
        "Copy",
      );
      const code = node("code", {}, step.command);
      button.addEventListener("click", () => copy(step.command, code, button));
      return node(
        "li",
        {},
        node("span", { class: "why" }, capital(step.why)),
        node("span", { class: "command" }, code, button),
      );
    }),
  );
}

// Where the page may not use the clipboard, the command is selected instead.
async function copy(text, code, button) {
  try {
    await navigator.clipboard.writeText(text);
    button.textContent = "Copied";
  } catch {
    getSelection().selectAllChildren(code);
    button.textContent = "Selected";
  }
  setTimeout(() => {
    button.textContent = "Copy";
  }, 1500);
}

// Every training episode as a dot; what a robot's operator looks at.
function drawEpisodes(run, found) {
  const roles = Object.entries(found.episodes.roles).filter(([, points]) => points.y.some(known));
  byId("episodes").hidden = !roles.length && !found.episodes.failed.length;
  if (byId("episodes").hidden) return;
  const words = {
    centre: "the current policy itself",
    probe: "a probe beside it",
    path: "a path around it",
    scout: "a first path, for the critics alone",
    direction: "a tried direction",
    "": "episode",
  };
  const series = roles.map(([role, points], number) => ({
    label: words[role] || role,
    number,
    kind: "dots",
    x: points.x,
    y: points.y,
  }));
  const failed = found.episodes.failed;
  const legend = node(
    "ul",
    { class: "legend" },
    ...series.map((one) => node("li", {}, swatch(one.number, "dot"), one.label)),
    failed.length ? node("li", {}, node("b", { class: "cross" }, "✕"), "failed") : null,
  );
  const counts = found.robot
    ? `${plural(found.robot.told, "episode")} told${found.robot.budget ? ` of ${found.robot.budget}` : ""}, ` +
      `${found.robot.failed} failed, ${found.robot.discarded} taken back. `
    : "";
  const part =
    found.episodes.shown < found.episodes.of
      ? `Every ${Math.round(found.episodes.of / found.episodes.shown)}th of ${format(found.episodes.of)} is drawn. `
      : "";
  byId("episodes-lead").textContent =
    `${counts}${part}Each dot is one training episode; probes and paths try other policies than the current ` +
    `one, so they may lie below it.`;
  const chart = lineChart(`episodes ${run.id}`, {
    title: "Return of every training episode",
    unit: "undiscounted return",
    xLabel: "episode",
    numbered: true,
    series,
    legend,
    marks: failed.map(([episode]) => episode),
  });
  const reasons = failed.length
    ? folded(
        "failed",
        `Why ${plural(failed.length, "episode")} failed`,
        false,
        sortedTable(
          "failed",
          [
            { title: "Episode", value: (row) => row[0], cell: (row) => String(row[0]) },
            { title: "Reason", value: (row) => row[1], cell: (row) => row[1] },
          ],
          failed,
        ),
      )
    : null;
  fill("episodes-panel", chart, newestTable(found), reasons);
}

// What came of a robot's newest episodes; a cost beyond its limit is marked.
function newestTable(found) {
  if (!found.newest || !found.newest.length) return null;
  const limits = new Map(found.costs.map((cost) => [cost.name, cost.limit]));
  const end = (row) => row.failed || (row.terminated ? "by itself" : "full length");
  const beyond = (row, name) => row.violated.includes(name);
  const number = (title, value) => ({ title, number: true, value, cell: (row) => format(value(row)) });
  const columns = [
    { title: "Episode", value: (row) => row.episode, cell: (row) => String(row.episode) },
    { title: "Role", value: (row) => row.role, cell: (row) => row.role },
    number("Return", (row) => row.value),
    ...[...limits].map(([name, limit]) => ({
      ...number(`${name} (limit ${format(limit)})`, (row) => row.costs[name]),
      cell: (row) => format(row.costs[name]) + (beyond(row, name) ? " (beyond)" : ""),
      style: (row) => (beyond(row, name) ? "beyond" : ""),
    })),
    number("Steps", (row) => row.steps),
    { title: "End", value: end, cell: end, style: (row) => (row.failed ? "beyond" : "") },
  ];
  return node(
    "div",
    { id: "newest" },
    node("h4", {}, `The newest ${plural(found.newest.length, "episode")}`),
    sortedTable("newest", columns, found.newest),
  );
}

// One chart per constraint: what every training episode cost, and the limit.
function drawCosts(run, found) {
  byId("costs").hidden = !found.costs.length;
  const failed = found.episodes.failed;
  byId("costs-lead").textContent =
    "Each dot is one training episode, those beyond the limit are rings. " +
    (failed.length ? "A failed episode has no cost; the search takes it as one beyond every limit." : "");
  const panels = found.costs.map((cost) => {
    const limit = `limit ${format(cost.limit)}`;
    return lineChart(`cost ${cost.name} ${run.id}`, {
      title: `Cost of every training episode: ${cost.name}`,
      note: cost.note,
      unit: cost.unit,
      xLabel: "episode",
      numbered: true,
      series: [
        { label: "limit", kind: "limit", x: [0, Math.max(1, cost.episodes - 1)], y: [cost.limit, cost.limit] },
        { label: "within the limit", number: 0, kind: "dots", ...cost.within },
        { label: "beyond the limit", kind: "rings", ...cost.beyond },
      ],
      legend: node(
        "ul",
        { class: "legend" },
        node("li", {}, swatch(0, "limit"), limit),
        cost.within.x.length ? node("li", {}, swatch(0, "dot"), "within the limit") : null,
        cost.beyond.x.length ? node("li", {}, swatch(0, "ring"), "beyond the limit") : null,
        failed.length ? node("li", {}, node("b", { class: "cross" }, "✕"), "failed") : null,
      ),
      marks: failed.map(([episode]) => episode),
    });
  });
  fill("costs-panels", ...panels);
}

function drawPolicy(found) {
  byId("policy").hidden = !found.policies.length && !found.film;
  const picture = found.policies.find((item) => item.which === state.policy) || found.policies[0];
  const parts = [];
  if (picture) {
    const scale = picture.scaled ? "per standard deviation of the observation" : "per unit of the observation";
    byId("policy-lead").textContent =
      `Rows are actions, columns observations${picture.columns.includes("bias") ? ", the last one a constant" : ""}. ` +
      `A cell says how much the action is pushed, ${scale}, before it is squashed into its range: ` +
      "orange up, blue down, pale hardly at all.";
    const buttons = found.policies.map((item) => {
      const button = node(
        "button",
        { type: "button", "aria-pressed": String(item === picture), "data-focus": `policy ${item.which}` },
        {
          current: "Current policy",
          best: found.robot ? "Policy of the best episode" : "Policy of the highest evaluation",
        }[item.which],
      );
      button.addEventListener("click", () => {
        state.policy = item.which;
        redraw();
      });
      return button;
    });
    if (found.policies.length > 1) parts.push(node("div", { class: "row" }, ...buttons));
    parts.push(
      node(
        "figure",
        {},
        node(
          "figcaption",
          {},
          `${picture.kind || "policy"}, ${plural(picture.rows.length, "action")}, ` +
            `${plural(picture.columns.length, "column")}`,
        ),
        matrixPicture(picture),
      ),
    );
  }
  if (found.film)
    parts.push(
      node(
        "figure",
        { class: "film-figure" },
        node("figcaption", {}, `${found.film.name}, as rendered by abps video`),
        filmPicture(found.film),
      ),
    );
  const drawn = JSON.stringify([picture, found.film && found.film.data.length, found.film && found.film.name]);
  if (byId("policy-picture").dataset.drawn === drawn) return; // A film that plays goes on.
  fill("policy-picture", ...parts);
  byId("policy-picture").dataset.drawn = drawn;
}

function drawDiagnostics(run, found) {
  const words = { good: "good", fair: "fair", poor: "look" };
  fill(
    "findings",
    ...found.findings.map((item) =>
      node(
        "li",
        { class: `finding ${item.level}` },
        node(
          "span",
          { class: "level" },
          node("span", { "aria-hidden": "true" }, MARKS[item.level]),
          ` ${words[item.level]}`,
        ),
        node("span", {}, node("b", {}, item.title), ` ${item.text}`),
      ),
    ),
  );
  const panels = [];
  for (const panel of data.panels) {
    const series = [];
    for (const [column, label] of panel.columns) {
      for (const [index, y] of (found.diagnostics[column] || []).entries()) {
        const several = found.diagnostics[column].length > 1;
        series.push({
          label: several ? `${label} ${index + 1}` : label,
          number: several ? index : series.length,
          kind: "main",
          x: run.x[state.axis] || [],
          y,
        });
      }
    }
    if (!series.length) continue;
    const legend =
      series.length > 1
        ? node("ul", { class: "legend" }, ...series.map((one) => node("li", {}, swatch(one.number), one.label)))
        : null;
    panels.push(
      lineChart(`diagnostic ${panel.title} ${run.id}`, {
        title: panel.title,
        note: panel.good,
        unit: panel.unit,
        xLabel: data.axes[state.axis],
        series: series.flatMap(smoothSeries),
        log: panel.log,
        clip: panel.clip,
        legend,
      }),
    );
  }
  fill("diagnostics-panels", ...(panels.length ? panels : [nothing("This run wrote no diagnostics.")]));
}
