// Makes elements. Text is only ever set as text; HTML comes in at `rendered` alone, from the server's sanitizer.

const policy = window.trustedTypes
  ? window.trustedTypes.createPolicy("rendered", { createHTML: (html) => html })
  : { createHTML: (html) => html };

/** Returns an element. `on…` properties are listeners, `class` and others attributes; null children are left out. */
export function h(tag, properties = {}, ...children) {
  const node = document.createElement(tag);
  for (const [name, value] of Object.entries(properties)) {
    if (value === null || value === undefined || value === false) continue;
    if (name.startsWith("on")) node.addEventListener(name.slice(2), value);
    else if (name === "value" || name === "checked" || name === "disabled" || name === "hidden" || name === "open") node[name] = value;
    else node.setAttribute(name, value === true ? "" : value);
  }
  node.append(...children.flat(Infinity).filter((child) => child !== null && child !== undefined && child !== false));
  return node;
}

/** Returns an element of SVG. */
export function s(tag, properties = {}, ...children) {
  const node = document.createElementNS("http://www.w3.org/2000/svg", tag);
  for (const [name, value] of Object.entries(properties)) {
    if (name.startsWith("on")) node.addEventListener(name.slice(2), value);
    else node.setAttribute(name, value);
  }
  node.append(...children);
  return node;
}

/** Puts HTML of POST /v1/render into an element. The only place that sets markup. */
export function setRendered(node, html) {
  node.innerHTML = policy.createHTML(html);
}

// Text of others can hold characters that turn the direction of what stands around them.
const BIDI = /[\u202a-\u202e\u2066-\u2069]/g;

/** Returns text of a model, a document or NCBI, isolated from the text around it. */
export function foreign(text, tag = "bdi", properties = {}) {
  return h(tag, { dir: "auto", ...properties }, plain(text));
}

/** Returns text without characters that turn its direction. */
export function plain(text) {
  return String(text ?? "").replace(BIDI, "\ufffd");
}

/** Returns a text as a pattern that matches it literally. */
export function literally(text) {
  return text.replace(/[\\^$.*+?()[\]{}|/]/g, "\\$&");
}

/** Returns an address if it leads to a web page, else null. */
export function webAddress(url) {
  return /^https?:\/\//i.test(url || "") ? url : null;
}

/** Returns a link to another site, or its text where the address is none. */
export function outside(url, ...children) {
  const href = webAddress(url);
  if (!href) return h("span", {}, ...children);
  return h("a", { href, target: "_blank", rel: "noopener noreferrer nofollow" }, ...children);
}

const PATHS = {
  bell: "M6 16V11a6 6 0 0 1 12 0v5l1.5 2h-15zM10 20.5h4",
  send: "M12 19V5M5 12l7-7 7 7",
  stop: "M7 7h10v10H7z",
  plus: "M12 5v14M5 12h14",
  close: "M6 6l12 12M18 6L6 18",
  menu: "M4 7h16M4 12h16M4 17h16",
  chevron: "M6 9l6 6 6-6",
  copy: "M9 9h10v11H9zM5 15V4h10",
  retry: "M4 12a8 8 0 1 0 2.5-5.8M4 4v4h4",
  edit: "M4 20h4L19 9l-4-4L4 16zM13 7l4 4",
  check: "M5 12.5l4.5 4.5L19 7.5",
  warn: "M12 4l9 16H3zM12 10v4M12 17v.5",
  info: "M12 21a9 9 0 1 1 0-18 9 9 0 0 1 0 18M12 11v5M12 8v.5",
  shield: "M12 3l7 3v5c0 5-3 8-7 10-4-2-7-5-7-10V6zM9 12l2 2 4-4",
  leave: "M12 3l7 3v5c0 5-3 8-7 10-4-2-7-5-7-10V6zM10 14l4-4M10.5 10H14v3.5",
  key: "M14 10a4 4 0 1 1-1-2.6L21 7v3h-2v2h-3l-2-2",
  download: "M12 4v11M7 11l5 5 5-5M5 20h14",
  upload: "M12 16V5M7 9l5-5 5 5M5 20h14",
  trash: "M5 7h14M10 7V4h4v3M7 7l1 13h8l1-13",
  search: "M10.5 17a6.5 6.5 0 1 1 0-13 6.5 6.5 0 0 1 0 13M15.5 15.5L20 20",
  doc: "M7 3h7l4 4v14H7zM14 3v4h4M10 12h5M10 16h5",
  list: "M8 6h12M8 12h12M8 18h12M4 6h.5M4 12h.5M4 18h.5",
  graph: "M6 8a2 2 0 1 0 0-4 2 2 0 0 0 0 4M18 10a2 2 0 1 0 0-4 2 2 0 0 0 0 4M9 20a2 2 0 1 0 0-4 2 2 0 0 0 0 4M8 6.3l8 1.3M7 8l1.6 8M10.5 16.6L16.6 9.5",
  theme: "M12 3a9 9 0 1 0 9 9c-5 2-11-4-9-9",
  sliders: "M4 8h10M18 8h2M4 16h2M10 16h10M14 8a2 2 0 1 0 4 0 2 2 0 0 0-4 0M6 16a2 2 0 1 0 4 0 2 2 0 0 0-4 0",
  open: "M14 5h5v5M19 5l-8 8M11 6H5v13h13v-6",
  left: "M15 6l-6 6 6 6",
  right: "M9 6l6 6-6 6",
};

