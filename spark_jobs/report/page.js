// Draws figures when they come into view, from the page's compressed copy of Plotly; saves tables as CSV.
const template = JSON.parse(document.getElementById("template").textContent);

async function decompressed(id) {
  const bytes = Uint8Array.from(atob(document.getElementById(id).textContent), c => c.charCodeAt(0));
  const stream = new Blob([bytes]).stream().pipeThrough(new DecompressionStream("gzip"));
  return new Response(stream).text();
}

// Changes a figure before it is drawn; a page may replace this function.
let prepare = figure => figure;

function draw(plot) {
  if (plot.dataset.drawn) return;
  plot.dataset.drawn = "1";
  const figure = prepare(JSON.parse(plot.nextElementSibling.textContent));
  figure.layout.template = template;
  const name = plot.closest("section").id;
  Plotly.newPlot(plot, figure.data, figure.layout, {
    displaylogo: false,
    responsive: plot.dataset.responsive === "1",
    displayModeBar: "hover",
    modeBarButtons: [plot.dataset.buttons ? plot.dataset.buttons.split(" ") : ["toImage"]],
    toImageButtonOptions: { format: "svg", filename: "giscope-" + name },
  }).then(() => plot.dispatchEvent(new Event("drawn")));
}

function drawWhenVisible(plots) {
  const visibility = new IntersectionObserver((entries, observer) => {
    for (const entry of entries) {
      if (!entry.isIntersecting) continue;
      observer.unobserve(entry.target);
      draw(entry.target);
    }
  }, { rootMargin: "600px" });
  plots.forEach(plot => visibility.observe(plot));
}

// A number with unit and interval, as "52.5 % (51.0 … 54.1)" or "● 65.6 ms longer ... (60 … 70)".
const printed = /^(?:● )?(?:perhaps )?([+\u2212]?[\d,.]+)(?:\u00a0([^\s(]+))?[^(]*(?:\(([+\u2212]?[\d,.]+)\u00a0…\u00a0([+\u2212]?[\d,.]+)\))?$/;
const plain = text => text.replaceAll(",", "").replace("\u2212", "-").replace("+", "");

// Returns a column's cells as CSV columns: with units or intervals, also value, unit, low and high.
function csvColumns([heading, ...cells]) {
  const found = cells.map(text => text.match(printed));
  if (!found.some(m => m && (m[2] || m[3]))) return [[heading, ...cells.map(plainNumber)]];
  const parts = ["value", "unit", "low", "high"].map((part, n) =>
    [`${heading} ${part}`, ...found.map(m => m && m[n + 1] ? (n === 1 ? m[2] : plain(m[n + 1])) : "")]);
  const words = found.some((m, n) => m === null || /[a-z]{3,} [a-z]/.test(cells[n]));
  return words ? [[heading, ...cells], ...parts] : parts;
}

const plainNumber = text => /^[+\u2212]?[\d,.]+$/.test(text) ? plain(text) : text;

function csv(table) {
  const quoted = text => /[",\n]/.test(text) ? '"' + text.replaceAll('"', '""') + '"' : text;
  const rows = [...table.rows].map(row => [...row.cells].map(cell => cell.innerText));
  const columns = rows[0].flatMap((_, n) => csvColumns(rows.map(row => row[n])));
  return rows.map((_, n) => columns.map(column => quoted(column[n])).join(",")).join("\r\n");
}

function save(button) {
  const link = document.createElement("a");
  link.href = URL.createObjectURL(new Blob(["\ufeff" + csv(button.previousElementSibling)], { type: "text/csv" }));
  link.download = "giscope-" + button.closest("section").id + ".csv";
  link.click();
  URL.revokeObjectURL(link.href);
}

const paper = { width: 700, height: 700, scale: 0.72 };  // px; fits A4 and Letter below a heading

// Resizes each figure to fit on one sheet of paper; tables that are closed are not printed.
function forPaper(plots) {
  for (const plot of plots) {
    draw(plot);
    const height = parseFloat(plot.style.height);
    if (plot.dataset.responsive === "1") {
      plot.dataset.height = height;
      const onPaper = Math.min(paper.scale * height, paper.height);
      plot.style.height = onPaper + "px";
      Plotly.relayout(plot, { autosize: false, width: paper.width, height: onPaper });
    } else {
      plot.style.zoom = Math.min(1, paper.width / plot.layout.width, paper.height / height);
    }
  }
}

// Restores figures to their state on screen.
function forScreen(plots) {
  for (const plot of plots) {
    plot.style.zoom = "";
    if (!plot.dataset.height) continue;
    plot.style.height = plot.dataset.height + "px";
    Plotly.relayout(plot, { autosize: true, width: null, height: Number(plot.dataset.height) });
  }
}

(async () => {
  document.querySelectorAll(".csv").forEach(b => b.addEventListener("click", () => save(b)));
  const plots = [...document.querySelectorAll(".plot")];
  try {
    if (!window.Plotly) {
      const script = document.createElement("script");
      script.textContent = await decompressed("plotly");
      document.head.append(script);
    }
  } catch (error) {
    plots.forEach(plot => { plot.textContent = "To see this figure, use a browser of 2023 or later."; });
    return;
  }
  drawWhenVisible(plots);
  window.addEventListener("beforeprint", () => forPaper(plots));
  window.addEventListener("afterprint", () => forScreen(plots));
})();
