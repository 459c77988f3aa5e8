// Building blocks of the page. Text only ever enters it as text nodes, never as markup.
const SVG = "http://www.w3.org/2000/svg";
const DASHES = [[], [7, 3], [2, 2.5], [7, 3, 2, 3], [12, 4], [4, 2, 1.5, 2, 1.5, 2]];
const COLOURS = 8;

const byId = (id) => document.getElementById(id);
const known = (value) => value !== null && value !== undefined && Number.isFinite(value);
const capital = (text) => text.charAt(0).toUpperCase() + text.slice(1);

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

// Replace what a place holds; a control that had the focus gets it back, found by its name.
function fill(id, ...children) {
  const place = byId(id),
    active = document.activeElement;
  const name = active && place.contains(active) ? active.dataset.focus : null;
  place.replaceChildren(...children.filter((child) => child !== null && child !== undefined));
  const again = name ? [...place.querySelectorAll("[data-focus]")].find((item) => item.dataset.focus === name) : null;
  if (again) again.focus({ preventScroll: true });
}

// A colour of the style sheet, which differs between light and dark; canvases need its value.
const css = (name) => getComputedStyle(document.documentElement).getPropertyValue(name).trim();
const colour = (number) => `var(--s${number % COLOURS})`;
const ink = (number, alpha = 1) =>
  css(`--s${number % COLOURS}`) +
  Math.round(alpha * 255)
    .toString(16)
    .padStart(2, "0");

// A sample of a line, as legends show it: { number, kind } with kind main, solid, max, thin, dot, ring or limit.
function swatch(number, kind = "main") {
  const svg = shape("svg", { class: "swatch", viewBox: "0 0 30 10", "aria-hidden": "true" });
  if (kind === "ring" || kind === "limit") {
    svg.append(
      kind === "ring"
        ? shape("circle", { cx: 15, cy: 5, r: 3.8, "stroke-width": 2 })
        : shape("line", { x1: 0, y1: 5, x2: 30, y2: 5, "stroke-width": 1.5, "stroke-dasharray": "6 4" }),
    );
    svg.firstChild.style.stroke = "var(--error)";
    svg.firstChild.style.fill = "none";
    return svg;
  }
  const mark =
    kind === "dot"
      ? shape("circle", { cx: 15, cy: 5, r: 4 })
      : shape("line", {
          x1: 0,
          y1: 5,
          x2: 30,
          y2: 5,
          "stroke-width": kind === "main" || kind === "solid" ? 3 : 1.5,
          "stroke-dasharray": ({ max: [2, 3], thin: [], solid: [] }[kind] || DASHES[number % DASHES.length]).join(" "),
        });
  mark.style[kind === "dot" ? "fill" : "stroke"] = colour(number);
  svg.append(mark);
  return svg;
}

const spaced = (text) =>
  text.replace(/^(−?)(\d{5,})/, (_, sign, whole) => sign + whole.replace(/\B(?=(\d{3})+$)/g, "\u202f"));

// Four significant digits, thousands apart from five digits on: 12 345, 0.01234, 1.2e-7.
function format(value) {
  if (!known(value)) return "–";
  if (value === 0) return "0";
  const size = Math.abs(value);
  if (size >= 1e9 || size < 1e-4) return value.toExponential(1).replace("e+", "e").replace(/^-/, "−");
  return spaced((size >= 1000 ? value.toFixed(0) : String(Number(value.toPrecision(4)))).replace("-", "−"));
}

function compact(value, digits = 3) {
  if (!known(value)) return "";
  const size = Math.abs(value);
  const trim = (number) => String(Number(number.toPrecision(digits))).replace("-", "−");
  if (size >= 1e6) return `${trim(value / 1e6)}M`;
  if (size >= 1e4) return `${trim(value / 1e3)}k`;
  if (size > 0 && size < 1e-3) return value.toExponential(digits - 3).replace("e-", "e−").replace(/^-/, "−");
  return trim(value);
}

// Numbers of an axis, with digits enough to tell them apart: 0.9985, 0.999, 0.9995, 1.
function ticks(values) {
  for (let digits = 3; digits < 10; digits += 1) {
    const texts = values.map((value) => compact(value, digits));
    const shown = texts.filter((text) => text !== "");
    if (new Set(shown).size === shown.length) return texts;
  }
  return values.map((value) => compact(value));
}

function duration(seconds) {
  if (!known(seconds)) return "–";
  if (seconds < 90) return `${Math.round(seconds)} s`;
  const minutes = Math.round(seconds / 60);
  if (minutes < 90) return `${minutes} min`;
  const hours = Math.floor(minutes / 60);
  return hours < 48 ? `${hours} h ${minutes % 60} min` : `${Math.floor(hours / 24)} d ${hours % 24} h`;
}

const plural = (number, one, many) => `${format(number)} ${number === 1 ? one : many || `${one}s`}`;
const nothing = (text) =>
  node("p", { class: "dim" }, text || "Nothing is selected: choose at least one task and one search above.");

// A folded part that stays open when the page is drawn again.
const opened = new Set();
function folded(key, title, open, ...children) {
  const details = node(
    "details",
    { open: opened.has(key) || (open && !opened.has(`-${key}`)) },
    node("summary", { "data-focus": key }, title),
    ...children,
  );
  details.addEventListener("toggle", () => {
    opened.delete(key);
    opened.delete(`-${key}`);
    opened.add(details.open ? key : `-${key}`);
  });
  return details;
}
