// Small SVG charts without dependencies. Text only ever enters the page as text nodes, never as markup.
const SVG = "http://www.w3.org/2000/svg";
const DASHES = ["", "7 3", "2 2.5", "7 3 2 3", "12 4", "4 2 1.5 2 1.5 2"];
const COLOURS = 8;

function node(name, attributes = {}, ...children) {
  const element = document.createElement(name);
  for (const [key, value] of Object.entries(attributes)) {
    if (value === true) element.setAttribute(key, "");
    else if (value !== false && value !== null && value !== undefined) element.setAttribute(key, value);
  }
  element.append(...children.filter((child) => child !== null && child !== undefined));
  return element;
}

function shape(name, attributes = {}, ...children) {
  const element = document.createElementNS(SVG, name);
  for (const [key, value] of Object.entries(attributes)) element.setAttribute(key, value);
  element.append(...children);
  return element;
}

const colour = (number) => `var(--s${number % COLOURS})`;
const known = (value) => value !== null && value !== undefined && Number.isFinite(value);

function swatch(number) {
  const line = shape("line", { x1: 0, y1: 5, x2: 30, y2: 5, "stroke-width": 3, "stroke-dasharray": DASHES[number % DASHES.length] });
  line.style.stroke = colour(number);
  return shape("svg", { class: "swatch", viewBox: "0 0 30 10", "aria-hidden": "true" }, line);
}

// Four significant digits, thin-spaced thousands: 12 345, 0.01234, 1.2e-7.
function format(value) {
  if (!known(value)) return "–";
  if (value === 0) return "0";
  const size = Math.abs(value);
  if (size >= 1e7 || size < 1e-4) return value.toExponential(2).replace("e+", "e");
  const text = size >= 1000 ? value.toFixed(0) : String(Number(value.toPrecision(4)));
  return text.replace(/^(-?\d+)/, (whole) => whole.replace(/\B(?=(\d{3})+$)/g, "\u202f")).replace("-", "−");
}

function compact(value) {
  const size = Math.abs(value);
  const trim = (number) => String(Number(number.toPrecision(3))).replace("-", "−");
  if (size >= 1e6) return trim(value / 1e6) + "M";
  if (size >= 1e4) return trim(value / 1e3) + "k";
  if (size > 0 && size < 1e-3) return value.toExponential(0).replace("-", "−");
  return trim(value);
}

function ticks(low, high, count) {
  const raw = (high - low) / Math.max(1, count);
  const power = 10 ** Math.floor(Math.log10(raw));
  const step = [1, 2, 2.5, 5, 10].map((factor) => factor * power).find((candidate) => candidate >= raw * 0.999) || 10 * power;
  const result = [];
  for (let index = Math.ceil(low / step - 1e-9); index * step <= high + step * 1e-9; index++) result.push(index * step);
  return result;
}

function logTicks(low, high) {
  const result = [];
  const wide = Math.log10(high / low) > 2.5;
  for (let power = Math.floor(Math.log10(low)); power <= Math.ceil(Math.log10(high)); power++)
    for (const factor of wide ? [1] : [1, 2, 5]) {
      const value = factor * 10 ** power;
      if (value >= low * 0.999 && value <= high * 1.001) result.push(value);
    }
  return result;
}

// Extent of all drawn numbers; `clip` bounds it from below and above.
function extent(series, clip, log) {
  let low = Infinity, high = -Infinity;
  for (const one of series)
    for (const list of [one.y, one.low, one.high])
      for (const value of list || [])
        if (known(value) && (!log || value > 0)) { low = Math.min(low, value); high = Math.max(high, value); }
  if (low > high) return null;
  if (clip) { low = Math.max(low, clip[0]); high = Math.min(Math.max(high, low), clip[1]); }
  if (log) return low === high ? [low / 2, high * 2] : [low / 1.1, high * 1.1];
  const pad = (high - low) * 0.06 || Math.abs(high) * 0.1 || 1;
  return [low - pad, high + pad];
}

