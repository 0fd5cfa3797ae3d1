// The bell in the header: long work that goes on at the server, and what is ready. Work goes on when the page is left or
// reloaded; the title of the page counts what is ready and was not looked at.

import { get, send } from "./api.js";
import { button, dialog, foreign, h, icon } from "./dom.js";
import { t, tn } from "./texts.js";

const EVERY_MS = 3000;
const FIRST_MS = 1500;
const SHOWN = 20;
// The time of the newest end when the list was last looked at, on the server's clock; what ended before is no news.
const LOOKED = "arrowhead-looked";
export const ENDED = ["done", "failed", "cancelled"];
// Where what became of a job is shown; a namespace by its name.
const PLACES = { review: "literature", review_columns: "literature", collection: "corpora" };

let jobs = [];
let answers = [];
// Jobs whose end their reader has seen on its screen.
const seen = new Set();
let timer = 0;
let title = "";
let open = null;
const bell = button("", { icon: "bell", bare: true, kind: "bell", hidden: true, onclick: show });
const badge = h("span", { class: "bell-count", "aria-hidden": "true" });
bell.append(badge);

/** Returns the bell, which is hidden as long as there is no work. */
export function workBell() {
  return bell;
}

/** Sets the title of the page behind the number of what is ready. */
export function showTitle(text) {
  title = text;
  const number = ready();
  document.title = number ? `(${number}) ${title}` : title;
}

/** Looks for work of this key, and again while there is some. */
export function watchWork() {
  look(FIRST_MS);
}

/** Forgets what was shown of the key that signs out. */
export function forgetWork() {
  clearTimeout(timer);
  [jobs, answers] = [[], []];
  draw();
}

let begun = false;

function look(after) {
  clearTimeout(timer);
  timer = setTimeout(async () => {
    try {
      jobs = (await get("/v1/jobs")).data.slice(0, SHOWN);
      // What was there at the first look is no news; without any, nothing is kept of a key that may have signed out.
      if (!begun && newest() && localStorage.getItem(LOOKED) === null) localStorage.setItem(LOOKED, String(newest()));
      begun = true;
    } catch {
      // A server that is away: the screens say so.
    }
    draw();
    if (running().length) look(EVERY_MS);
  }, after);
}

const running = () => jobs.filter((job) => !ENDED.includes(job.state));
const newest = () => Math.max(0, ...jobs.map((job) => job.finished ?? 0));
const news = () => jobs.filter((job) => ENDED.includes(job.state) && job.finished > Number(localStorage.getItem(LOOKED)) && !seen.has(job.id));
const ready = () => news().length + answers.length;
const placeOf = (job) => `#/${PLACES[job.kind] ?? "library"}/${encodeURIComponent(job.namespace)}`;
// What ends before the eyes of its reader needs no bell.
const isShown = (job) => !document.hidden && location.hash === placeOf(job);

function draw() {
  for (const job of jobs) if (ENDED.includes(job.state) && isShown(job)) seen.add(job.id);
  const [number, ends] = [running().length, ready()];
  const words = [number ? tn("work.running", number) : "", ends ? tn("work.ready", ends) : ""].filter(Boolean).join(", ") || t("work.title");
  bell.hidden = !jobs.length && !answers.length;
  bell.setAttribute("aria-label", words);
  bell.title = words;
  bell.classList.toggle("busy", number > 0);
  bell.classList.toggle("ready", ends > 0);
  badge.textContent = ends || number || "";
  showTitle(title);
  open?.();
}

async function show() {
  const { JobItem } = await import("./fetching.js");
  const names = await namesOf();
  const items = new Map();
  const list = h("ul", { class: "jobs plain-list" });
  const update = () => {
    for (const job of jobs) {
      let item = items.get(job.id);
      if (!item) {
        item = new JobItem(`${t(`job.${job.kind}`)} · ${names.get(job.namespace) ?? job.namespace}`, "");
        items.set(job.id, item);
        list.append(item.node);
        if (ENDED.includes(job.state)) item.end(job);
        else item.cancellable(() => send(`/v1/jobs/${job.id}`, { method: "DELETE" }));
        item.node.append(h("a", { class: "small", href: placeOf(job) }, t("work.open")));
        item.isEnded = ENDED.includes(job.state);
      } else if (!item.isEnded && ENDED.includes(job.state)) {
        item.isEnded = true;
        item.end(job);
      }
      if (!item.isEnded) item.show(job);
    }
  };
  const told = answers.map((turn) => h("li", { class: "job" }, foreign(turn.question, "span", { class: "job-name" }), h("a", { class: "small", href: `#/chat/${turn.chat}` }, t("work.open"))));
  const box = dialog(t("work.title"), [told.length ? h("ul", { class: "jobs plain-list" }, told) : null, list].filter(Boolean), { onclose: () => { open = null; } });
  box.addEventListener("click", (event) => event.target.closest("a") && box.close());
  update();
  open = update;
  answers = [];
  localStorage.setItem(LOOKED, String(newest()));
  draw();
}

/** Returns how people know what jobs work on: questions of reviews, titles of collections. */
async function namesOf() {
  const listed = async (path) => (await get(path).catch(() => ({ data: [] }))).data;
  const [reviews, namespaces] = await Promise.all([listed("/v1/reviews?limit=100"), listed("/v1/namespaces")]);
  return new Map([...reviews.map((one) => [one.id, one.question]), ...namespaces.map((one) => [one.name, one.title || one.name])]);
}

/** Returns the time that is left, in words. */
export function leftOf(seconds) {
  return seconds < 90 ? t("add.eta", { n: Math.max(1, Math.ceil(seconds)) }) : t("add.eta_minutes", { n: Math.round(seconds / 60) });
}

// A request has begun a job.
window.addEventListener("work", () => look(0));
// An answer is there; one that its reader sees needs no bell.
window.addEventListener("answered", ({ detail: turn }) => {
  if (!document.hidden && location.hash.endsWith(turn.chat)) return;
  answers.push(turn);
  draw();
});
window.addEventListener("hashchange", () => {
  answers = answers.filter((turn) => !location.hash.endsWith(turn.chat));
  if (jobs.length) draw();
});
document.addEventListener("visibilitychange", () => !document.hidden && jobs.length && look(0));
