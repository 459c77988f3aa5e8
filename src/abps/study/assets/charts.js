// Line charts, drawn by uPlot: zoom by dragging, by buttons and by keys; values by pointer and by keys.
const zooms = new Map(); // Chart and axis → [from, to], so that a chart that is drawn again stays where it was.
const chartsByKey = new Map();
const SWATCH = { dots: "dot", rings: "ring" }; // Series without a line → their sample.
const sample = (one) => (one.solid && one.kind === "main" ? "solid" : SWATCH[one.kind] || one.kind);
const FONT = '11px system-ui, -apple-system, "Segoe UI", Roboto, "Liberation Sans", sans-serif';

// The chart called `key` with these options; one that is on the page already is updated in place.
// { title, note, unit, xLabel, numbered: x is a number, not an amount (episode 29, not 29 episodes),
//   xEnd, log, clip, legend, marks: [x, …],
//   series: [{ label, short, number, kind, x, y, low, high }] }
// Kinds of series: main, max (beside it), thin (single runs), raw (behind a smoothed one), dots, rings (dots that stand
// out), limit (a line that others are to stay below).
function lineChart(key, options) {
  if (!chartsByKey.has(key)) chartsByKey.set(key, new Chart(key));
  return chartsByKey.get(key).update(options);
}

class Chart {
  constructor(key) {
    this.key = key;
    this.caption = node("figcaption");
    this.note = node("p", { class: "meaning" });
    this.unit = node("div", { class: "unit" });
    this.plot = node("div", { class: "plot", tabindex: 0, role: "img", "data-focus": `chart ${key}` });
    this.tooltip = node("div", { class: "tooltip", hidden: true });
    this.spoken = node("div", { class: "visually-hidden", "aria-live": "polite" });
    this.below = node("div");
    this.back = this.button("whole", "Show everything again (0)", () => this.reset());
    const tools = node(
      "div",
      { class: "tools" },
      this.back,
      this.button("−", "Zoom out (−)", () => this.zoomBy(2)),
      this.button("+", "Zoom in (+)", () => this.zoomBy(0.5)),
    );
    this.figure = node(
      "figure",
      {},
      node("div", { class: "top" }, this.caption, tools),
      this.note,
      this.unit,
      this.plot,
      this.tooltip,
      this.spoken,
      this.below,
    );
    this.figure.chart = this;
    this.plot.addEventListener("keydown", (event) => this.onKey(event));
    this.plot.addEventListener("focus", () => {
      if (this.plot.matches(":focus-visible")) this.show(this.index, true);
    });
    this.plot.addEventListener("blur", () => this.hide());
    new ResizeObserver(() => this.fit()).observe(this.figure);
  }

  button(text, title, act) {
    const button = node("button", { type: "button", title, "aria-label": title }, text);
    button.addEventListener("click", act);
    return button;
  }

  update(options) {
    const plain = JSON.stringify({ ...options, legend: null }) + css("--bg");
    if (plain === this.drawn) return this.figure;
    this.drawn = plain;
    this.options = options;
    this.caption.textContent = options.title;
    this.note.textContent = options.note || "";
    this.unit.textContent = options.unit || "";
    this.below.replaceChildren(...(options.legend ? [options.legend] : []));
    this.plot.setAttribute("aria-label", this.description());
    this.width = 0;
    this.fit();
    return this.figure;
  }

  get zoomKey() {
    return `${this.key} ${this.options.xLabel}`;
  }

  fit() {
    const width = Math.floor(this.figure.clientWidth - 22);
    if (width < 80 || width === this.width || !this.options) return;
    this.width = width;
    this.build();
  }

  // Series that have points, as one table with a common x; bands are two unseen series and the area between them.
  assemble() {
    const tables = [],
      bands = [];
    this.lines = [null];
    this.styles = [{}];
    for (const one of this.options.series) {
      const table = cleaned(one, this.options);
      if (!table[1].some(known)) continue;
      tables.push(table);
      this.lines.push(one);
      this.styles.push({ ...lineStyle(one), scale: "y" });
      if (table.length < 4) continue;
      for (const _ of ["low", "high"]) {
        this.lines.push(null);
        this.styles.push({ stroke: "#0000", width: 0, points: { show: false }, scale: "y" });
      }
      bands.push({ series: [this.styles.length - 1, this.styles.length - 2], fill: ink(one.number, 0.16) });
    }
    this.data = tables.length ? uPlot.join(tables) : null;
    return bands;
  }

