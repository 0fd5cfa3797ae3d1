// Articles for a text (`query #n`): a list to choose from, then summaries of the chosen, with their passages.

import { AnswerView } from "./answer.js";
import { get } from "./api.js";
import { isAble } from "./composer.js";
import { announce, button, count, day, foreign, h, icon, onSubmit, outside, plain } from "./dom.js";
import { modelOf } from "./keys.js";
import { kindChoice, subnav } from "./literature.js";
import { begin, newTurn, runOf, takeUp, tell } from "./run.js";
import { SourcePanel, fileOf } from "./sources.js";
import { getChat, getTurns, listChats, newId, putChat } from "./store.js";
import { t, titleOf, tn } from "./texts.js";

const EARLIER = 20;

/** Shows the form, and an earlier list where one is named. */
export function show(main, [id]) {
  const screen = new Articles(main);
  screen.open(id);
  return () => screen.left.abort();
}

class Articles {
  constructor(main) {
    this.model = modelOf("weiseeule");
    this.left = new AbortController();
    this.run = null;
    this.panel = new SourcePanel();
    this.chosen = new Set();
    this.found = h("div", { class: "review" });
    this.summaries = h("div", { class: "review" });
    this.form = this.makeForm();
    this.earlier = h("div", {});
    const head = h("div", { class: "page-head" }, h("h1", {}, t("articles.title")), h("p", { class: "lead" }, t("articles.lead")));
    this.page = h("div", { class: "page literature" }, subnav("articles"), head, this.form, this.found, this.summaries, this.earlier);
    main.replaceChildren(h("div", { class: "with-panel" }, h("div", { class: "page-scroll" }, this.page), this.panel.node));
  }

  async open(id) {
    if (!this.model || !isAble(this.model)) {
      this.form.replaceWith(h("div", { class: "problem" }, icon("info"), h("p", {}, t(this.model ? "method.unable" : "articles.missing"))));
      return;
    }
    this.showPlaces();
    const chat = id && (await getChat(id));
    if (chat) {
      this.chat = chat;
      const [first, ...others] = (await getTurns(id)).map((turn) => runOf(turn)?.turn ?? turn);
      this.count = 1 + others.length;
      if (first) this.goOn(first, this.found);
      for (const turn of others) this.goOn(turn, this.summaries);
    }
    this.showEarlier();
  }

  /** Shows a turn; one that had not ended when this screen, or the page, was left goes on. */
  async goOn(turn, place) {
    if (turn.place === 0 && turn.state !== "running") {
      this.showList(turn);
      return;
    }
    const view = this.view(turn);
    place.prepend(view.node);
    if (turn.state !== "running") return;
    const run = runOf(turn) ?? (await takeUp(turn, messages, view, this.left.signal));
    if (run) await this.wait(run, view);
    else await view.finish();
    if (turn.place === 0 && turn.state === "done") this.showList(turn);
  }

  makeForm() {
    this.field = h("textarea", { class: "text", id: "a-text", rows: 3, required: true, maxlength: 20000, placeholder: t("articles.placeholder"), dir: "auto" });
    this.part = h("input", { type: "number", id: "a-part", min: 0, max: 999, "aria-describedby": "a-part-about" });
    this.place = h("select", { id: "a-place" }, h("option", { value: "" }, t("articles.everywhere")));
    this.from = h("input", { type: "date", id: "a-from" });
    this.to = h("input", { type: "date", id: "a-to" });
    this.kind = kindChoice("a-kind");
    this.go = button(t("articles.go"), { icon: "search", kind: "primary", type: "submit" });
    this.halt = button(t("ask.stop"), { icon: "stop", onclick: () => this.run?.controller.abort(), hidden: true });
    const more = h(
      "details",
      { class: "more" },
      h("summary", {}, t("articles.more")),
      h("div", { class: "fields" }, field("a-place", "articles.place", this.place), field("a-from", "fetch.from", this.from), field("a-to", "fetch.to", this.to), field("a-kind", "literature.kind", this.kind), field("a-part", "articles.part", this.part)),
      h("p", { class: "muted small", id: "a-part-about" }, t("articles.part.about")),
    );
    const form = h("form", { class: "card form" }, field("a-text", "articles.text", this.field), more, h("div", { class: "row" }, this.go, this.halt));
    onSubmit(form, () => this.find());
    return form;
  }

  async showPlaces() {
    try {
      this.place.append(...(await get("/v1/namespaces")).data.map((one) => h("option", { value: one.name }, plain(titleOf(one)))));
    } catch {
      // everywhere is left to choose
    }
  }

  async showEarlier() {
    const found = (await listChats()).filter((chat) => chat.screen === "articles").slice(0, EARLIER);
    const items = found.map((chat) => h("li", {}, h("a", { href: `#/articles/${chat.id}` }, foreign(chat.title)), h("span", { class: "muted small" }, ` · ${day(chat.updated)}`)));
    this.earlier.replaceChildren(...(items.length ? [h("h2", { class: "label" }, t("articles.earlier")), h("ul", { class: "plain-list" }, items)] : []));
  }

  options() {
    return { recommend: true, ...(this.place.value && { namespaces: [this.place.value] }), ...(this.from.value && { date_from: this.from.value }), ...(this.to.value && { date_to: this.to.value }), ...(this.kind.value && { types: [this.kind.value] }) };
  }