/** Returns a line icon, invisible to screen readers. */
export function icon(name) {
  return s("svg", { viewBox: "0 0 24 24", class: "icon", "aria-hidden": "true", focusable: "false" }, s("path", { d: PATHS[name] }));
}

/** Returns a button with an icon and, unless `bare`, its words. */
export function button(label, { icon: name, bare = false, kind = "", ...rest } = {}) {
  const more = bare ? { "aria-label": label, title: label } : {};
  return h("button", { type: "button", class: `button ${kind} ${bare ? "bare" : ""}`.trim(), ...more, ...rest }, name ? icon(name) : null, bare ? null : h("span", {}, label));
}

/** Returns a frame that scrolls by itself, also by keyboard. */
export function scrolled(label, ...children) {
  return h("div", { class: "scroll", tabindex: "0", role: "region", "aria-label": label }, children);
}

/** Returns why something cannot be shown. */
export function problem(error) {
  return h("div", { class: "problem", role: "alert" }, icon("warn"), h("p", {}, foreign(error.message)));
}

/** Does `work` when a form is sent; what goes wrong stands in the node `error`. The form's button waits for it. */
export function onSubmit(form, work, error) {
  form.addEventListener("submit", async (event) => {
    event.preventDefault();
    const go = error && event.submitter;
    if (error) error.textContent = "";
    if (go) go.disabled = true;
    try {
      await work();
    } catch (problem) {
      if (!error) throw problem;
      error.textContent = problem.message;
    } finally {
      if (go) go.disabled = false;
    }
  });
}

/** Tells screen readers, once. */
export function announce(text) {
  document.getElementById("live").textContent = text;
}

/** Shows a short message at the edge of the page, for some seconds. */
export function toast(text, kind = "", shownMs = 6000) {
  const node = h("div", { class: `toast ${kind}` }, text);
  document.getElementById("toasts").append(node);
  setTimeout(() => node.remove(), shownMs);
}

/** Opens a dialog that returns the focus when it is closed; returns it. */
export function dialog(title, body, { wide = false, side = false, onclose = null } = {}) {
  const before = document.activeElement;
  const head = h("h2", { id: `d${Date.now()}` }, title);
  const node = h(
    "dialog",
    { class: `dialog ${wide ? "wide" : ""} ${side ? "side" : ""}`, "aria-labelledby": head.id },
    h("div", { class: "dialog-head" }, head, button(window.closeWord || "Close", { icon: "close", bare: true, onclick: () => node.close() })),
    h("div", { class: "dialog-body", tabindex: "-1" }, body),
  );
  node.addEventListener("click", (event) => event.target === node && node.close());
  node.addEventListener("close", () => {
    node.remove();
    if (before?.isConnected) before.focus();
    onclose?.();
  });
  document.body.append(node);
  node.showModal();
  return node;
}

/** Returns tabs with their panels: [{label, make}], made when first shown. */
export function tabs(label, entries) {
  const panel = h("div", { role: "tabpanel", class: "tab-panel", tabindex: "0" });
  const made = new Map();
  const buttons = entries.map((entry, place) =>
    h("button", { type: "button", role: "tab", class: "tab", onclick: () => show(place), onkeydown: (event) => move(event, place) }, entry.label),
  );
  function show(place) {
    buttons.forEach((one, at) => {
      one.setAttribute("aria-selected", String(at === place));
      one.tabIndex = at === place ? 0 : -1;
    });
    if (!made.has(place)) made.set(place, entries[place].make());
    panel.replaceChildren(made.get(place));
    panel.setAttribute("aria-label", entries[place].label);
  }
  function move(event, place) {
    const step = { ArrowRight: 1, ArrowLeft: -1 }[event.key];
    if (!step) return;
    const next = (place + step + buttons.length) % buttons.length;
    show(next);
    buttons[next].focus();
  }
  show(0);
  return h("div", { class: "tabs" }, h("div", { role: "tablist", class: "tab-list", "aria-label": label }, buttons), panel);
}

/** Returns how numbers and dates are written: as in the reader's country where its language is that of the page. */
function language() {
  const { lang } = document.documentElement;
  return navigator.languages.find((one) => one.split("-")[0] === lang) ?? lang;
}

export function bytes(number) {
  const units = ["byte", "kilobyte", "megabyte", "gigabyte"];
  let place = 0;
  while (number >= 1000 && place < 3) {
    number /= 1000;
    place += 1;
  }
  const digits = number < 10 && place ? 1 : 0;
  return new Intl.NumberFormat(language(), { style: "unit", unit: units[place], minimumFractionDigits: digits, maximumFractionDigits: digits }).format(number);
}

export function seconds(number) {
  const written = (value, digits = 0) => new Intl.NumberFormat(language(), { minimumFractionDigits: digits, maximumFractionDigits: digits }).format(value);
  return number < 0.0995 ? `${written(number * 1000)} ms` : number < 10 ? `${written(number, 1)} s` : `${written(number)} s`;
}

export function count(number) {
  return new Intl.NumberFormat(language()).format(number);
}

/** Returns the day of a time in milliseconds. */
export function day(time) {
  return new Intl.DateTimeFormat(language(), { dateStyle: "medium" }).format(time);
}

/** Returns the day and the time of day. */
export function moment(time) {
  return new Intl.DateTimeFormat(language(), { dateStyle: "medium", timeStyle: "short" }).format(time);
}

export function save(name, type, text) {
  const link = h("a", { href: URL.createObjectURL(new Blob([text], { type })), download: name });
  link.click();
  setTimeout(() => URL.revokeObjectURL(link.href), 10_000);
}
