"use strict";
// Draws the lag of a group over time with uPlot, from what the console has sampled, and renews it.
{
  const RENEWED_MS = 30_000;
  const HEIGHT = 190;
  const figure = document.querySelector("[data-lags]");
  const [place, text] = [figure.querySelector(".plot"), figure.querySelector("figcaption")];
  const compact = new Intl.NumberFormat("en", { notation: "compact", maximumFractionDigits: 1 });
  const clock = (time) => new Date(time * 1000).toISOString().slice(11, 16);
  const colour = (name) => getComputedStyle(document.documentElement).getPropertyValue(`--${name}`).trim();
  let plot = null;
  let data = null;

  const line = (label, name, width) => ({
    label, width, stroke: colour(name), points: { show: false }, spanGaps: false,
    value: (_, value) => (value == null ? "–" : value.toLocaleString("en")),
  });

  function draw() {
    plot?.destroy();
    plot = null;
    if (data.times.length < 2) {
      text.textContent = "Sampled twice a minute while the console runs: there is nothing to draw yet.";
      return;
    }
    const times = data.times.map((time) => time / 1000);
    const others = data.queue_count - data.queues.length;
    const rest = others > 0 ? ` The ${others.toLocaleString("en")} queues with smaller lags are only in the total.` : "";
    const cut = data.is_whole ? "" : " Some of its queues are left out: the console keeps the lags of 10,000.";
    text.textContent = `Lag over time (UTC), sampled twice a minute while the console runs.${rest}${cut}`;
    place.setAttribute("aria-label", `Lag over time: ${data.total.at(-1) ?? "unknown"} messages now`);
    const font = "11px system-ui, sans-serif";
    const axis = {
      font, stroke: colour("faint"), grid: { stroke: colour("line"), width: 1 },
      ticks: { stroke: colour("line"), width: 1, size: 4 },
    };
    plot = new uPlot({
      width: place.clientWidth, height: HEIGHT, padding: [8, 12, 0, 0],
      tzDate: (time) => uPlot.tzDate(new Date(time * 1000), "Etc/UTC"),
      cursor: { drag: { x: false, y: false }, points: { size: 6 } },
      scales: { y: { range: (_, low, high) => [0, Math.max(high ?? 0, 1) * 1.05] } },
      axes: [{ ...axis, grid: { show: false }, size: 30, values: (_, all) => all.map(clock) }, { ...axis, size: 54, values: (_, all) => all.map(compact.format) }],
      series: [
        { value: (_, time) => (time == null ? "–" : new Date(time * 1000).toISOString().slice(11, 19)) },
        line("total", "accent", 2),
        ...data.queues.map((queue, i) => line(queue.name, `line-${i + 1}`, 1)),
      ],
    }, [times, data.total, ...data.queues.map((queue) => queue.lags)], place);
  }

  async function renew() {
    try {
      const answer = await fetch(figure.dataset.lags);
      if (!answer.ok) throw new Error(`status ${answer.status}`);
      data = await answer.json();
      draw();
    } catch (error) {
      text.textContent = `The console does not say how the lag was: ${error.message}.`;
    }
  }

  renew();
  setInterval(renew, RENEWED_MS);
  matchMedia("(prefers-color-scheme: dark)").addEventListener("change", () => data && draw());
  new ResizeObserver(() => plot?.setSize({ width: place.clientWidth, height: HEIGHT })).observe(place);
}