  async find() {
    const text = this.field.value.trim();
    if (!text || this.run) return;
    const question = this.part.value === "" ? text : `${text} #${this.part.value}`;
    this.chat = { id: newId(), title: text.slice(0, 120), created: Date.now(), updated: Date.now(), model: this.model.id, screen: "articles" };
    this.count = 0;
    this.summaries.replaceChildren();
    await putChat(this.chat);
    const turn = newTurn(this.chat.id, 0, question, this.model, this.options());
    const run = await begin(turn, messages, (one) => this.view(one));
    this.found.replaceChildren(run.view.node);
    history.replaceState(null, "", `#/articles/${this.chat.id}`);
    announce(t("live.working"));
    await this.wait(run, run.view);
    if (turn.state === "done") this.showList(turn);
    this.showEarlier();
  }

  async wait(run, view) {
    Object.assign(run, { view });
    this.setRun(run);
    await run.ended;
    this.setRun(null);
    this.count = Math.max(this.count, run.turn.place + 1);
    await view.finish();
    if (run.view === view) tell(run.turn);
  }

  setRun(run) {
    this.run = run;
    this.go.disabled = run !== null;
    this.halt.hidden = run === null;
  }

  view(turn) {
    const edit = () => {
      this.field.value = turn.question.replace(/\s#\d{1,3}$/, "");
      this.field.focus();
    };
    return new AnswerView(turn, { retry: () => (turn.place ? this.summarise(turn.options.articles) : (edit(), this.find())), edit, source: (number) => this.panel.show(turn, number) });
  }

  /** Shows the articles that were found, with boxes to choose some; an answer without any as it is. */
  showList(turn) {
    const articles = turn.trace?.details?.articles || [];
    if (!articles.length) {
      this.found.replaceChildren(this.view(turn).node);
      return;
    }
    this.chosen.clear();
    const told = h("p", { class: "muted small", role: "status" });
    const go = button(t("articles.summarise"), { icon: "list", kind: "primary", onclick: () => this.summarise([...this.chosen]) });
    const ask = button(t("articles.ask"), { icon: "send", onclick: () => this.ask(turn) });
    const show = () => {
      told.textContent = articles.some((one) => pmidOf(one)) ? tn("articles.chosen", this.chosen.size) : t("articles.none_has_pmid");
      go.disabled = ask.disabled = !this.chosen.size;
    };
    const items = articles.map((one) => this.item(one, show));
    show();
    const where = turn.content.split("\n")[0].replace(/:$/, "");
    this.turn = turn;
    this.found.replaceChildren(
      h("section", { class: "form", "aria-label": t("articles.found") }, h("h2", {}, foreign(turn.question)), h("p", { class: "muted small" }, foreign(where)), h("ol", { class: "articles" }, items), h("div", { class: "row" }, go, ask, told)),
    );
  }

  item(one, changed) {
    const pmid = pmidOf(one);
    const box = h("input", { type: "checkbox", id: `a-${one.number}`, disabled: !pmid, "aria-label": t("articles.choose", { title: plain(one.title).slice(0, 120) }), title: pmid ? null : t("articles.no_pmid") });
    box.addEventListener("change", () => {
      if (box.checked) this.chosen.add(pmid);
      else this.chosen.delete(pmid);
      changed();
    });
    const year = one.date ? String(Math.floor(one.date / 10_000)) : "";
    const facts = [one.journal, year, (one.types || [])[0], pmid ? `PMID ${pmid}` : fileOf(one.file)].filter(Boolean).join(" · ");
    const lines = one.sentences.map((line) => h("p", { class: "quote" }, foreign(one.by_model ? line : `“${line}”`)));
    return h("li", { class: "article" }, box, h("div", {}, h("p", { class: "article-title" }, outside(one.address, foreign(one.title || one.document_id))), h("p", { class: "muted small" }, foreign(facts)), lines));
  }

  async summarise(articles) {
    if (this.run || !articles?.length) return;
    const first = this.turn || (await getTurns(this.chat.id))[0];
    const turn = newTurn(this.chat.id, this.count, first.question, this.model, { ...first.options, articles });
    await putChat(Object.assign(this.chat, { updated: Date.now() }));
    const run = await begin(turn, messages, (one) => this.view(one));
    this.summaries.prepend(run.view.node);
    run.view.node.scrollIntoView({ block: "start" });
    announce(t("live.working"));
    await this.wait(run, run.view);
  }

  /** Goes on in the chat, with a question on the chosen articles to be written. */
  ask(turn) {
    const { namespaces } = turn.options;
    const options = { articles: [...this.chosen], ...(namespaces && { namespaces }) };
    sessionStorage.setItem("ask", JSON.stringify({ text: "", method: "weiseeule", options }));
    announce(t("articles.asking", { n: count(this.chosen.size) }));
    location.hash = "#/chat";
  }
}

const pmidOf = (one) => /^PMID:(\d+)$/.exec(one.paper)?.[1];
const messages = (turn) => [{ role: "user", content: turn.question }];

function field(id, label, node) {
  return h("div", { class: "field" }, h("label", { for: id }, t(label)), node);
}