  build() {
    if (this.u) this.u.destroy();
    this.u = null;
    this.hide();
    const bands = this.assemble();
    this.plot.replaceChildren(...(this.data ? [] : [node("p", { class: "dim" }, "No values yet.")]));
    this.back.hidden = true;
    if (!this.data) return;
    const xs = this.data[0];
    this.end = Math.max(this.options.xEnd || 0, xs[xs.length - 1]) || 1;
    this.index = xs.length - 1;
    const line = css("--line"),
      dim = css("--dim");
    const axis = {
      stroke: dim,
      font: FONT,
      labelFont: FONT,
      grid: { stroke: line, width: 1 },
      ticks: { stroke: line, width: 1, size: 4 },
      values: (_, splits) => ticks(splits),
    };
    this.u = new uPlot(
      {
        width: this.width,
        height: Math.max(200, Math.min(this.width > 560 ? 360 : 270, Math.round(this.width * 0.6))),
        bands,
        padding: [8, 10, 0, 0],
        legend: { show: false },
        scales: {
          x: { time: false, range: (_, low, high) => [low, high] },
          y: { distr: this.options.log ? 3 : 1, range: (_, low, high) => this.range(low, high) },
        },
        series: this.styles,
        axes: [
          { ...axis, label: this.options.xLabel, labelSize: 18, size: 28, space: 64 },
          {
            ...axis,
            size: 48,
            space: 34,
            ...(this.options.log ? { filter: logLabels, grid: { ...axis.grid, filter: tens } } : {}),
          },
        ],
        cursor: {
          y: false,
          drag: { x: true, y: false, setScale: false },
          points: {
            show: (_, index) => (this.lines[index] && this.lines[index].kind === "main" ? node("div") : false),
            size: 8,
          },
          bind: {
            dblclick: () => () => {
              this.reset();
              return null;
            },
          },
        },
        hooks: {
          setCursor: [(u) => this.follow(u)],
          setSelect: [(u) => this.select(u)],
          draw: [(u) => this.drawMarks(u)],
        },
      },
      this.data,
      this.plot,
    );
    this.u.over.addEventListener("mouseleave", () => {
      if (document.activeElement !== this.plot) this.hide();
    });
    const zoom = zooms.get(this.zoomKey);
    this.setRange(zoom ? zoom[0] : 0, zoom ? zoom[1] : this.end);
  }

  range(low, high) {
    if (!known(low) || !known(high)) return this.options.log ? [1, 10] : [0, 1];
    if (this.options.log) return [neat(low / 1.02, Math.floor), neat(high * 1.02, Math.ceil)];
    const pad = (high - low) * 0.06 || Math.abs(high) * 0.1 || 1;
    const [floor, ceiling] = this.options.clip || [-Infinity, Infinity];
    return [Math.max(low - pad, floor - 0.02), Math.min(high + pad, ceiling + 0.02)];
  }

  // ---- zoom ----
  setRange(from, to) {
    this.u.setScale("x", { min: from, max: to });
    const whole = from <= 0 && to >= this.end;
    this.back.hidden = whole;
    if (whole) zooms.delete(this.zoomKey);
    else zooms.set(this.zoomKey, [from, to]);
  }

  zoomTo(from, to) {
    if (this.u && to - from > this.end * 1e-4) this.setRange(Math.max(0, from), Math.min(this.end, to));
  }

  zoomBy(factor) {
    if (!this.u) return;
    const { min, max } = this.u.scales.x;
    const centre = this.tooltip.hidden ? (min + max) / 2 : this.data[0][this.index];
    this.zoomTo(centre - (centre - min) * factor, centre + (max - centre) * factor);
  }

  reset() {
    if (this.u) this.setRange(0, this.end);
  }

  select(u) {
    const { left, width } = u.select;
    if (width > 4) this.zoomTo(u.posToVal(left, "x"), u.posToVal(left + width, "x"));
    u.setSelect({ left: 0, width: 0, top: 0, height: 0 }, false);
  }

  // ---- reading values ----
  follow(u) {
    if (this.quiet) return;
    if (u.cursor.left < 0 || !known(u.cursor.idx)) {
      if (document.activeElement !== this.plot) this.hide();
      return;
    }
    this.index = u.cursor.idx;
    this.show(this.index, false, true);
  }

  // The value of a series at or before a point; nothing beyond its end.
  valueAt(series, index) {
    const list = this.data[series];
    let before = index;
    while (before >= 0 && !known(list[before])) before--;
    if (before < 0) return null;
    if (before === index) return before;
    let after = index;
    while (after < list.length && !known(list[after])) after++;
    return after < list.length && !(this.lines[series].kind in SWATCH) ? before : null;
  }

