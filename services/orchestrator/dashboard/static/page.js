// What all pages share: they stay true by a stream of changed regions, times follow the reader, keys lead anywhere,
// actions open over the page. Without this script everything still works by links and forms.
"use strict";
(() => {
  const root = document.documentElement, body = document.body;
  const byId = (id) => document.getElementById(id);
  const all = (selector, from = document) => [...from.querySelectorAll(selector)];

  // --- times ---

  const DAY = 86400;
  const two = (number) => String(number).padStart(2, "0");
  const lasted = (seconds) => {
    const s = Math.max(0, seconds);
    if (s < 10) return `${s.toFixed(1)} s`;
    const whole = Math.round(s);
    for (const [unit, size, smaller, part] of [["d", DAY, "h", 3600], ["h", 3600, "m", 60], ["m", 60, "s", 1]]) {
      if (whole >= size) return `${Math.floor(whole / size)} ${unit} ${two(Math.floor(whole % size / part))} ${smaller}`;
    }
    return `${whole} s`;
  };
  let skew = 0; // of this machine's clock against the server's, in milliseconds
  const now = () => Date.now() + skew;
  const zone = () => (root.dataset.zone === "local" ? undefined : "UTC");
  const zoneName = () => (root.dataset.zone === "local" ? Intl.DateTimeFormat().resolvedOptions().timeZone : "UTC");
  const absolute = (at) => `${new Intl.DateTimeFormat("sv-SE", { dateStyle: "short", timeStyle: "medium", timeZone: zone() }).format(at)} ${zoneName()}`;
  const clock = (at) => new Intl.DateTimeFormat("sv-SE", { hour: "2-digit", minute: "2-digit", second: "2-digit", fractionalSecondDigits: 3, timeZone: zone() }).format(at).replace(",", ".");
  const ago = (at) => {
    const seconds = (now() - at) / 1000;
    if (Math.abs(seconds) >= DAY) return absolute(at);
    return seconds >= 0 ? `${lasted(seconds)} ago` : `in ${lasted(-seconds)}`;
  };
  const put = (element, text) => { if (element.textContent !== text) element.textContent = text; };

  const tick = (from = document) => {
    for (const element of all("time[data-ago]", from)) put(element, ago(Date.parse(element.dateTime)));
    for (const element of all("[data-since]", from)) put(element, lasted((now() - Date.parse(element.dataset.since)) / 1000));
  };
  const zoned = (from = document) => {
    for (const element of all("time[datetime]", from)) {
      const at = Date.parse(element.dateTime);
      element.title = absolute(at);
      if (element.dataset.clock !== undefined) put(element, clock(at));
      else if (element.dataset.absolute !== undefined) { element.title = ago(at); put(element, absolute(at)); }
      else if (element.dataset.ago === undefined) put(element, Math.abs(now() - at) < DAY * 1000 ? ago(at) : absolute(at));
    }
    for (const element of all(".zone-name")) put(element, zoneName());
    tick(from);
  };

  // --- regions: what is there stays there, and only what differs is changed ---

  const keyOf = (node) => (node.nodeType === 1 ? node.dataset.key || node.id || null : null);
  const morph = (old, fresh, hold) => {
    if (old.isEqualNode(fresh)) return 0;
    if (old.nodeType !== fresh.nodeType || old.nodeName !== fresh.nodeName) { old.replaceWith(fresh); return 0; }
    if (old.nodeType !== 1) { if (old.nodeValue !== fresh.nodeValue) old.nodeValue = fresh.nodeValue; return 0; }
    if (old.dataset.own !== undefined) return 0; // a script of its own looks after it
    const open = old.nodeName === "DETAILS" && old.open;
    for (const { name } of [...old.attributes]) if (!fresh.hasAttribute(name)) old.removeAttribute(name);
    for (const { name, value } of [...fresh.attributes]) if (old.getAttribute(name) !== value) old.setAttribute(name, value);
    if (open) old.open = true;
    return morphChildren(old, fresh, hold);
  };
  const morphChildren = (old, fresh, hold) => {
    const keyed = new Map([...old.childNodes].filter(keyOf).map((node) => [keyOf(node), node]));
    let at = old.firstChild, held = 0;
    for (const node of [...fresh.childNodes]) {
      const key = keyOf(node), known = key && keyed.get(key);
      if (hold && key && old.nodeName === "TBODY") {
        // somebody uses this table: rows change where they are, and none comes, goes or moves
        if (known) held += morph(known, node, hold); else held += 1;
        continue;
      }
      if (known) {
        keyed.delete(key);
        if (known === at) at = at.nextSibling; else old.insertBefore(known, at);
        held += morph(known, node, hold);
      } else if (at && !keyOf(at) && !key) {
        const next = at.nextSibling;
        held += morph(at, node, hold);
        at = next;
      } else old.insertBefore(node, at);
    }
    if (hold && old.nodeName === "TBODY" && old.querySelector(":scope > [data-key]")) return held;
    while (at) { const next = at.nextSibling; if (!keyOf(at) || keyed.has(keyOf(at))) at.remove(); at = next; }
    for (const node of keyed.values()) if (node.isConnected && node.parentNode === old) node.remove();
    return held;
  };

  const waiting = new Map(); // by region: what came while somebody used it
  const inUse = (region) => {
    if (region.querySelector("tr:hover, tr:focus-within, tr.chosen")) return true;
    const marked = document.getSelection();
    return marked && !marked.isCollapsed && region.contains(marked.anchorNode);
  };
  const show = (name, html, hold) => {
    const region = byId(`r-${name}`);
    if (!region) return;
    const fresh = document.createElement("template");
    fresh.innerHTML = html; // of our own server, escaped there
    const shell = region.cloneNode(false);
    shell.append(fresh.content);
    zoned(shell);
    const held = morphChildren(region, shell, hold);
    if (held > 0) waiting.set(name, { html, held }); else waiting.delete(name);
    region.dispatchEvent(new CustomEvent("region", { bubbles: true }));
    tellHeld();
  };
  const tellHeld = () => {
    const count = [...waiting.values()].reduce((sum, one) => sum + one.held, 0);
    let button = byId("news");
    if (!count) { if (button) button.remove(); return; }
    if (!button) {
      button = document.createElement("button");
      button.id = "news"; button.type = "button"; button.className = "news";
      button.addEventListener("click", settle);
      byId("main").prepend(button);
    }
    put(button, `${count} new or moved: show`);
  };
  const settle = () => { for (const [name, { html }] of [...waiting]) show(name, html, false); };
  document.addEventListener("mouseout", () => setTimeout(() => { for (const [name, { html }] of [...waiting]) { const region = byId(`r-${name}`); if (region && !inUse(region)) show(name, html, false); } }, 1500));

  // --- the stream ---

  const STALE = 20000, GONE = 60000, SPEAK = 10000;
  const age = byId("age"), pause = byId("pause"), stale = byId("stale"), said = byId("said");
  let stream = null, revision = body.dataset.revision, good = Date.now(), spoke = 0, trouble = "", ended = body.dataset.stream === undefined, paused = false, again = 0;

  const speak = (text) => {
    if (!said || !text || said.textContent === text || Date.now() - spoke < SPEAK) return;
    said.textContent = text;
    spoke = Date.now();
  };
  const close = () => { if (stream) stream.close(); stream = null; clearTimeout(again); };
  const open = () => {
    if (stream || paused || ended || document.hidden) return;
    const url = new URL(body.dataset.stream, location.href);
    url.searchParams.set("since", revision);
    stream = new EventSource(url);
    stream.addEventListener("regions", (event) => {
      const data = JSON.parse(event.data);
      revision = event.lastEventId; good = Date.now(); trouble = "";
      for (const [name, html] of Object.entries(data.regions)) { const region = byId(`r-${name}`); show(name, html, region && inUse(region)); }
      document.dispatchEvent(new CustomEvent("pieces", { detail: data.regions }));
      if (data.title) document.title = `${data.title} · Stanchion`;
      speak(data.said);
      if (data.ended) { ended = true; close(); }
      state();
    });
    stream.addEventListener("beat", (event) => { good = Date.now() - (JSON.parse(event.data).age || 0) * 1000; trouble = ""; state(); });
    stream.addEventListener("trouble", (event) => { trouble = JSON.parse(event.data).what; state(); });
    stream.addEventListener("goodbye", () => { close(); again = setTimeout(open, 500 + Math.random() * 1500); });
    stream.onerror = () => { if (stream && stream.readyState === EventSource.CLOSED) { close(); again = setTimeout(open, 2000 + Math.random() * 2000); } };
  };
  const state = () => {
    if (!age) return;
    const silent = Date.now() - good, old = silent > STALE && !paused && !ended;
    age.parentElement.classList.toggle("stale", old || trouble !== "");
    put(age, body.dataset.stream === undefined && body.dataset.ended === undefined ? "" : ended ? "Ended" : paused ? "Paused" : old ? `Stale ${lasted(silent / 1000)}, reconnecting` : `Live ${Math.round(silent / 1000)} s`);
    if (pause) pause.hidden = ended || body.dataset.stream === undefined;
    if (stale) {
      stale.hidden = !(old && silent > GONE) && !trouble;
      if (!stale.hidden) put(stale, trouble ? `${trouble}. What is shown is from ${absolute(good)}; tasks keep running.` : `Nothing was heard since ${absolute(good)}. This is about the display only; tasks keep running.`);
    }
  };
  if (pause) pause.addEventListener("click", () => {
    paused = !paused;
    pause.setAttribute("aria-pressed", String(paused));
    put(pause, paused ? "Go on" : "Pause");
    if (paused) close(); else open();
    state();
  });
  document.addEventListener("visibilitychange", () => (document.hidden ? close() : open()));
  addEventListener("pagehide", close);
  addEventListener("pageshow", (event) => { if (event.persisted) open(); });
  if (!ended) open();
  setInterval(() => { state(); if (!paused) tick(); }, 1000);

  // --- dialogs: the page of an action, over the page where one is ---

  let opener = null;
  const dialog = document.createElement("dialog");
  dialog.setAttribute("aria-labelledby", "dialog-title");
  dialog.addEventListener("close", () => { dialog.replaceChildren(); if (opener && opener.isConnected) opener.focus(); });
  body.append(dialog);
  const openDialog = async (link) => {
    const url = new URL(link.href);
    let page;
    try {
      const answer = await fetch(url, { headers: { Accept: "text/html" } });
      page = new DOMParser().parseFromString(await answer.text(), "text/html").querySelector("[data-dialog]");
    } catch { /* the link itself works as well */ }
    if (!page) { location.href = url; return; }
    for (const field of page.querySelectorAll("input[name=return_to]")) field.value = location.pathname + location.search;
    const title = page.querySelector("h1");
    const heading = document.createElement("h2");
    heading.id = "dialog-title"; heading.textContent = title.textContent; title.replaceWith(heading);
    opener = link;
    dialog.replaceChildren(page);
    dialog.showModal();
    const first = dialog.querySelector("textarea, input:not([type=hidden]), select, button");
    if (first) first.focus();
  };

  // --- clicks ---

  const copy = async (button, text) => {
    const before = button.textContent;
    try { await navigator.clipboard.writeText(text); put(button, "Copied"); } catch { put(button, "Not copied"); }
    setTimeout(() => put(button, before), 1500);
  };
  document.addEventListener("click", (event) => {
    const target = event.target.closest("a, button");
    if (!target) return;
    if (target.dataset.copy !== undefined) copy(target, target.dataset.copy);
    else if (target.dataset.copyLink !== undefined) copy(target, location.href);
    else if (target.dataset.close !== undefined && dialog.open) { event.preventDefault(); dialog.close(); }
    else if (target.dataset.act !== undefined && !event.ctrlKey && !event.metaKey && !event.shiftKey && event.button === 0) { event.preventDefault(); openDialog(target); }
    else if (target.dataset.look !== undefined) {
      event.preventDefault();
      const [name, value] = target.dataset.look.split(":");
      root.dataset[name] = value;
      fetch(target.href, { redirect: "manual" }).catch(() => {});
      for (const other of all(`[data-look^="${name}:"]`)) other.removeAttribute("aria-current");
      target.setAttribute("aria-current", "true");
      zoned();
    }
  });

  // --- keys ---

  const rows = () => all("#main tbody tr, #main .card").filter((row) => row.querySelector("a") && row.offsetParent !== null);
  const problems = () => all("#main .s-dead, #main .s-unknown, #main .s-person").map((glyph) => glyph.closest("tr, .card, li, [data-node]")).filter((one, n, list) => one && list.indexOf(one) === n);
  const step = (list, by, mark) => {
    if (!list.length) return;
    const at = list.indexOf(document.activeElement.closest ? document.activeElement.closest(mark) : null);
    const next = list[Math.min(list.length - 1, Math.max(0, at < 0 ? (by > 0 ? 0 : list.length - 1) : at + by))];
    const link = next.querySelector("a") || next;
    if (!link.hasAttribute("tabindex") && link.tabIndex < 0) link.tabIndex = -1;
    link.focus();
    next.scrollIntoView({ block: "nearest" });
  };
  // in a graph arrows follow the edges, and go up and down among those that stand in one column
  const along = (node, key) => {
    const nodes = all("[data-node]"), named = (name) => nodes.find((one) => one.dataset.node === name);
    const places = new Map(nodes.map((one) => [one, one.getBoundingClientRect()])), here = places.get(node);
    let next = null;
    if (key === "ArrowRight") next = named((node.dataset.to || "").split(" ")[0]);
    else if (key === "ArrowLeft") next = nodes.find((one) => (one.dataset.to || "").split(" ").includes(node.dataset.node));
    else {
      const down = key === "ArrowDown";
      const column = nodes.filter((one) => one !== node && Math.abs(places.get(one).right - here.right) < 40 && (down ? places.get(one).top > here.top : places.get(one).top < here.top));
      next = column.sort((a, b) => Math.abs(places.get(a).top - here.top) - Math.abs(places.get(b).top - here.top))[0];
    }
    if (next) { next.focus(); next.scrollIntoView({ block: "nearest", inline: "nearest" }); }
  };
  let went = 0;
  const follow = (selector) => { const link = document.querySelector(selector); if (link) link.click(); return Boolean(link); };
  const typing = (element) => element && (element.isContentEditable || /^(input|textarea|select)$/i.test(element.nodeName));
  document.addEventListener("keydown", (event) => {
    if (event.defaultPrevented || event.ctrlKey || event.metaKey || event.altKey) return;
    if (event.key === "Escape") {
      if (typing(document.activeElement)) document.activeElement.blur();
      return;
    }
    if (typing(event.target) || dialog.open || root.dataset.keys === "off") return;
    const key = event.key;
    const done = () => event.preventDefault();
    const node = event.target.closest && event.target.closest("[data-node]");
    if (node && key.startsWith("Arrow")) { along(node, key); done(); return; }
    if (Date.now() - went < 1500) {
      went = 0;
      if (follow(`[data-go="${CSS.escape(key)}"]`)) done();
      return;
    }
    if (key === "g") { went = Date.now(); done(); }
    else if (key === "/") { const find = byId("find"); if (find) { find.focus(); find.select(); done(); } }
    else if (key === "f") { const filter = byId("filter") || document.querySelector(".filters a"); if (filter) { filter.focus(); done(); } }
    else if (key === "j" || key === "k") { step(rows(), key === "j" ? 1 : -1, "tr, .card"); done(); }
    else if (key === "n" || key === "N") { step(problems(), key === "n" ? 1 : -1, "tr, .card, li, [data-node]"); done(); }
    else if (key === "y") { const why = byId("why"); if (why) { why.tabIndex = -1; why.focus(); why.scrollIntoView({ block: "nearest" }); done(); } }
    else if (key === "v") { const twin = document.querySelector("[data-twin]"); if (twin) { twin.tabIndex = -1; twin.focus(); twin.scrollIntoView({ block: "start" }); done(); } }
    else if (key === "p") { if (pause && !pause.hidden) { pause.click(); done(); } }
    else if (key === "t") { follow(`[data-look="zone:${root.dataset.zone === "utc" ? "local" : "utc"}"]`); done(); }
    else if (key === "r") { if (follow('#main a[data-act][href^="/do/task.retry"], #main a[data-act][href^="/do/dead.redrive"]')) done(); }
    else if (key === "c") { if (follow('#main a[data-act][href^="/do/task.cancel"]')) done(); }
    else if (key === "[" || key === "]") { if (follow(`a[rel="${key === "[" ? "prev" : "next"}"]`)) done(); }
    else if (key === "x") { const box = document.activeElement.closest && document.activeElement.closest("tr") && document.activeElement.closest("tr").querySelector("input[type=checkbox]"); if (box) { box.click(); done(); } }
    else if (key === "?") { location.href = "/keyboard"; done(); }
  });

  zoned();
  state();
})();
