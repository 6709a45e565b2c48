// What the tests ask of a page, in the page. Each function returns plain values; an empty list means nothing is wrong.

const named = (element) => {
  const text = (element.textContent || element.value || "").trim().replace(/\s+/g, " ").slice(0, 40);
  const id = element.id ? `#${element.id}` : "";
  const kinds = typeof element.className === "string" && element.className ? `.${element.className.trim().replace(/\s+/g, ".")}` : "";
  return `<${element.nodeName.toLowerCase()}${id}${kinds}> ${text}`;
};
const visible = (element) => element.checkVisibility({ visibilityProperty: true }) && !element.closest("[inert]");
const INTERACTIVE = "a[href], button, input:not([type=hidden]), select, textarea, summary, [tabindex]";
const interactive = () => [...document.querySelectorAll(INTERACTIVE)].filter((one) => visible(one) && !one.disabled && one.tabIndex >= 0);
// what only a screen reader or the keyboard reaches is drawn one pixel large, off the page
const drawn = (element) => { const box = element.getBoundingClientRect(); return box.width > 1 && box.height > 1; };

// --- form ---

const form = () => ({
  h1: document.querySelectorAll("h1").length,
  title: document.title,
  lang: document.documentElement.lang,
  banner: document.querySelectorAll("body > header").length,
  main: document.querySelectorAll("main").length,
  footer: document.querySelectorAll("body > footer").length,
});
const content = () => ({
  h1: document.querySelector("h1").textContent.trim().length > 0,
  characters: document.querySelector("main").innerText.trim().length,
  ways: document.querySelectorAll("main a[href], main form button").length,
});

// --- sizes ---

const tooWide = () => {
  const root = document.documentElement;
  if (root.scrollWidth <= innerWidth) return [];
  const inBox = (element) => {
    for (let at = element.parentElement; at && at !== document.body; at = at.parentElement)
      if (getComputedStyle(at).overflowX !== "visible") return true;
    return false;
  };
  const beyond = [...document.body.querySelectorAll("*")].filter((one) => visible(one) && one.getBoundingClientRect().right > innerWidth + 0.5 && !inBox(one));
  return [`the page is ${root.scrollWidth} px wide in a window of ${innerWidth}`, ...beyond.slice(0, 10).map(named)];
};

// WCAG 2.2, 2.5.8: 24 px, unless it stands in a line of text, or nothing else is within the 24 px around its middle.
const tooSmall = () => {
  const LEAST = 23.5;
  const targets = interactive().filter((one) => drawn(one) && (one.matches("a, button, input, select, textarea, summary")));
  const boxes = new Map(targets.map((one) => [one, one.getBoundingClientRect()]));
  const inline = (one) => getComputedStyle(one).display === "inline" && [...one.parentElement.childNodes].some((node) => node.nodeType === 3 && node.nodeValue.trim());
  const small = (box) => box.width < LEAST || box.height < LEAST;
  const apart = (one) => {
    const box = boxes.get(one), x = box.left + box.width / 2, y = box.top + box.height / 2;
    return targets.every((other) => {
      if (other === one || other.contains(one) || one.contains(other)) return true;
      const its = boxes.get(other);
      if (small(its)) return Math.hypot(its.left + its.width / 2 - x, its.top + its.height / 2 - y) >= LEAST;
      const dx = Math.max(its.left - x, 0, x - its.right), dy = Math.max(its.top - y, 0, y - its.bottom);
      return Math.hypot(dx, dy) >= LEAST / 2;
    });
  };
  return targets.filter((one) => small(boxes.get(one)) && !inline(one) && !apart(one)).map((one) => `${named(one)} is ${Math.round(boxes.get(one).width)} by ${Math.round(boxes.get(one).height)} px`);
};

// --- movement, colours ---

const moving = () => {
  const found = document.getAnimations().filter((one) => one.playState === "running").map((one) => named(one.effect.target));
  if (getComputedStyle(document.documentElement).scrollBehavior === "smooth") found.push("smooth scrolling");
  return found;
};
const wordless = () => [...document.querySelectorAll(".glyph")].filter(visible).filter((glyph) => {
  const around = glyph.parentElement;
  return !around.textContent.trim();
}).map((glyph) => named(glyph.parentElement));
const unseen = () => {
  const ground = (element) => {
    for (let at = element; at; at = at.parentElement) {
      const colour = getComputedStyle(at).backgroundColor;
      if (colour !== "rgba(0, 0, 0, 0)") return colour;
    }
    return "rgb(255, 255, 255)";
  };
  return [...document.querySelectorAll(".glyph")].filter(visible).filter((glyph) => getComputedStyle(glyph).color === ground(glyph)).map(named);
};

// --- keyboard ---

const listen = () => {
  const expected = interactive().filter((one) => one.type !== "radio" || one.checked || !document.querySelector(`input[name="${CSS.escape(one.name)}"]:checked`));
  window.tabbed = { expected, reached: new Set(), unmarked: [] };
  addEventListener("focusin", (event) => {
    window.tabbed.reached.add(event.target);
    const style = getComputedStyle(event.target);
    const outlined = style.outlineStyle !== "none" && parseFloat(style.outlineWidth) >= 1;
    if (!outlined && !window.tabbed.unmarked.includes(event.target)) window.tabbed.unmarked.push(event.target);
  });
  return expected.length;
};
const unreached = () => window.tabbed.expected.filter((one) => one.isConnected && visible(one) && !window.tabbed.reached.has(one)).map(named);
// what has no outline of its own must show its focus on a part of it
const unmarked = () => window.tabbed.unmarked.filter((one) => one.isConnected).filter((one) => {
  const look = () => JSON.stringify([one, ...one.querySelectorAll("*")].map((part) => { const s = getComputedStyle(part); return [s.stroke, s.strokeWidth, s.outline, s.boxShadow, s.backgroundColor, s.fill]; }));
  one.blur();
  const without = look();
  one.focus({ focusVisible: true });
  return look() === without;
}).map(named);
const focused = () => { const at = document.activeElement; return { name: named(at), inMain: Boolean(at.closest("main")), skip: at.matches(".skip"), drawn: drawn(at) }; };

// --- what is hostile ---

const injected = () => {
  const found = [];
  for (const one of document.querySelectorAll("script")) if (!one.src.startsWith(`${location.origin}/static/`) || one.textContent) found.push(named(one));
  for (const one of document.querySelectorAll("img, iframe, object, embed, base, style, link[rel=stylesheet]:not([href^='/static/'])")) found.push(named(one));
  for (const one of document.querySelectorAll("*"))
    for (const { name, value } of one.attributes)
      if (name.startsWith("on") || /^\s*(javascript|data):/i.test(value)) found.push(`${named(one)} ${name}=${value.slice(0, 40)}`);
  return found;
};
// a text that turns the direction must not turn what stands behind it in the same line
const unisolated = () => {
  const found = [];
  const walker = document.createTreeWalker(document.body, NodeFilter.SHOW_TEXT);
  for (let node = walker.nextNode(); node; node = walker.nextNode()) {
    if (!/[\u202a-\u202e\u2066-\u2069]/.test(node.nodeValue) || !visible(node.parentElement)) continue;
    const { display, unicodeBidi } = getComputedStyle(node.parentElement);
    const alone = [...node.parentElement.childNodes].every((other) => other === node || !other.textContent.trim());
    const isolates = unicodeBidi.includes("isolate") || (display !== "inline" && alone);
    if (!isolates) found.push(named(node.parentElement));
  }
  return found;
};