  show(index, speak, pointed) {
    if (!this.u) return;
    this.index = Math.min(Math.max(index, 0), this.data[0].length - 1);
    const x = this.data[0][this.index],
      rows = [];
    this.lines.forEach((one, series) => {
      if (!one || one.kind === "thin" || one.kind === "raw") return;
      const at = this.valueAt(series, this.index);
      if (at === null) return;
      const banded = one.low && known(this.data[series + 1][at]);
      rows.push({
        one,
        value: this.data[series][at],
        between: banded ? `[${format(this.data[series + 1][at])}, ${format(this.data[series + 2][at])}]` : "",
      });
    });
    rows.sort((a, b) => b.value - a.value);
    const { xLabel, numbered } = this.options;
    const head = numbered ? `${xLabel} ${format(x)}` : `${format(x)} ${xLabel}`;
    const body = rows.map(({ one, value, between }) =>
      node(
        "tr",
        {},
        node("td", {}, swatch(one.number, sample(one)), " ", one.short || one.label),
        node("td", {}, node("b", {}, format(value))),
        node("td", { class: "interval" }, between),
      ),
    );
    this.tooltip.replaceChildren(node("div", {}, head), node("table", {}, node("tbody", {}, ...body)));
    this.tooltip.hidden = false;
    if (!pointed) {
      this.quiet = true;
      this.u.setCursor({ left: this.u.valToPos(x, "x"), top: 10 });
      this.quiet = false;
    }
    this.place(this.u.valToPos(x, "x") + 48);
    if (speak)
      this.spoken.textContent = `${head}: ${rows.map(({ one, value }) => `${one.label} ${format(value)}`).join("; ")}`;
  }

  hide() {
    this.tooltip.hidden = true;
    if (!this.u) return;
    this.quiet = true;
    this.u.setCursor({ left: -10, top: -10 });
    this.quiet = false;
  }

  place(x) {
    const box = this.tooltip.style,
      top = this.plot.offsetTop;
    box.left = "0px";
    // A tall one goes below the chart, where it hides no curve.
    box.top =
      this.tooltip.offsetHeight > this.plot.clientHeight / 2 ? `${top + this.plot.clientHeight}px` : `${top + 8}px`;
    const room = this.figure.clientWidth - this.tooltip.offsetWidth - 6;
    const right = x + 24,
      left = x - this.tooltip.offsetWidth - 4;
    box.left = `${Math.max(4, Math.min(right <= room ? right : left, room))}px`;
  }

  onKey(event) {
    if (!this.u) return;
    const jump = Math.max(1, Math.round(this.data[0].length / 20)),
      last = this.data[0].length - 1;
    const moves = {
      ArrowLeft: this.index - 1,
      ArrowRight: this.index + 1,
      PageDown: this.index - jump,
      PageUp: this.index + jump,
      Home: 0,
      End: last,
    };
    const acts = {
      Escape: () => this.hide(),
      "+": () => this.zoomBy(0.5),
      "=": () => this.zoomBy(0.5),
      "-": () => this.zoomBy(2),
      0: () => this.reset(),
    };
    if (event.ctrlKey || event.metaKey || event.altKey) return;
    if (event.key in moves) this.show(moves[event.key], true);
    else if (event.key in acts) acts[event.key]();
    else return;
    event.preventDefault();
  }

  // ---- marks ----
  // Crosses at the foot of the chart, e.g. for episodes that failed.
  drawMarks(u) {
    const { ctx, bbox } = u;
    ctx.save();
    ctx.strokeStyle = css("--error");
    const unit = devicePixelRatio || 1,
      size = 4 * unit,
      y = bbox.top + bbox.height - 8 * unit;
    for (const mark of this.options.marks || []) {
      if (mark < u.scales.x.min || mark > u.scales.x.max) continue;
      const x = u.valToPos(mark, "x", true);
      ctx.lineWidth = 2 * unit;
      ctx.beginPath();
      ctx.moveTo(x - size, y - size);
      ctx.lineTo(x + size, y + size);
      ctx.moveTo(x - size, y + size);
      ctx.lineTo(x + size, y - size);
      ctx.stroke();
    }
    ctx.restore();
  }

  description() {
    const ends = this.options.series
      .filter((one) => one.kind === "main")
      .map((one) => {
        const last = one.y.filter(known).pop();
        return last === undefined ? `${one.label}: no value` : `${one.label} ends at ${format(last)}`;
      });
    const told = ends.length ? `${ends.join("; ")}.` : this.options.note || "";
    return (
      `${this.options.title}, ${this.options.unit || "value"} over ${this.options.xLabel}. ` +
      `${told} Arrow keys read values, plus and minus zoom, zero shows everything.`
    );
  }
}
