// Starts the page, shows the screen that the address names, and keeps the header true.

import { reachable } from "./api.js";
import { button, foreign, h, icon } from "./dom.js";
import { hasKey, loadReady, loadSession, loginForm, onRefused, session, signOut } from "./keys.js";
import { isRunning, stopRuns } from "./run.js";
import { lasts, onChange, removeShared } from "./store.js";
import { loadTexts, t, tn } from "./texts.js";
import { languageChoice, themeButton } from "./theme.js";
import { stopSending, unsent } from "./uploads.js";
import { forgetWork, showTitle, watchWork, workBell } from "./work.js";

const main = document.getElementById("main");
// Each screen is a module that is loaded when it is first shown.
const SCREENS = new Map([
  ["chat", () => import("./chat.js")],
  ["literature", () => import("./literature.js")],
  ["articles", () => import("./articles.js")],
  ["library", () => import("./library.js")],
  ["corpora", () => import("./corpora.js")],
  ["reader", () => import("./reader.js")],
  ["status", () => import("./status.js")],
  ["admin", () => import("./admin.js")],
]);
// Screens that the header has under another one.
const PART_OF = new Map([["reader", "library"], ["corpora", "library"], ["articles", "literature"]]);
const IN_HEADER = ["chat", "literature", "library", "status"];
let leave = null;
let turn = 0;
let leaving = false;

async function show() {
  const { name, rest, query } = addressed();
  const mine = (turn += 1);
  let screen;
  try {
    screen = await SCREENS.get(name)();
  } catch {
    if (mine !== turn) return;
    leave?.();
    leave = null;
    unreachable(new Error(t("error.offline")));
    return;
  }
  if (mine !== turn) return;
  leave?.();
  leave = null;
  main.className = `screen-${name}`;
  markHere(name);
  leave = screen.show(main, rest, query) || null;
}

/** Returns the screen that the address names, with what else it says; the chat where it names none. */
function addressed() {
  const [path, query = ""] = location.hash.replace(/^#\/?/, "").split("?");
  const [name, ...rest] = path.split("/").map(decoded);
  if (SCREENS.has(name)) return { name, rest, query: new URLSearchParams(query) };
  if (name) history.replaceState(null, "", "#/chat");
  return { name: "chat", rest: [], query: new URLSearchParams() };
}

function decoded(text) {
  try {
    return decodeURIComponent(text);
  } catch {
    return text;
  }
}

function markHere(name) {
  const place = PART_OF.get(name) || name;
  for (const link of document.querySelectorAll("#nav a")) {
    if (link.dataset.screen === place) {
      link.setAttribute("aria-current", "page");
      // In a narrow window the links scroll.
      link.scrollIntoView({ block: "nearest", inline: "nearest" });
    } else link.removeAttribute("aria-current");
  }
  showTitle(`${t(`nav.${place}`)} · Arrowhead`);
}

function header() {
  document.getElementById("skip").textContent = t("skip");
  document.getElementById("nav").setAttribute("aria-label", t("nav.label"));
  const { may_administer: mayAdminister, needs_key: needsKey } = session.permissions || {};
  const names = mayAdminister && needsKey ? [...IN_HEADER, "admin"] : IN_HEADER;
  document.getElementById("nav").replaceChildren(...names.map((name) => h("a", { href: `#/${name}`, "data-screen": name }, t(`nav.${name}`))));
  const nodes = [workBell(), languageChoice(), themeButton()];
  if (session.permissions) {
    const mode = session.ready?.egress || session.permissions.egress;
    const kind = mode === "off" ? "shield" : "leave";
    nodes.unshift(h("a", { class: "pill", href: "#/status", "aria-label": t(`egress.${mode}.about`), title: t(`egress.${mode}.about`) }, icon(kind), h("span", {}, t(`egress.${mode}`))));
    if (hasKey()) nodes.push(button(t("key.out"), { icon: "key", kind: "out", "aria-label": t("key.out"), title: t("key.out"), onclick: () => (!unsent() || confirm(tn("add.unsent", unsent()))) && out() }));
  }
  document.getElementById("top-end").replaceChildren(...nodes);
}

/** Ends the session; the page begins anew, so that nothing of this person is left in its memory. */
async function out(ended = false) {
  if (leaving) return;
  leaving = true;
  stopRuns();
  stopSending();
  forgetWork();
  main.replaceChildren();
  await signOut(ended).catch(console.error);
  history.replaceState({ ended }, "", location.pathname);
  location.reload();
}

/** Shows a form in place of the screens. */
function askFor(form) {
  turn += 1;
  leave?.();
  leave = null;
  main.className = "";
  // Without a key they lead nowhere.
  document.getElementById("nav").hidden = true;
  main.replaceChildren(form);
}

function entered() {
  document.getElementById("nav").hidden = false;
  if (history.state?.ended) history.replaceState(null, "", location.hash || location.pathname);
  header();
  show();
  watchWork();
}

async function begin() {
  try {
    await loadSession();
    entered();
  } catch (error) {
    if (error.status === 401) {
      removeShared();
      header();
      if (error.code === "first_key_needed") {
        const { setupForm } = await import("./setup.js");
        askFor(setupForm(entered, error.message));
      } else askFor(loginForm(entered, hasKey() ? t("key.wrong") : history.state?.ended ? t("key.ended") : ""));
      if (hasKey()) await signOut(true);
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
header();
onRefused(() => session.permissions && out(true));
// A person who signs out in one tab does so in all.
onChange(({ left }) => left && out());
// A closed tab sends no file, and one whose chats do not outlast it ends its answers.
window.addEventListener("beforeunload", (event) => {
  if (!leaving && (unsent() || (isRunning() && !lasts()))) event.preventDefault();
});
window.addEventListener("language", async () => {
  const written = [...main.querySelectorAll("input[id], textarea[id]")].map(({ id, value, checked }) => ({ id, value, checked }));
  header();
  await (session.permissions ? show() : begin());
  // What was typed and not sent yet stands in the new screen too.
  for (const { id, value, checked } of written) {
    const field = document.getElementById(id);
    if (!field || !main.contains(field) || field.type === "file" || (field.value === value && field.checked === checked)) continue;
    Object.assign(field, { value, checked });
    field.dispatchEvent(new Event("input"));
  }
});
window.addEventListener("hashchange", () => session.permissions && show());
document.getElementById("skip").addEventListener("click", (event) => {
  event.preventDefault();
  main.focus();
});
await begin();
watch();
