"use strict";
// Draws the charts of a report page with uPlot, from the JSON in the page (see charts.py).
{
  const data = JSON.parse(document.getElementById("charts").textContent);
  const { start, step_ms: step, count } = data.buckets;
  const middles = Array.from({ length: count }, (_, i) => (start + (i + 0.5) * step) / 1000);
  const UNITS = ["B", "KiB", "MiB", "GiB", "TiB", "PiB"];
  const PADDING = 12; // right of a chart, in pixels
  const compact = new Intl.NumberFormat("en", { notation: "compact", maximumFractionDigits: 2 });

  const number = (value) => value.toLocaleString("en");
  const size = (value) => {
    const power = value < 1 ? 0 : Math.min(Math.floor(Math.log2(value) / 10), UNITS.length - 1);
    return `${+(value / 1024 ** power).toPrecision(3)} ${UNITS[power]}`;
  };
  const whole = Array.from({ length: 45 }, (_, i) => [1, 2, 5][i % 3] * 10 ** Math.floor(i / 3));
  const MEASURES = {
    messages: { label: "messages", tick: compact.format, incrs: whole, text: (value) => `${number(value)} messages` },
    bytes: {
      label: "size", tick: size, text: size,
      incrs: Array.from({ length: 60 }, (_, power) => 2 ** power),
    },
    latency_ms: { label: "ms", tick: compact.format, text: (value) => `${number(value)} ms` },
  };

  // Times in UTC, in seconds, as in uPlot.
  const iso = (time) => new Date(time * 1000).toISOString();
  const day = (time) => iso(time).slice(0, 10);
  const clock = (time, each) => iso(time).slice(11, each < 1 ? 23 : each < 60 ? 19 : 16);
  const short = new Intl.DateTimeFormat("en", { month: "short", day: "numeric", timeZone: "UTC" });
  const date = (time) => short.format(time * 1000);
  // The text of a tick, and its second line, shown where it differs from the tick before.
  const tickLines = (time, each) => {
    if (each >= 86400) return [date(time), iso(time).slice(0, 4)];
    if (each >= 1) return [clock(time, each), date(time)];
    return [`${iso(time).slice(17, 23)} s`, `${date(time)} ${clock(time, 60)}`];
  };
  const timeTicks = (plot, times, axis, minSpace, each) => {
    const all = times.map((time) => tickLines(time, each));
    return all.map(([text, below], i) => {
      const lines = i > 0 && below === all[i - 1][1] ? [text] : [text, below];
      const right = (1 - (times[i] * 1000 - start) / (count * step)) * (plot.width - 70); // roughly, in pixels
      const half = 3.3 * Math.max(...lines.map((line) => line.length));
      return right + PADDING < half ? "" : lines.join("\n");
    });
  };
  // The size of an axis' texts, in pixels.
  const twoLines = (_, texts) => (texts?.some((text) => text.includes("\n")) ? 40 : 24);
  const asWideAs = (_, texts) => 16 + 7 * Math.max(1, ...(texts ?? []).map((text) => text.length));
  const bucketText = (i) => {
    const [begin, end] = [start + i * step, start + (i + 1) * step].map((time) => time / 1000);
    const each = step / 1000;
    return each >= 86400 ? day(begin) : `${day(begin)} ${clock(begin, each)} – ${clock(end, each)}`;
  };

  const colour = (name) => getComputedStyle(document.documentElement).getPropertyValue(`--${name}`).trim();

  function axes(x, measure) {
    const font = "11px system-ui, sans-serif";
    const shared = {
      font, stroke: colour("soft"), labelFont: font, labelSize: 16, labelGap: 0,
      grid: { stroke: colour("line"), width: 1 }, ticks: { stroke: colour("line"), size: 4, width: 1 },
    };
    const y = {
      ...shared, label: measure.label, incrs: measure.incrs, size: asWideAs, space: 26,
      values: (_, values) => values.map((value) => measure.tick(value)),
    };
    return [{ ...shared, grid: { show: false }, ...x }, y];
  }

  function bars(name) {
    return {
      fill: colour(name), width: 0, points: { show: false },
      paths: uPlot.paths.bars({ size: [0.86, 60], align: 0 }),
    };
  }

  function draw(figure, { x, edges, values, series, label, measure }) {
    const [plot, output] = [figure.querySelector(".plot"), figure.querySelector("output")];
    return new uPlot({
      width: plot.clientWidth, height: plot.clientHeight, padding: [8, PADDING, 0, 0],
      tzDate: (time) => uPlot.tzDate(new Date(time * 1000), "Etc/UTC"),
      legend: { show: false },
      cursor: { drag: { x: false, y: false }, y: false, points: { show: false } },
      scales: {
        x: { time: edges.isTime, range: () => edges.range },
        y: { range: (_, low, high) => [Math.min(0, low ?? 0), Math.max(high ?? 0, 1) * 1.05] },
      },
      axes: axes(edges.axis, measure),
      series: [{}, ...series],
      hooks: {
        setCursor: [({ cursor: { idx } }) => {
          const value = idx == null ? null : values[idx];
          output.textContent = value == null ? "" : `${label(idx)}: ${measure.text(value)}`;
        }],
      },
    }, x, plot);
  }

  function overTime(figure) {
    const { of, measure } = figure.dataset;
    const values = (of === "total" ? data.total : data.topics[of])[measure];
    const edges = {
      isTime: true, range: [start / 1000, (start + count * step) / 1000],
      axis: { values: timeTicks, label: "store time (UTC)", space: 54, size: twoLines },
    };
    return draw(figure, {
      x: [middles, values], edges, values, series: [bars("bar")], label: bucketText, measure: MEASURES[measure],
    });
  }

  function byQueue(figure) {
    const { ids, messages, hot } = data.queues[figure.dataset.queues];
    const only = (isHot) => messages.map((value, i) => (hot.includes(ids[i]) === isHot ? value : null));
    const edges = {
      isTime: false, range: [-0.5, ids.length - 0.5],
      axis: {
        label: "queue id", size: 26, space: 30, incrs: [1, 2, 5, 10, 20, 50, 100],
        values: (_, places) => places.map((place) => ids[place]),
      },
    };
    return draw(figure, {
      x: [ids.map((_, i) => i), only(false), only(true)], edges, values: messages,
      series: [bars("bar"), bars("hot")], label: (i) => `queue ${ids[i]}`, measure: MEASURES.messages,
    });
  }

  function sparkline(place) {
    const hidden = { show: false };
    return new uPlot({
      width: place.clientWidth, height: place.clientHeight, padding: [2, 1, 1, 1],
      legend: hidden, cursor: hidden, axes: [hidden, hidden],
      scales: {
        x: { time: false, range: () => [start / 1000, (start + count * step) / 1000] },
        y: { range: (_, low, high) => [0, Math.max(high ?? 0, 1)] },
      },
      series: [{}, bars("bar")],
    }, [middles, data.topics[place.dataset.of].messages], place);
  }

  let drawn = [];
  function drawAll() {
    for (const chart of drawn) chart.destroy();
    const all = (selector) => [...document.querySelectorAll(selector)];
    drawn = [
      ...all("[data-measure]").map(overTime), ...all("[data-queues]").map(byQueue),
      ...(count ? all(".spark").map(sparkline) : []),
    ];
  }

  drawAll();
  matchMedia("(prefers-color-scheme: dark)").addEventListener("change", drawAll);
  let width = innerWidth;
  addEventListener("resize", () => {
    if (innerWidth !== width) drawAll(); // a phone's bars that come and go change the height alone
    width = innerWidth;
  });
  for (const [event, isPrinted] of [["beforeprint", true], ["afterprint", false]]) {
    addEventListener(event, () => {
      document.documentElement.classList.toggle("printed", isPrinted);
      drawAll();
    });
  }
}
