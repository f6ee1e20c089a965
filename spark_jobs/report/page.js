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

function csv(table) {
  const quoted = text => /[",\n]/.test(text) ? '"' + text.replaceAll('"', '""') + '"' : text;
  return [...table.rows].map(row => [...row.cells].map(cell => quoted(cell.innerText)).join(",")).join("\r\n");
}

function save(button) {
  const link = document.createElement("a");
  link.href = URL.createObjectURL(new Blob(["\ufeff" + csv(button.previousElementSibling)], { type: "text/csv" }));
  link.download = "giscope-" + button.closest("section").id + ".csv";
  link.click();
  URL.revokeObjectURL(link.href);
}

const paper = { width: 700, height: 800 };  // px; fits A4 and Letter below a heading

// Resizes each figure to fit on one sheet of paper and opens all tables.
function forPaper(plots) {
  document.querySelectorAll("details:not([open])").forEach(d => { d.open = true; d.dataset.collapsed = "1"; });
  for (const plot of plots) {
    draw(plot);
    const height = parseFloat(plot.style.height);
    if (plot.dataset.responsive === "1") {
      plot.dataset.height = height;
      plot.style.height = Math.min(height, paper.height) + "px";
      Plotly.relayout(plot, { autosize: false, width: paper.width, height: Math.min(height, paper.height) });
    } else {
      plot.style.zoom = Math.min(1, paper.width / plot.layout.width, paper.height / height);
    }
  }
}

// Restores figures and tables to their state on screen.
function forScreen(plots) {
  document.querySelectorAll("details[data-collapsed]").forEach(d => { d.open = false; delete d.dataset.collapsed; });
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
