// Fetches the changing part of a page every two seconds, says how old it is, and leaves alone what somebody uses.
"use strict";
(() => {
  const live = document.getElementById("live");
  const age = document.getElementById("age");
  const pause = document.getElementById("pause");
  const said = document.getElementById("said");
  if (!live || !age || !pause) return;
  const EVERY = 2000, STALE = 20000, SPEAK = 10000;
  let tag = null, good = Date.now(), spoke = 0, paused = false, busy = false;

  const ended = () => live.querySelector("[data-ended='yes']") !== null;
  const inUse = () => {
    const marked = document.getSelection();
    const selected = marked && !marked.isCollapsed && live.contains(marked.anchorNode);
    return selected || (live.contains(document.activeElement) && document.activeElement !== live);
  };

  const speak = () => {
    const source = live.querySelector("[data-said]");
    if (!said || !source || Date.now() - spoke < SPEAK || said.textContent === source.dataset.said) return;
    said.textContent = source.dataset.said;
    spoke = Date.now();
  };

  const look = async () => {
    if (busy || paused || document.hidden || ended()) return;
    busy = true;
    try {
      const answer = await fetch(live.dataset.url, { headers: tag ? { "If-None-Match": tag } : {}, cache: "no-store" });
      if (answer.status === 200) {
        const text = await answer.text();
        if (!inUse()) {
          const scrolled = [...live.querySelectorAll(".scroll")].map((box) => box.scrollLeft);
          live.innerHTML = text; // our own server's page, escaped there
          live.querySelectorAll(".scroll").forEach((box, n) => { box.scrollLeft = scrolled[n] || 0; });
          tag = answer.headers.get("ETag");
          speak();
        }
      }
      if (answer.ok || answer.status === 304) good = Date.now();
    } catch { /* it shows as age */ }
    busy = false;
  };

  const show = () => {
    const seconds = Math.round((Date.now() - good) / 1000);
    const stale = Date.now() - good > STALE && !paused && !ended();
    age.parentElement.classList.toggle("stale", stale);
    age.textContent = ended() ? "ended" : paused ? "paused" : stale ? `Stale ${seconds} s, reconnecting` : `Live ${seconds} s`;
    pause.hidden = ended();
  };

  pause.addEventListener("click", () => {
    paused = !paused;
    pause.setAttribute("aria-pressed", String(paused));
    pause.textContent = paused ? "Go on" : "Pause";
    show();
    look();
  });
  document.addEventListener("visibilitychange", look);
  setInterval(look, EVERY);
  setInterval(show, 500);
  show();
})();
