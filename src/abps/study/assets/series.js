// Series before they are drawn: smoothed, in order, with their style.
// Exponential moving average without the pull towards zero at its beginning; gaps stay gaps.
function smoothed(values, weight) {
  let sum = 0,
    mass = 0;
  return values.map((value) => {
    if (!known(value)) return value;
    sum = weight * sum + (1 - weight) * value;
    mass = weight * mass + (1 - weight);
    return sum / mass;
  });
}

// Points in order of x, each x once (a resumed run may have written one twice: the last counts), ready for uPlot.
function cleaned(one, options) {
  const fit = (value) => {
    if (!known(value) || (options.log && value <= 0)) return null;
    return options.clip ? Math.min(Math.max(value, options.clip[0]), options.clip[1]) : value;
  };
  const rows = new Map();
  one.x.forEach((x, index) => {
    if (known(x)) rows.set(x, index);
  });
  const xs = [...rows.keys()].sort((a, b) => a - b);
  return [xs, ...[one.y, one.low, one.high].filter(Boolean).map((list) => xs.map((x) => fit(list[rows.get(x)])))];
}

function lineStyle(one) {
  if (one.kind === "dots")
    return {
      paths: () => null,
      points: { show: true, size: 6, width: 1, fill: ink(one.number, 0.75), stroke: ink(one.number) },
    };
  if (one.kind === "rings")
    return { paths: () => null, points: { show: true, size: 9, width: 2, fill: "#0000", stroke: css("--error") } };
  if (one.kind === "limit") return { stroke: css("--error"), width: 1.5, dash: [6, 4], points: { show: false } };
  const alpha = { main: 1, max: 0.8, thin: 0.45, raw: 0.28 }[one.kind];
  const dash = { main: one.solid ? [] : DASHES[one.number % DASHES.length], max: [2, 3] }[one.kind];
  const few = one.y.filter(known).length <= 1; // A line through one point is invisible.
  return {
    stroke: ink(one.number, alpha),
    width: { main: 2, max: 1.5, thin: 1, raw: 1 }[one.kind],
    dash: dash && dash.length ? dash : undefined,
    points: { show: few, size: 5, fill: ink(one.number, alpha) },
  };
}

// The next of …, 0.1, 0.2, 0.5, 1, 2, 5, 10, … below or above a value: where a logarithmic axis ends.
function neat(value, round) {
  const steps = [1, 2, 5, 10],
    power = 10 ** Math.floor(Math.log10(value)),
    share = value / power;
  const step =
    round === Math.floor
      ? steps.filter((item) => item <= share * (1 + 1e-9)).pop()
      : steps.find((item) => item >= share * (1 - 1e-9));
  return Number((step * power).toPrecision(3));
}

// Which values of a logarithmic axis are written beside it: powers of ten, as many as there is room for; more where the
// axis spans few of them. uPlot writes none when powers of ten are close to each other, as on a phone.
function logLabels(u, splits) {
  const power = Math.abs(u.valToPos(10, "y") - u.valToPos(1, "y")), // pixels
    every = Math.max(1, Math.ceil(22 / power)),
    digits = power >= 160 ? [1, 2, 3, 5, 7] : power >= 70 ? [1, 2, 5] : [1];
  return splits.map((value) => {
    if (!value) return null;
    const exponent = Math.floor(Math.log10(value) + 1e-9),
      digit = Math.round(value / 10 ** exponent);
    return digits.includes(digit) && exponent % every === 0 ? value : null;
  });
}

// On a logarithmic axis only powers of ten have a line; their neighbours would make a grey area.
const tens = (_, splits) =>
  splits.map((value) => (value && Math.abs(Math.log10(value) - Math.round(Math.log10(value))) < 1e-6 ? value : null));
