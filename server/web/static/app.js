// Starts the page, shows the screen that the address names, and keeps the header true.

import { reachable } from "./api.js";
import { button, foreign, h, icon } from "./dom.js";
import { hasKey, loadReady, loadSession, loginForm, onRefused, session, signOut } from "./keys.js";
import { loadTexts, t } from "./texts.js";
import { themeButton } from "./theme.js";

const main = document.getElementById("main");
// Each screen is a module that is loaded when it is first shown.
const SCREENS = {
  "": () => import("./chat.js"),
  chat: () => import("./chat.js"),
  literature: () => import("./literature.js"),
  articles: () => import("./articles.js"),
  library: () => import("./library.js"),
  reader: () => import("./reader.js"),
  status: () => import("./status.js"),
};
// Screens that the header has under another one.
const PART_OF = { reader: "library", articles: "literature" };
const IN_HEADER = ["chat", "literature", "library", "status"];
let leave = null;
let turn = 0;

async function show() {
  const [path, query = ""] = location.hash.replace(/^#\/?/, "").split("?");
  const [name, ...rest] = path.split("/").map(decodeURIComponent);
  const mine = (turn += 1);
  const screen = await (SCREENS[name] || SCREENS[""])();
  if (mine !== turn) return;
  leave?.();
  leave = null;
  main.className = `screen-${name || "chat"}`;
  markHere(name || "chat");
  leave = screen.show(main, rest, new URLSearchParams(query)) || null;
}

function markHere(name) {
  const place = PART_OF[name] || name;
  for (const link of document.querySelectorAll("#nav a")) {
    if (link.dataset.screen === place) {
      link.setAttribute("aria-current", "page");
      // In a narrow window the links scroll.
      link.scrollIntoView({ block: "nearest", inline: "nearest" });
    } else link.removeAttribute("aria-current");
  }
  document.title = `${t(`nav.${place}`)} · Arrowhead`;
}

function header() {
  document.getElementById("skip").textContent = t("skip");
  document.getElementById("nav").setAttribute("aria-label", t("nav.label"));
  document.getElementById("nav").replaceChildren(...IN_HEADER.map((name) => h("a", { href: `#/${name}`, "data-screen": name }, t(`nav.${name}`))));
  const nodes = [themeButton()];
  if (session.permissions) {
    const mode = session.ready?.egress || session.permissions.egress;
    const kind = mode === "off" ? "shield" : "leave";
    nodes.unshift(h("a", { class: "pill", href: "#/status", "aria-label": t(`egress.${mode}.about`), title: t(`egress.${mode}.about`) }, icon(kind), h("span", {}, t(`egress.${mode}`))));
    if (hasKey()) nodes.push(button(t("key.out"), { icon: "key", bare: true, onclick: out }));
  }
  document.getElementById("top-end").replaceChildren(...nodes);
}

function out() {
  signOut();
  session.permissions = null;
  header();
  login("");
}

function login(wrong) {
  turn += 1;
  leave?.();
  leave = null;
  main.className = "";
  main.replaceChildren(loginForm(entered, wrong));
}

function entered() {
  header();
  show();
}

async function begin() {
  try {
    await loadSession();
    entered();
  } catch (error) {
    if (error.status === 401) {
      header();
      login(hasKey() ? t("key.wrong") : "");
      if (hasKey()) signOut();
    } else {
      unreachable(error);
    }
  }
}

async function unreachable(error) {
  main.replaceChildren(h("div", { class: "center" }, h("div", { class: "card" }, h("h1", {}, t("away.title")), h("p", {}, foreign(error.message)), h("p", { class: "muted" }, t("away.about")))));
  await reachable(new AbortController().signal);
  begin();
}

function watch() {
  // The header tells the mode, which an operator may change with a restart.
  setInterval(async () => {
    if (!session.permissions || document.hidden) return;
    try {
      const before = session.ready?.egress;
      await loadReady();
      if (before !== session.ready?.egress) header();
    } catch {
      // the screens say so when something is asked for
    }
  }, 60_000);
}

await loadTexts();
window.closeWord = t("close");
header();
onRefused(() => {
  if (!session.permissions) return;
  session.permissions = null;
  signOut();
  header();
  login(t("key.ended"));
});
window.addEventListener("hashchange", () => session.permissions && show());
document.getElementById("skip").addEventListener("click", (event) => {
  event.preventDefault();
  main.focus();
});
await begin();
watch();