// A chart of lines: { title, xLabel, yLabel, series: [{ label, number, x, y, low, high, thin }], log, clip, zero }.
function lineChart(options) {
  const figure = node("figure", {}, node("figcaption", {}, options.title));
  const holder = node("div");
  const tooltip = node("div", { class: "tooltip", hidden: true });
  const spoken = node("div", { class: "visually-hidden", "aria-live": "polite" });
  figure.append(holder, tooltip, spoken);
  if (options.legend) figure.append(options.legend);
  let width = 0;
  const draw = () => {
    const now = Math.round(figure.clientWidth - 20);
    if (now < 50 || now === width) return;
    width = now;
    tooltip.hidden = true;
    holder.replaceChildren(drawLines(options, width, tooltip, spoken, figure));
  };
  new ResizeObserver(draw).observe(figure);
  return figure;
}

function scales(options, width, height, margin) {
  const lead = options.series.filter((one) => known(one.x[one.x.length - 1]));
  const domain = extent(options.series, options.clip, options.log);
  if (!domain || !lead.length) return null;
  const xHigh = options.xEnd || Math.max(...lead.map((one) => Math.max(...one.x.filter(known)))) || 1;
  const [low, high] = domain;
  const [floor, ceiling] = options.clip ? [Math.max(low, options.clip[0]), Math.min(high, options.clip[1])] : domain;
  const inner = [width - margin.left - margin.right, height - margin.top - margin.bottom];
  const share = options.log
    ? (value) => Math.log(Math.max(value, low) / low) / Math.log(high / low)
    : (value) => (Math.min(Math.max(value, floor), ceiling) - low) / (high - low);
  return {
    low, high, xHigh,
    x: (value) => margin.left + (value / xHigh) * inner[0],
    y: (value) => margin.top + (1 - share(value)) * inner[1],
    back: (pixel) => ((pixel - margin.left) / inner[0]) * xHigh,
  };
}

function path(xs, ys, scale) {
  let text = "", pen = false;
  for (let index = 0; index < xs.length; index++) {
    if (!known(xs[index]) || !known(ys[index])) { pen = false; continue; }
    text += `${pen ? "L" : "M"}${scale.x(xs[index]).toFixed(1)} ${scale.y(ys[index]).toFixed(1)}`;
    pen = true;
  }
  return text;
}

function bandPath(one, scale) {
  const inside = one.x.map((_, index) => index).filter((index) => known(one.low[index]) && known(one.high[index]));
  if (!inside.length) return "";
  const there = inside.map((index) => `${scale.x(one.x[index]).toFixed(1)} ${scale.y(one.high[index]).toFixed(1)}`);
  const back = inside.reverse().map((index) => `${scale.x(one.x[index]).toFixed(1)} ${scale.y(one.low[index]).toFixed(1)}`);
  return `M${there.join("L")}L${back.join("L")}Z`;
}

function drawLines(options, width, tooltip, spoken, figure) {
  const height = Math.max(190, Math.min(width > 560 ? 340 : 260, Math.round(width * 0.6)));
  const margin = { left: 52, right: 12, top: 16, bottom: 36 };
  const scale = scales(options, width, height, margin);
  if (!scale) return node("p", { class: "dim" }, "No values.");
  const svg = shape("svg", { viewBox: `0 0 ${width} ${height}`, height, role: "img", tabindex: 0, "aria-label": describe(options) });
  drawAxes(svg, options, scale, width, height, margin);
  for (const one of options.series.filter((candidate) => candidate.low)) {
    const area = shape("path", { d: bandPath(one, scale), class: "band" });
    area.style.fill = colour(one.number);
    svg.append(area);
  }
  for (const one of [...options.series].sort((a, b) => (b.thin ? 1 : 0) - (a.thin ? 1 : 0))) {
    const dash = one.thin ? "" : DASHES[one.number % DASHES.length];
    const curve = shape("path", { d: path(one.x, one.y, scale), class: one.thin ? "curve thin" : "curve", "stroke-dasharray": dash });
    curve.style.stroke = colour(one.number);
    svg.append(curve);
  }
  attachCursor(svg, options, scale, { width, height, margin }, tooltip, spoken, figure);
  return svg;
}

