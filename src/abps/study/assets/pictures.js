// Pictures that are no line charts: a policy's matrix, bars of time, small intervals, a film.
const CELL_TEXT = 34; // Pixels of a cell from which on its number is written into it.

// A matrix of weights: rows actions, columns observations, blue below zero and orange above.
function matrixPicture(picture) {
  const rows = picture.rows.length,
    columns = picture.columns.length;
  const most = Math.max(...picture.weights.flat().map(Math.abs)) || 1;
  const holder = node("div", { class: "matrix" });
  let width = 0;
  const draw = () => {
    const now = Math.floor(holder.clientWidth);
    if (now < 60 || now === width) return;
    width = now;
    const left = 34,
      top = 20,
      cell = Math.min(72, (width - left - 2) / columns),
      height = Math.max(18, Math.min(cell, 40));
    const label = `Weights, ${plural(rows, "action")} by ${plural(columns, "column")}, largest size ${format(most)}`;
    const svg = shape("svg", {
      viewBox: `0 0 ${width} ${top + rows * height + 2}`,
      width,
      height: top + rows * height + 2,
      role: "img",
      "aria-label": label,
    });
    const every = Math.max(1, Math.ceil(26 / cell));
    picture.columns.forEach((name, column) => {
      if (column % every === 0 || name === "bias")
        svg.append(shape("text", { x: left + (column + 0.5) * cell, y: top - 6, "text-anchor": "middle" }, name));
    });
    picture.rows.forEach((name, row) => {
      svg.append(shape("text", { x: left - 6, y: top + (row + 0.5) * height + 4, "text-anchor": "end" }, name));
      picture.weights[row].forEach((value, column) =>
        svg.append(
          ...matrixCell(
            value,
            most,
            left + column * cell,
            top + row * height,
            cell,
            height,
            `${name} ← ${picture.columns[column]}`,
          ),
        ),
      );
    });
    holder.replaceChildren(svg);
  };
  new ResizeObserver(draw).observe(holder);
  return holder;
}

function matrixCell(value, most, x, y, width, height, name) {
  const share = Math.min(1, Math.abs(value) / most);
  const rect = shape("rect", {
    x: x + 0.5,
    y: y + 0.5,
    width: Math.max(0.5, width - 1),
    height: height - 1,
    class: value < 0 ? "below" : "above",
  });
  rect.style.fillOpacity = (0.06 + 0.94 * Math.sqrt(share)).toFixed(3);
  rect.append(shape("title", {}, `${name}: ${format(value)}`));
  if (width < CELL_TEXT) return [rect];
  return [
    rect,
    shape(
      "text",
      { x: x + width / 2, y: y + height / 2 + 4, "text-anchor": "middle", class: share > 0.35 ? "on-colour" : "" },
      compact(value),
    ),
  ];
}

// Horizontal stacked bars: { title, unit, bars: [{ label, parts: { phase: value } }], phases }.
function barChart(options) {
  const totals = options.bars.map((bar) => Object.values(bar.parts).reduce((sum, value) => sum + (value || 0), 0));
  const most = Math.max(...totals) || 1;
  const rows = options.bars.map((bar, index) => {
    const line = node("div", { class: "bar" });
    options.phases.forEach((phase, number) => {
      const value = bar.parts[phase] || 0;
      const part = node("span", { title: `${phase}: ${format(value)} ${options.unit}` });
      part.style.width = `${(100 * value) / most}%`;
      part.style.background = colour(number);
      line.append(part);
    });
    return [
      node("span", { class: "bar-name" }, bar.label),
      line,
      node("span", { class: "bar-total" }, `${format(totals[index])} s`),
    ];
  });
  return node(
    "figure",
    {},
    node("figcaption", {}, options.title),
    node("div", { class: "unit" }, options.unit),
    node("div", { class: "bars" }, ...rows.flat()),
  );
}

// An interval as a little drawing, on a scale shared by the rows of one task.
function miniInterval(estimate, low, high, number) {
  const width = 84,
    at = (value) => 4 + ((value - low) / (high - low || 1)) * (width - 8);
  const svg = shape("svg", { viewBox: `0 0 ${width} 14`, width, height: 14, "aria-hidden": "true" });
  svg.append(shape("line", { x1: 0, x2: width, y1: 7, y2: 7, class: "grid" }));
  const bar = shape("line", {
    x1: at(estimate[1]),
    x2: at(estimate[2]),
    y1: 7,
    y2: 7,
    "stroke-width": 4,
    "stroke-opacity": 0.45,
  });
  const dot = shape("circle", { cx: at(estimate[0]), cy: 7, r: 4 });
  bar.style.stroke = colour(number);
  dot.style.fill = colour(number);
  svg.append(bar, dot);
  return svg;
}

function filmPicture(film) {
  const source = `data:${film.kind};base64,${film.data}`;
  if (film.kind.startsWith("image/")) return node("img", { src: source, alt: "Film of one episode", class: "film" });
  return node("video", {
    src: source,
    controls: true,
    loop: true,
    muted: true,
    playsinline: true,
    class: "film",
    "aria-label": "Film of one episode",
  });
}
