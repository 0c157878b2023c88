"use strict";
// Shows the new messages of a topic as the console sends them. The browser ends it when the page is closed.
{
  const ROWS_MAX = 200;
  const tail = document.getElementById("tail");
  const rows = tail.querySelector("tbody");
  const state = tail.querySelector("[data-state]");
  const pause = tail.querySelector("[data-pause]");
  let source = null;
  let skipped = 0;
  let seen = 0;

  const count = (number) => number.toLocaleString("en");
  const show = (text) => {
    const missed = skipped ? `, ${count(skipped)} more not shown` : "";
    state.textContent = `${text} ${count(seen)} new${missed}.`;
  };

  const stop = (text) => {
    source?.close();
    source = null;
    pause.textContent = "Follow";
    pause.setAttribute("aria-pressed", "true");
    show(text);
  };

  const follow = () => {
    pause.textContent = "Pause";
    pause.setAttribute("aria-pressed", "false");
    source = new EventSource(tail.dataset.events);
    source.addEventListener("open", () => show("Following:"));
    source.addEventListener("messages", ({ data }) => {
      const before = rows.rows.length;
      rows.insertAdjacentHTML("afterbegin", data);
      seen += rows.rows.length - before;
      while (rows.rows.length > ROWS_MAX) rows.deleteRow(-1);
      show("Following:");
    });
    source.addEventListener("skipped", ({ data }) => { skipped += Number(data); show("Following:"); });
    source.addEventListener("trouble", ({ data }) => show(`${data}.`));
    source.addEventListener("end", ({ data }) => stop(`Ended: ${data}.`));
    source.addEventListener("error", () => {
      if (source?.readyState === EventSource.CLOSED) stop("The console refuses: open this page again.");
      else show("The console does not answer; trying again.");
    });
  };

  pause.addEventListener("click", () => (source ? stop("Paused:") : follow()));
  follow();
}