function drawAxes(svg, options, scale, width, height, margin) {
  const bottom = height - margin.bottom, right = width - margin.right;
  const yTicks = options.log ? logTicks(scale.low, scale.high) : ticks(scale.low, scale.high, 5);
  for (const value of yTicks) {
    const y = scale.y(value);
    svg.append(shape("line", { x1: margin.left, x2: right, y1: y, y2: y, class: Math.abs(value) < 1e-12 ? "zero" : "grid" }));
    svg.append(shape("text", { x: margin.left - 6, y: y + 4, "text-anchor": "end" }, compact(value)));
  }
  for (const value of ticks(0, scale.xHigh, Math.max(2, Math.floor(width / 90)))) {
    svg.append(shape("text", { x: scale.x(value), y: bottom + 15, "text-anchor": "middle" }, compact(value)));
    svg.append(shape("line", { x1: scale.x(value), x2: scale.x(value), y1: bottom, y2: bottom + 4, class: "frame" }));
  }
  svg.append(shape("path", { d: `M${margin.left} ${margin.top}V${bottom}H${right}`, class: "frame" }));
  svg.append(shape("text", { x: (margin.left + right) / 2, y: height - 5, "text-anchor": "middle" }, options.xLabel));
  svg.append(shape("text", { x: 4, y: 10 }, options.yLabel || ""));
}

// The value of a series at x: the last point at or before it, nothing beyond its end.
function valueAt(one, x) {
  let found = -1;
  for (let index = 0; index < one.x.length && (!known(one.x[index]) || one.x[index] <= x * (1 + 1e-9)); index++)
    if (known(one.x[index]) && known(one.y[index])) found = index;
  const last = one.x.length - 1;
  if (found < 0 || (found < last && !known(one.y[found + 1]) && x > one.x[found] * (1 + 1e-9))) return null;
  return x > one.x[last] * 1.02 ? null : found;
}

function attachCursor(svg, options, scale, size, tooltip, spoken, figure) {
  const stops = [...new Set(options.series.filter((one) => !one.thin).flatMap((one) => one.x.filter((x, i) => known(x) && known(one.y[i]))))].sort((a, b) => a - b);
  if (!stops.length) return;
  const marks = shape("g", { "aria-hidden": "true" });
  svg.append(marks);
  let stop = stops.length - 1;
  const show = (speak) => {
    const x = stops[stop];
    const rows = [];
    const line = shape("line", { x1: scale.x(x), x2: scale.x(x), y1: size.margin.top, y2: size.height - size.margin.bottom, class: "cursor" });
    marks.replaceChildren(line);
    for (const one of options.series.filter((candidate) => !candidate.thin)) {
      const index = valueAt(one, x);
      if (index === null) continue;
      const dot = shape("circle", { cx: scale.x(x), cy: scale.y(one.y[index]), r: 4, class: "dot" });
      dot.style.fill = colour(one.number);
      marks.append(dot);
      const between = one.low && known(one.low[index]) ? `[${format(one.low[index])}, ${format(one.high[index])}]` : "";
      rows.push([one, format(one.y[index]), between, one.y[index]]);
    }
    rows.sort((a, b) => b[3] - a[3]);
    const head = `${format(x)} ${options.xLabel}`;
    const body = rows.map(([one, value, between]) =>
      node("tr", {}, node("td", {}, swatch(one.number), " ", one.short || one.label), node("td", {}, node("b", {}, value)), node("td", { class: "interval" }, between)));
    tooltip.replaceChildren(node("div", {}, head), node("table", {}, node("tbody", {}, ...body)));
    tooltip.hidden = false;
    place(tooltip, figure, scale.x(x));
    if (speak) spoken.textContent = `${head}: ${rows.map(([one, value]) => `${one.label} ${value}`).join("; ")}`;
  };
  const hide = () => { tooltip.hidden = true; marks.replaceChildren(); };
  const nearest = (target) => stops.reduce((best, x, index) => (Math.abs(x - target) < Math.abs(stops[best] - target) ? index : best), 0);
  svg.addEventListener("pointermove", (event) => {
    const box = svg.getBoundingClientRect();
    stop = nearest(scale.back(((event.clientX - box.left) / box.width) * size.width));
    show(false);
  });
  svg.addEventListener("pointerleave", hide);
  svg.addEventListener("focus", () => { if (svg.matches(":focus-visible")) show(true); });
  svg.addEventListener("blur", hide);
  svg.addEventListener("keydown", (event) => {
    const jump = Math.max(1, Math.round(stops.length / 20));
    const moves = { ArrowLeft: stop - 1, ArrowRight: stop + 1, PageDown: stop - jump, PageUp: stop + jump, Home: 0, End: stops.length - 1 };
    if (event.key === "Escape") return hide();
    if (!(event.key in moves)) return undefined;
    event.preventDefault();
    stop = Math.min(Math.max(moves[event.key], 0), stops.length - 1);
    return show(true);
  });
}

