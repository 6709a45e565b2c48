// The cells of a fan-out: one for each child, or one for several where there are too many; drawn anew only where they
// changed. Arrows move, n finds the next problem, Enter opens, + and - zoom.
"use strict";
(() => {
  const box = document.getElementById("cells");
  const canvas = box && box.querySelector("canvas");
  const line = document.getElementById("cell-line");
  if (!canvas || !canvas.getContext) return;
  const pen = canvas.getContext("2d", { alpha: false });
  const SIZE = 7, PITCH = 9, ROWS = 90, CHUNK = Number(box.dataset.chunk);
  const NAMES = { f: "failed", u: "unknown", y: "retrying", l: "running", r: "ready", p: "waiting", s: "succeeded", c: "cancelled" };
  const WORST = "fuylrpsc"; // of several in one cell the first of these is shown
  const INKS = { f: "--dead", u: "--unknown", y: "--retrying", l: "--running", r: "--ready", p: "--waiting", s: "--succeeded", c: "--cancelled" };
  let cells = box.dataset.cells, from = 0, to = cells.length, columns = 1, per = 1, shown = [], at = -1, inks = {}, follow = true;
  box.removeAttribute("data-cells");

  const css = () => {
    const style = getComputedStyle(document.documentElement);
    for (const [letter, name] of Object.entries(INKS)) inks[letter] = style.getPropertyValue(name).trim();
    inks.panel = style.getPropertyValue("--panel").trim();
    inks.ink = style.getPropertyValue("--ink").trim();
    inks.focus = style.getPropertyValue("--focus").trim();
  };
  const worst = (start, end) => {
    if (end - start === 1) return cells[start];
    const part = cells.slice(start, end);
    for (const letter of WORST) if (part.includes(letter)) return letter;
    return "p";
  };
  const place = (n) => [1 + (n % columns) * PITCH, 1 + Math.floor(n / columns) * PITCH];
  const draw = (n) => {
    const letter = shown[n], [x, y] = place(n), s = SIZE;
    pen.fillStyle = inks.panel;
    pen.fillRect(x - 1, y - 1, PITCH, PITCH);
    pen.fillStyle = pen.strokeStyle = inks[letter];
    pen.lineWidth = 1.5;
    pen.beginPath();
    if (letter === "s") pen.fillRect(x, y, s, s);
    else if (letter === "r") pen.strokeRect(x + 1, y + 1, s - 2, s - 2);
    else if (letter === "p") pen.fillRect(x + 2, y + 2, 3, 3);
    else if (letter === "c") pen.fillRect(x, y + 2, s, 3);
    else if (letter === "l") { pen.moveTo(x, y); pen.lineTo(x + s, y + s / 2); pen.lineTo(x, y + s); pen.fill(); }
    else if (letter === "y") { pen.moveTo(x + s / 2, y); pen.lineTo(x + s, y + s); pen.lineTo(x, y + s); pen.fill(); }
    else if (letter === "u") { pen.moveTo(x + s / 2, y - .5); pen.lineTo(x + s + .5, y + s / 2); pen.lineTo(x + s / 2, y + s + .5); pen.lineTo(x - .5, y + s / 2); pen.fill(); }
    else if (letter === "f") { pen.lineWidth = 2.5; pen.moveTo(x + .5, y + .5); pen.lineTo(x + s - .5, y + s - .5); pen.moveTo(x + s - .5, y + .5); pen.lineTo(x + .5, y + s - .5); pen.stroke(); }
    if (per > 1 && "fuylrp".includes(letter)) { // how much of this cell is done
      const done = range(n), all = done[1] - done[0], good = [...cells.slice(...done)].filter((one) => one === "s").length;
      pen.fillStyle = inks.s;
      pen.fillRect(x, y + s - 1, Math.round(s * good / all), 1);
    }
    if (n === at) { pen.strokeStyle = inks.focus; pen.lineWidth = 2; pen.strokeRect(x - 1, y - 1, PITCH, PITCH); }
  };
  const range = (n) => [from + n * per, Math.min(to, from + (n + 1) * per)];
  const count = () => Math.ceil((to - from) / per);
  const layout = () => {
    const edges = getComputedStyle(box), width = Math.max(PITCH + 2, box.clientWidth - parseFloat(edges.paddingLeft) - parseFloat(edges.paddingRight)), scale = window.devicePixelRatio || 1;
    columns = Math.max(1, Math.floor((width - 2) / PITCH));
    per = Math.max(1, Math.ceil((to - from) / (columns * ROWS)));
    const rows = Math.max(1, Math.ceil(count() / columns));
    canvas.style.setProperty("width", `${columns * PITCH + 2}px`);
    canvas.style.setProperty("height", `${rows * PITCH + 2}px`);
    canvas.width = (columns * PITCH + 2) * scale;
    canvas.height = (rows * PITCH + 2) * scale;
    pen.setTransform(scale, 0, 0, scale, 0, 0);
    pen.fillStyle = inks.panel;
    pen.fillRect(0, 0, canvas.width, canvas.height);
    shown = Array.from({ length: count() }, (_, n) => worst(...range(n)));
    at = Math.min(at, shown.length - 1);
    shown.forEach((_, n) => draw(n));
    tell();
  };
  const tell = () => {
    if (at < 0) {
      const all = `${(to - from).toLocaleString("en")} of ${cells.length.toLocaleString("en")} children`;
      line.textContent = per > 1 ? `${all}, ${per} to a cell: the worst of them is drawn, the line below it is what has succeeded. + zooms in.` : `${all}, one to a cell, in the order of their index.`;
      return;
    }
    const [start, end] = range(at);
    line.textContent = end - start === 1 ? `child ${start}: ${NAMES[shown[at]]}` : `children ${start} to ${end - 1}: worst is ${NAMES[shown[at]]}`;
  };
  const move = (n) => {
    const before = at;
    at = Math.max(0, Math.min(shown.length - 1, n));
    if (before >= 0) draw(before);
    draw(at);
    tell();
  };
  const problem = (by) => {
    for (let n = at + by; n >= 0 && n < shown.length; n += by) if ("fuy".includes(shown[n])) return move(n);
  };
  const zoom = (start, end) => { from = Math.max(0, start); to = Math.min(cells.length, Math.max(end, from + 1)); follow = from === 0 && to === cells.length; at = -1; layout(); };
  const open = (n) => {
    const [start, end] = range(n);
    if (end - start === 1) location.href = `${box.dataset.base}/${start}`;
    else { const middle = (start + end) / 2, half = Math.max(columns * 10, (to - from) / 10); zoom(Math.floor(middle - half), Math.ceil(middle + half)); }
  };
  const hit = (event) => {
    const edge = canvas.getBoundingClientRect();
    const column = Math.floor((event.clientX - edge.left - 1) / PITCH), row = Math.floor((event.clientY - edge.top - 1) / PITCH);
    const n = row * columns + column;
    return column >= 0 && column < columns && n >= 0 && n < shown.length ? n : -1;
  };

  canvas.addEventListener("mousemove", (event) => { const n = hit(event); if (n >= 0 && n !== at) move(n); });
  canvas.addEventListener("mouseleave", () => { const before = at; at = -1; if (before >= 0) draw(before); tell(); });
  canvas.addEventListener("click", (event) => { const n = hit(event); if (n >= 0) open(n); });
  canvas.addEventListener("focus", () => { if (at < 0 && canvas.matches(":focus-visible")) move(0); });
  canvas.addEventListener("blur", () => { const before = at; at = -1; if (before >= 0) draw(before); tell(); });
  canvas.addEventListener("keydown", (event) => {
    const moves = { ArrowRight: 1, ArrowLeft: -1, ArrowDown: columns, ArrowUp: -columns };
    if (moves[event.key]) move(at + moves[event.key]);
    else if (event.key === "Home") move(0);
    else if (event.key === "End") move(shown.length - 1);
    else if (event.key === "n" || event.key === "N") problem(event.key === "n" ? 1 : -1);
    else if (event.key === "Enter") open(Math.max(0, at));
    else if (event.key === "+") { const [start, end] = at < 0 ? [(from + to) / 2, (from + to) / 2] : range(at), part = (to - from) / 4; zoom(Math.floor((start + end) / 2 - part), Math.ceil((start + end) / 2 + part)); }
    else if (event.key === "-" || event.key === "Escape") zoom(event.key === "Escape" ? 0 : from - (to - from) / 2, event.key === "Escape" ? cells.length : to + (to - from) / 2);
    else return;
    event.preventDefault();
    event.stopPropagation();
  });

  document.addEventListener("pieces", (event) => {
    let changed = false;
    const pieces = [];
    for (const [name, text] of Object.entries(event.detail)) if (name.startsWith("cells-")) pieces.push([Number(name.slice(6)), text]);
    if (!pieces.length) return;
    const before = cells;
    for (const [number, text] of pieces.sort((a, b) => a[0] - b[0])) cells = cells.slice(0, number * CHUNK) + text + cells.slice(number * CHUNK + text.length);
    if (cells.length !== before.length) { if (follow) to = cells.length; layout(); return; }
    for (const [number, text] of pieces) {
      const first = Math.max(0, Math.floor((number * CHUNK - from) / per)), last = Math.min(shown.length - 1, Math.floor((number * CHUNK + text.length - 1 - from) / per));
      for (let n = first; n <= last; n += 1) {
        const letter = worst(...range(n));
        if (letter !== shown[n] || per > 1) { shown[n] = letter; draw(n); changed = true; }
      }
    }
    if (changed) tell();
  });
  new ResizeObserver(() => { css(); layout(); }).observe(box);
  matchMedia("(prefers-color-scheme: dark)").addEventListener("change", () => { css(); layout(); });
  new MutationObserver(() => { css(); layout(); }).observe(document.documentElement, { attributes: true, attributeFilter: ["data-theme"] });
})();
