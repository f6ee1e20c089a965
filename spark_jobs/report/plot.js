
// A connection's page: selects the direction of the data and the scale of the RTT axis, and fits the
// vertical axes to the visible data.
const plot = document.querySelector(".plot");

// All marks of the traces that have too many to draw at once, by number of the trace: x, y, half
// heights, hover texts.
const allMarks = new Map();

function unpackedArray({ bdata, shape }) {
  const values = new Float64Array(Uint8Array.from(atob(bdata), c => c.charCodeAt(0)).buffer);
  const width = shape ? Number(shape.split(",")[1]) : 1;
  return shape ? Array.from({ length: values.length / width }, (_, i) => [...values.subarray(i * width, (i + 1) * width)]) : values;
}

function firstFrom(x, limit) {
  let low = 0, high = x.length;
  while (low < high) {
    const middle = (low + high) >> 1;
    if (x[middle] < limit) low = middle + 1; else high = middle;
  }
  return low;
}

// Returns the marks in a time range: all, or every n-th if there are too many.
function inRange(marks, [from, to]) {
  const low = firstFrom(marks.x, from), high = firstFrom(marks.x, to);
  const step = Math.max(1, Math.ceil((high - low) / Number(plot.dataset.maxMarks)));
  const chosen = [];
  for (let i = low; i < high; i += step) chosen.push(i);
  return Object.fromEntries(Object.entries(marks).map(([name, values]) => [name, chosen.map(i => values[i])]));
}

prepare = figure => {
  figure.data.forEach((trace, i) => {
    if (trace.mode !== "markers" || !trace.customdata || trace.x.bdata.length * 3 / 32 <= Number(plot.dataset.maxMarks)) return;
    const marks = { x: unpackedArray(trace.x), y: unpackedArray(trace.y), customdata: unpackedArray(trace.customdata) };
    if (trace.error_y) marks["error_y.array"] = unpackedArray(trace.error_y.array);
    if (trace.text) marks.text = trace.text;
    allMarks.set(i, marks);
    const { "error_y.array": half, ...rest } = inRange(marks, [-Infinity, Infinity]);
    Object.assign(trace, rest);
    if (half) trace.error_y.array = half;
  });
  return figure;
};

function redraw() {
  const span = plot._fullLayout.xaxis.range, changes = {};
  [...allMarks.values()].forEach((marks, k) => {
    for (const [name, values] of Object.entries(inRange(marks, span))) (changes[name] ||= Array(allMarks.size))[k] = values;
  });
  return allMarks.size ? Plotly.restyle(plot, changes, [...allMarks.keys()]) : Promise.resolve();
}

function press(button, name) {
  document.querySelectorAll("[data-" + name + "]").forEach(b => b.setAttribute("aria-pressed", b === button));
}

function showDirection(direction) {
  const traces = plot.data.flatMap((trace, i) => (trace.meta ? [i] : []));
  Plotly.restyle(plot, { visible: traces.map(i => plot.data[i].meta[0] === direction && plot.data[i].meta[1]) }, traces).then(() => fit({}));
}

// Returns the lowest and highest value of a graph in a time range. Lines count from the value that
// they have at its beginning.
function extent(axis, [from, to]) {
  let low = Infinity, high = -Infinity;
  for (const trace of plot._fullData) {
    if (trace.visible !== true || "y" + axis.slice(5) !== trace.yaxis) continue;
    const { x, y } = trace, size = trace.error_y && trace.error_y.array;
    let before = NaN;
    for (let i = 0; i < x.length; i++) {
      if (x[i] > to) break;
      const half = size ? size[i] : 0;
      if (x[i] < from) { before = trace.mode === "lines" ? y[i] : NaN; continue; }
      if (y[i] - half < low) low = y[i] - half;
      if (y[i] + half > high) high = y[i] + half;
    }
    if (before < low) low = before;
    if (before > high) high = before;
  }
  return low <= high ? [low, high] : null;
}

// Fits the vertical axes to the time range, except those that the reader has zoomed.
function fit(changed) {
  const span = plot._fullLayout.xaxis.range, ranges = {};
  for (const axis of ["yaxis2", "yaxis3", "yaxis4", "yaxis5"].filter(name => plot._fullLayout[name])) {
    if (Object.keys(changed).some(key => key.startsWith(axis + ".range"))) continue;
    const found = extent(axis, span);
    if (!found || plot._fullLayout[axis].type === "log") { ranges[axis + ".autorange"] = true; continue; }
    const low = axis === "yaxis2" ? found[0] : 0, pad = 0.06 * (found[1] - low) || 1;
    ranges[axis + ".range"] = [low - (axis === "yaxis2" ? pad : 0), found[1] + pad];
  }
  return Plotly.relayout(plot, ranges);
}

function onDrawn() {
  fit({});
  plot.on("plotly_relayout", changed => {
    if (Object.keys(changed).some(key => key.startsWith("xaxis."))) redraw().then(() => fit(changed));
  });
}

document.querySelectorAll("[data-direction]").forEach(button => button.addEventListener("click", () => {
  press(button, "direction");
  showDirection(button.dataset.direction);
}));
document.querySelectorAll("[data-scale]").forEach(button => button.addEventListener("click", () => {
  press(button, "scale");
  Plotly.relayout(plot, {
    "yaxis4.type": button.dataset.scale, "yaxis4.autorange": true,
    "yaxis4.dtick": button.dataset.scale === "log" ? "D2" : null,
  }).then(() => fit({}));
}));
plot.addEventListener("drawn", onDrawn);
