// Deciding by single keys on the page of an approval: each opens what asks once more, none decides.
"use strict";
(() => {
  const KEYS = { a: "approve", x: "reject", m: "ask-back" };
  document.addEventListener("keydown", (event) => {
    const name = KEYS[event.key];
    if (!name || event.defaultPrevented || event.ctrlKey || event.metaKey || event.altKey || event.repeat) return;
    if (document.documentElement.dataset.keys === "off" || document.querySelector("dialog[open]")) return;
    if (event.target.isContentEditable || /^(input|textarea|select)$/i.test(event.target.nodeName)) return;
    const link = document.querySelector(`#main a[data-act][href^="/do/approval.${name}/"]`);
    if (!link) return;
    event.preventDefault();
    link.click();
  });
})();