function place(tooltip, figure, x) {
  tooltip.style.left = "0px";
  // A tall one goes below the chart, where it hides no curve.
  tooltip.style.top = tooltip.offsetHeight > figure.clientHeight / 2 ? `${figure.clientHeight - 6}px` : "34px";
  const room = figure.clientWidth - tooltip.offsetWidth - 6;
  const right = x + 24;
  const left = x - tooltip.offsetWidth - 4;
  tooltip.style.left = `${Math.max(4, Math.min(right <= room ? right : left, room))}px`;
}

function describe(options) {
  const ends = options.series.filter((one) => !one.thin).map((one) => {
    const last = one.y.map((_, index) => index).filter((index) => known(one.y[index])).pop();
    return last === undefined ? `${one.label}: no value` : `${one.label} ends at ${format(one.y[last])}`;
  });
  return `${options.title}, ${options.yLabel || "value"} over ${options.xLabel}. ${ends.join("; ")}. Use the arrow keys to read values.`;
}

// Horizontal stacked bars: { title, unit, bars: [{ label, parts: { phase: value } }], phases }.
function barChart(options) {
  const figure = node("figure", {}, node("figcaption", {}, options.title));
  const holder = node("div");
  figure.append(holder);
  let width = 0;
  const draw = () => {
    const now = Math.round(figure.clientWidth - 20);
    if (now < 50 || now === width) return;
    width = now;
    holder.replaceChildren(drawBars(options, width));
  };
  new ResizeObserver(draw).observe(figure);
  return figure;
}

function drawBars(options, width) {
  const longest = 7 * Math.max(...options.bars.map((bar) => bar.label.length));
  const above = longest > width * 0.3; // Long names stand above their bars, short ones to the left.
  const left = above ? 4 : longest + 14, lift = above ? 16 : 0, step = 28 + lift, right = 56;
  const height = options.bars.length * step + 34;
  const totals = options.bars.map((bar) => Object.values(bar.parts).reduce((sum, value) => sum + value, 0));
  const most = Math.max(...totals) || 1;
  const label = options.bars.map((bar, index) => `${bar.label} ${format(totals[index])}`).join("; ");
  const svg = shape("svg", { viewBox: `0 0 ${width} ${height}`, height, role: "img", "aria-label": `${options.title}, ${options.unit}: ${label}` });
  options.bars.forEach((bar, row) => {
    const top = row * step + 8 + lift;
    let x = left;
    svg.append(above ? shape("text", { x: left, y: top - 4 }, bar.label) : shape("text", { x: left - 6, y: top + 14, "text-anchor": "end" }, bar.label));
    options.phases.forEach((phase, number) => {
      const value = bar.parts[phase] || 0;
      const size = (value / most) * (width - left - right);
      const rect = shape("rect", { x, y: top, width: Math.max(0, size - 1), height: 20 });
      rect.style.fill = colour(number);
      rect.append(shape("title", {}, `${bar.label}: ${phase} ${format(value)} ${options.unit}`));
      svg.append(rect);
      x += size;
    });
    svg.append(shape("text", { x: x + 5, y: top + 14 }, format(totals[row])));
  });
  if (!above) svg.append(shape("path", { d: `M${left} 4V${height - 24}`, class: "frame" }));
  svg.append(shape("text", { x: left, y: height - 6 }, options.unit));
  return svg;
}

// An interval as a little drawing, on a scale shared by the rows of one task.
function miniInterval(estimate, low, high, number) {
  const width = 84, at = (value) => 4 + ((value - low) / (high - low || 1)) * (width - 8);
  const svg = shape("svg", { viewBox: `0 0 ${width} 14`, width, height: 14, "aria-hidden": "true" });
  svg.append(shape("line", { x1: 0, x2: width, y1: 7, y2: 7, class: "grid" }));
  const bar = shape("line", { x1: at(estimate[1]), x2: at(estimate[2]), y1: 7, y2: 7, "stroke-width": 4, "stroke-opacity": 0.45 });
  const dot = shape("circle", { cx: at(estimate[0]), cy: 7, r: 4 });
  bar.style.stroke = colour(number);
  dot.style.fill = colour(number);
  svg.append(bar, dot);
  return svg;
}
