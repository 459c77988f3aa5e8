// The learning curves: which series a task's chart has, and what they are, in words.
function smoothSeries(one) {
  const weight = SMOOTHING[state.smooth];
  if (!weight || one.kind !== "main") return [one];
  const part = (list) => (list ? smoothed(list, weight) : undefined);
  return [
    { ...one, kind: "raw", low: undefined, high: undefined },
    { ...one, y: part(one.y), low: part(one.low), high: part(one.high) },
  ];
}

// Dashes tell searches apart. Where there is one, its curve is solid: dots are for the maximum beside it.
const solid = () => data.labels.length === 1;

// The curve of one run as it was measured; evaluations have a band of one standard error.
function runSeries(run, kind, style) {
  const y = run.y[quantity(kind)] || [],
    number = data.style[run.label];
  const banded =
    style === "main" &&
    quantity(kind) === "centre_return" &&
    run.measured_by === "eval_return" &&
    run.error.some(known);
  const part = (sign) =>
    y.map((value, index) => (known(value) && known(run.error[index]) ? value + sign * run.error[index] : null));
  const label = single() ? { centre: "current policy", max: "maximum so far" }[kind] : run.label;
  return {
    label,
    short: single() ? label : shorter(label),
    number,
    kind: style,
    solid: solid(),
    x: run.x[state.axis] || [],
    y,
    low: banded ? part(-1) : undefined,
    high: banded ? part(1) : undefined,
  };
}

function groupSeries(group) {
  const number = data.style[group.label],
    beside = kinds().length > 1;
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
    return [
      {
        label: group.label + word,
        short: shorter(group.label) + word,
        number,
        kind: style,
        solid: solid(),
        x: data.grids[group.task][state.axis],
        y: band[0],
        ...range,
      },
    ];
  });
}

function curveSeries(task) {
  const groups = data.groups.filter((group) => group.task === task && chosen(group));
  const loose = data.runs
    .filter(
      (run) =>
        run.task === task &&
        chosen(run) &&
        !(run.counted && groups.some((group) => group.runs === 1 && group.label === run.label)),
    )
    .filter((run) => state.singles || (!run.counted && run.status !== "done"));
  return [
    ...loose.map((run) => ({ ...runSeries(run, kinds()[0], "thin"), label: run.name })),
    ...groups.flatMap(groupSeries),
  ].flatMap(smoothSeries);
}

const MEASURES = {
  eval_return: "fresh evaluation episodes of the current policy",
  centre_return: "the training episodes at it or around it; nothing was evaluated",
};

function curvesLead() {
  const measures = [
    ...new Set(
      data.runs.filter((run) => chosen(run) && run.y.centre_return.some(known)).map((run) => MEASURES[run.measured_by]),
    ),
  ];
  const current = `Current policy: mean return of ${measures.join("; for some runs: ") || "its episodes"}. `;
  const most = "Maximum so far: the luckiest evaluation up to there, optimistic. ";
  const over = seeded()
    ? `Lines are the ${STATISTICS[state.statistic]} over seeds, areas its 95 % bootstrap interval. `
    : "";
  const one = single() && data.runs[0].measured_by === "eval_return" ? "The area is one standard error. " : "";
  return (
    (kinds().includes("centre") ? current : "") +
    (kinds().includes("max") ? most : "") +
    over +
    one +
    (seeded() ? "Thin lines are single runs; failed and unfinished ones are always shown. " : "") +
    "Drag to zoom, double-click to see everything; with the keyboard, arrows read values and + − 0 zoom."
  );
}

function curveLegend() {
  const items = [];
  const number = data.labels.length === 1 ? data.style[data.labels[0]] : 6;
  if (kinds().length > 1)
    items.push(
      node("li", {}, swatch(number, "solid"), "current policy"),
      node("li", {}, swatch(number, "max"), "maximum so far"),
    );
  if (data.labels.length > 1) {
    // The chips above name the searches; on a phone they are folded, and on paper there are none.
    const shown = data.labels.filter((label) => !state.hiddenLabels.has(label));
    items.push(...shown.map((label) => node("li", { class: "search" }, swatch(data.style[label]), label)));
  }
  if (state.smooth !== "none") items.push(node("li", {}, swatch(number, "thin"), "before smoothing"));
  return items.length ? node("ul", { class: "legend" }, ...items) : null;
}

function drawCurves() {
  byId("curves-lead").textContent = curvesLead();
  const unit = `${state.rewards === "discounted" ? "discounted" : "undiscounted"} return per episode`;
  const panels = data.tasks
    .filter((task) => !state.hiddenTasks.has(task) && data.groups.some((group) => group.task === task && chosen(group)))
    .map((task) =>
      lineChart(`curve ${task}`, {
        title: task,
        unit,
        xLabel: data.axes[state.axis],
        series: curveSeries(task),
        legend: curveLegend(),
      }),
    );
  fill("curve-panels", ...(panels.length ? panels : [nothing(data.runs.length ? "" : "Nothing to draw yet.")]));
}
