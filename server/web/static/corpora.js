// What this server can add to what it knows: literature, tables of look-ups and graphs, each with what it costs and how
// it is added, here where the server can do it by itself, else with the command that does.

import { get, post } from "./api.js";
import { button, foreign, h, outside, plain, webAddress } from "./dom.js";
import { JobItem, follow } from "./fetching.js";
import { card } from "./status.js";
import { t } from "./texts.js";
import { ENDED } from "./work.js";

const LIST = "/v1/admin/collections";
const UNITS = [["day", 86_400], ["hour", 3_600], ["minute", 60], ["second", 1]];

/** Shows the list, with the jobs that add from it. */
export function show(main) {
  const screen = new Corpora(main);
  screen.load();
  return () => screen.controller.abort();
}

class Corpora {
  constructor(main) {
    this.controller = new AbortController();
    this.cards = h("div", { class: "cards" });
    this.problem = h("p", { class: "error-text", role: "alert" });
    this.items = new Map();
    this.measure = button(t("corpora.measure"), { icon: "retry", onclick: () => this.load("?time=true") });
    const head = h("div", { class: "card-head" }, h("h1", {}, t("corpora.title")), this.measure);
    main.replaceChildren(h("div", { class: "page form" }, h("a", { href: "#/library" }, t("nav.library")), head, h("p", { class: "muted" }, t("corpora.about")), this.problem, this.cards));
  }

  async load(query = "") {
    this.measure.disabled = true;
    try {
      const [{ data }, jobs] = await Promise.all([get(LIST + query), get("/v1/jobs")]);
      this.problem.textContent = "";
      for (const job of jobs.data) if (job.kind === "collection" && !ENDED.includes(job.state) && !this.items.has(job.namespace)) this.follow(job);
      this.cards.replaceChildren(...data.map((one) => this.card(one)));
    } catch (error) {
      this.problem.textContent = error.message;
    }
    this.measure.disabled = false;
  }

  card(one) {
    const facts = [
      [t("corpora.size"), foreign(one.size)],
      [t("status.licence"), foreign(one.licence)],
      one.seconds ? [t("corpora.time"), long(one.seconds)] : null,
      [t("fetch.from"), webAddress(one.address) ? outside(one.address, foreign(one.address)) : foreign(one.address)],
      [t("corpora.resume"), foreign(one.resume)],
      one.ready.length ? [t("corpora.ready"), foreign(one.ready.join(", "))] : null,
    ];
    const node = card(one.name, [], facts, plain(one.what));
    const add = button(one.ready.length ? t("library.tab.add") : t("corpora.fetch"), { kind: "primary", "aria-label": `${t("library.tab.add")}: ${one.name}`, onclick: () => this.add(one.name, add) });
    const running = this.items.get(one.name);
    const way = one.obstacle ? [h("p", { class: "small" }, t(`corpora.${one.obstacle}`)), h("p", {}, foreign(one.folder, "code"))] : running && !running.isEnded ? [] : [h("div", { class: "row" }, add)];
    const commands = h("details", {}, h("summary", { class: "muted small" }, t("corpora.command")), one.commands.map((command) => h("p", {}, foreign(command, "code"))));
    const note = one.into === "namespace" ? null : h("p", { class: "muted small" }, t(`corpora.${one.into}`, { name: one.name }));
    node.append(h("div", { class: "form" }, ...way, running ? h("ul", { class: "jobs plain-list" }, running.node) : "", note ?? "", commands));
    return node;
  }

  async add(name, pressed) {
    pressed.disabled = true;
    try {
      this.follow(await post(`${LIST}/${name}`, {}));
      await this.load();
    } catch (error) {
      pressed.disabled = false;
      this.problem.textContent = error.message;
    }
  }

  async follow(job) {
    const item = new JobItem(t("job.collection"), "");
    this.items.set(job.namespace, item);
    await follow(job, item, this.controller.signal);
    item.isEnded = true;
    if (!this.controller.signal.aborted) this.load();
  }
}

/** Returns a long time in its largest unit of which it has at least two. */
function long(time) {
  const [unit, size] = UNITS.find(([, one]) => time >= 2 * one) ?? UNITS.at(-1);
  return new Intl.NumberFormat(document.documentElement.lang, { style: "unit", unit, unitDisplay: "long", maximumFractionDigits: 0 }).format(time / size);
}
