// What the reader chose, kept in the address after the "#", so that a link shows what its sender saw.
let data = JSON.parse(byId("data").textContent);

const STATISTICS = { iqm: "interquartile mean", mean: "mean", median: "median" };
const SMOOTHING = { none: 0, light: 0.6, strong: 0.9 };
const CHOICES = {
  axis: ["episodes", "steps", "minutes"],
  kind: ["both", "centre", "max"],
  rewards: ["return", "discounted"],
  statistic: Object.keys(STATISTICS),
  smooth: Object.keys(SMOOTHING),
};
const FEW_LABELS = 4; // Up to so many searches, the maximum so far is drawn beside the current policy.

const defaults = () => ({
  axis: "episodes",
  kind: data.labels.length <= FEW_LABELS ? "both" : "centre",
  rewards: "return",
  statistic: "iqm",
  smooth: "none",
  singles: false,
  run: "",
  policy: "current",
  hiddenTasks: new Set(),
  hiddenLabels: new Set(),
  sort: {},
});
let state = defaults();

const single = () => data.runs.length === 1;
const chosen = (item) => !state.hiddenTasks.has(item.task) && !state.hiddenLabels.has(item.label);
const seeded = () => data.groups.some((group) => group.runs > 1);
const evaluated = () => data.runs.some((run) => run.y.max_return.some(known));
const kinds = () => (!evaluated() ? ["centre"] : state.kind === "both" ? ["centre", "max"] : [state.kind]);

// The address says only what differs from the defaults; what it does not know is ignored.
function readAddress() {
  const words = new URLSearchParams(location.hash.slice(1));
  const next = defaults();
  for (const [name, values] of Object.entries(CHOICES))
    if (values.includes(words.get(name))) next[name] = words.get(name);
  next.singles = words.get("singles") === "1";
  next.run = words.get("run") || "";
  next.policy = words.get("policy") === "best" ? "best" : "current";
  next.hiddenTasks = new Set(words.getAll("hide-task"));
  next.hiddenLabels = new Set(words.getAll("hide"));
  for (const word of words.getAll("sort")) {
    const found = /^(\w+)\.(\d+)\.(up|down)$/.exec(word);
    if (found) next.sort[found[1]] = [Number(found[2]), found[3]];
  }
  state = next;
}

function writeAddress() {
  const words = new URLSearchParams(),
    normal = defaults();
  for (const name of Object.keys(CHOICES)) if (state[name] !== normal[name]) words.set(name, state[name]);
  if (state.singles) words.set("singles", "1");
  if (state.run) words.set("run", state.run);
  if (state.policy !== "current") words.set("policy", state.policy);
  for (const task of state.hiddenTasks) words.append("hide-task", task);
  for (const label of state.hiddenLabels) words.append("hide", label);
  for (const [table, [column, way]] of Object.entries(state.sort)) words.append("sort", `${table}.${column}.${way}`);
  const text = words.toString();
  if (location.hash.slice(1) !== text)
    history.replaceState(null, "", text ? `#${text}` : location.pathname + location.search);
}

function quantity(kind) {
  return `${kind}_${state.rewards}`;
}

// When all searches have one name and differ in settings only, the settings say it all.
function shorter(label) {
  const base = label.split(" (")[0];
  const shared =
    data.labels.length > 1 && data.labels.every((other) => other.startsWith(`${base} (`) && other.endsWith(")"));
  return shared ? label.slice(base.length + 2, -1) : label;
}
