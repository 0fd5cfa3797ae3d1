// A review of the literature: the question, PRISMA's counts while it runs, the answer, and the table of evidence.

import { AnswerView } from "./answer.js";
import { send } from "./api.js";
import { announce, button, count, day, foreign, h, icon, outside, plain, save, toast } from "./dom.js";
import { isAble } from "./composer.js";
import { modelOf, session } from "./keys.js";
import { begin, keep, newTurn, runOf, takeUp, tell } from "./run.js";
import { SourcePanel } from "./sources.js";
import { getChat, getTurns, listChats, newId, putChat } from "./store.js";
import { t, tn } from "./texts.js";

const FLOW = ["found", "duplicates", "left_out", "missing", "screened", "excluded", "included", "cited"];
// Shown dashed, as they leave the flow; the last two only where there are any.
const OUT = new Set(["duplicates", "excluded", "left_out", "missing"]);
const RARE = new Set(["left_out", "missing"]);
// Kinds of article by their keys in the catalogue, as PubMed names them.
const KINDS = { trial: "Randomized Controlled Trial", meta: "Meta-Analysis", systematic: "Systematic Review", review: "Review", guideline: "Practice Guideline" };
const FIXED = ["number", "title", "level"];
const CELLS = ["population", "design", "sample_size", "result", "risk_of_bias"];

/** Shows the form, and a review where one is named. */
export function show(main, [id]) {
  const screen = new Literature(main);
  screen.open(id);
  return () => screen.left.abort();
}

class Literature {
  constructor(main) {
    this.model = modelOf("clinfo");
    this.left = new AbortController();
    this.panel = new SourcePanel();
    this.out = h("div", { class: "review" });
    this.form = this.makeForm();
    this.earlier = h("div", {});
    this.page = h("div", { class: "page literature" }, subnav("literature"), h("div", { class: "page-head" }, h("h1", {}, t("nav.literature")), h("p", { class: "lead" }, t("literature.lead"))), this.form, this.out, this.earlier);
    main.replaceChildren(h("div", { class: "with-panel" }, h("div", { class: "page-scroll" }, this.page), this.panel.node));
  }

  async open(id) {
    if (!this.model || !isAble(this.model)) {
      this.form.replaceWith(h("div", { class: "problem" }, icon("info"), h("p", {}, t(this.model ? "method.unable" : "literature.missing"))));
      return;
    }
    const chat = id && (await getChat(id));
    if (chat) {
      const [turn] = await getTurns(id);
      if (turn) this.goOn(runOf(turn)?.turn ?? turn);
    } else this.showEmpty();
    this.showEarlier();
  }

  makeForm() {
    this.field = h("textarea", { class: "text", id: "l-question", rows: 2, required: true, maxlength: 2000, placeholder: t("literature.placeholder"), dir: "auto" });
    this.from = h("input", { type: "date", id: "l-from" });
    this.to = h("input", { type: "date", id: "l-to" });
    this.most = h("input", { type: "number", id: "l-most", min: 1, max: 200, value: 60 });
    this.kind = kindChoice("l-kind");
    this.go = button(t("literature.go"), { icon: "search", kind: "primary", type: "submit" });
    this.halt = button(t("ask.stop"), { icon: "stop", onclick: () => this.run?.controller.abort(), hidden: true });
    const more = h(
      "details",
      { class: "more" },
      h("summary", {}, t("literature.more")),
      h("div", { class: "fields" }, field("l-from", "fetch.from", this.from), field("l-to", "fetch.to", this.to), field("l-kind", "literature.kind", this.kind), field("l-most", "literature.most", this.most)),
    );
    const form = h("form", { class: "card form" }, h("div", { class: "field" }, h("label", { for: "l-question" }, t("literature.question")), this.field), more, h("div", { class: "row" }, this.go, this.halt));
    form.addEventListener("submit", (event) => {
      event.preventDefault();
      this.ask();
    });
    this.field.addEventListener("keydown", (event) => {
      if (event.key !== "Enter" || event.shiftKey || event.isComposing) return;
      event.preventDefault();
      form.requestSubmit();
    });
    return form;
  }

  showEmpty() {
    const where = session.permissions.egress === "off" ? t("literature.off") : t("literature.on");
    this.out.replaceChildren(h("p", { class: "fine" }, icon("info"), where));
  }

  async showEarlier() {
    const found = (await listChats()).filter((chat) => chat.screen === "literature");
    if (!found.length) return;
    this.earlier.replaceChildren(h("h2", { class: "label" }, t("literature.earlier")), h("ul", { class: "plain-list" }, found.slice(0, 20).map((chat) => h("li", {}, h("a", { href: `#/literature/${chat.id}` }, foreign(chat.title)), h("span", { class: "muted small" }, ` · ${day(chat.updated)}`)))));
  }

  /** Shows a review; one that had not ended when this screen, or the page, was left goes on. */
  async goOn(turn) {
    const view = this.showReview(turn);
    const run = turn.state === "running" && (runOf(turn) ?? (await takeUp(turn, messages, view, this.left.signal)));
    if (run) await this.wait(run, view);
    else view.finish();
  }

  async ask() {
    const question = this.field.value.trim();
    if (!question || this.run) return;
    const options = { max_articles: Number(this.most.value) || 60 };
    if (this.from.value) options.date_from = this.from.value;
    if (this.to.value) options.date_to = this.to.value;
    if (this.kind.value) options.publication_types = [this.kind.value];
    const chat = { id: newId(), title: question.slice(0, 120), created: Date.now(), updated: Date.now(), model: this.model.id, screen: "literature" };
    await putChat(chat);
    const turn = newTurn(chat.id, 0, question, this.model, options);
    await keep(turn);
    history.replaceState(null, "", `#/literature/${chat.id}`);
    announce(t("live.working"));
    const view = this.showReview(turn);
    await this.wait(begin(turn, messages(turn), view), view);
  }

  /** Shows an answer while it comes, and when it has ended. */
  async wait(run, view) {
    Object.assign(run, { view });
    this.setRun(run);
    await run.ended;
    this.setRun(null);
    await view.finish();
    this.showEarlier();
    if (run.view === view) tell(run.turn);
  }

  setRun(run) {
    this.run = run;
    this.go.disabled = run !== null;
    this.halt.hidden = run === null;
  }

  /** Shows a review; what it returns is told of changes, like the view of an answer. */
  showReview(turn) {
    const flow = h("ol", { class: "flow", "aria-label": t("literature.flow") });
    const table = h("div", {});
    const answer = new AnswerView(turn, {
      retry: () => {
        this.field.value = turn.question;
        this.ask();
      },
      edit: () => {
        this.field.value = turn.question;
        this.field.focus();
      },
      source: (number) => this.panel.show(turn, number),
    });
    this.out.replaceChildren(flow, answer.node, table);
    const draw = () => flow.replaceChildren(...flowBoxes(countsOf(turn), turn.state === "running"));
    draw();
    return {
      tick: () => answer.tick(),
      update: () => {
        answer.update();
        draw();
      },
      finish: async () => {
        draw();
        table.replaceChildren(...details(turn));
        await answer.finish();
      },
    };
  }
}

const messages = (turn) => [{ role: "user", content: turn.question }];

/** Returns the links between a review and articles for a text. */
export function subnav(here) {
  const links = ["literature", "articles"].map((name) => h("a", { href: `#/${name}`, "aria-current": name === here ? "page" : null }, t(`subnav.${name}`)));
  return h("nav", { class: "subnav", "aria-label": t("subnav.label") }, links);
}

/** Returns the field in which a kind of article is chosen, or any. */
export function kindChoice(id) {
  const kinds = Object.entries(KINDS).map(([key, value]) => h("option", { value }, t(`kind.${key}`)));
  return h("select", { id }, h("option", { value: "" }, t("literature.any")), kinds);
}

function field(id, label, node) {
  return h("div", { class: "field" }, h("label", { for: id }, t(label)), node);
}

/** Returns PRISMA's counts: those of the record, or as far as the steps have told them. */
export function countsOf(turn) {
  const told = turn.trace?.details?.review?.counts;
  if (told) return told;
  const counts = {};
  for (const { text } of turn.steps) {
    const over = /; (\d+) beyond max_articles/.exec(text);
    if (over) counts.left_out = Number(over[1]);
    for (const name of FLOW) {
      const found = new RegExp(`\\b${name} (\\d+)`).exec(text);
      if (found) counts[name] = Number(found[1]);
    }
  }
  if (counts.found === undefined) {
    const records = turn.steps.map(({ text }) => /^(\d+) records? at /.exec(text)).filter(Boolean);
    if (records.length) counts.found = records.reduce((sum, one) => sum + Number(one[1]), 0);
  }
  return counts;
}

function flowBoxes(counts, running) {
  return FLOW.filter((name) => !RARE.has(name) || counts[name]).map((name) => {
    const known = counts[name] !== undefined;
    return h("li", { class: `flow-box ${known ? "known" : ""} ${OUT.has(name) ? "out" : ""}` }, h("span", { class: "flow-number" }, known ? count(counts[name]) : running ? "…" : "–"), h("span", { class: "flow-name" }, t(`flow.${name}`)));
  });
}

function details(turn) {
  const told = turn.trace?.details || {};
  const rows = told.evidence_table || [];
  const nodes = [];
  if (rows.length) nodes.push(evidence(rows, turn));
  const queries = told.review?.queries || [];
  if (queries.length) {
    const items = queries.map((one) => h("li", {}, foreign(one.text, "code"), h("span", { class: "muted small" }, ` · ${plain(one.source)} · ${one.fault ? plain(one.fault) : tn("literature.hits", one.hits ?? 0)}`)));
    nodes.push(h("details", { class: "more" }, h("summary", {}, tn("literature.queries", queries.length)), h("ul", { class: "plain-list" }, items)));
  }
  const excluded = told.review?.excluded || [];
  if (excluded.length) {
    const items = excluded.map((one) => h("li", {}, foreign(one.title || one.uid), h("span", { class: "muted small" }, " · ", foreign(one.reason))));
    nodes.push(h("details", { class: "more" }, h("summary", {}, tn("literature.excluded", excluded.length)), h("ul", { class: "plain-list" }, items)));
  }
  if (turn.trace) nodes.push(exportRow(turn));
  return nodes;
}

function evidence(rows, turn) {
  const body = h("tbody", {});
  const state = { by: "number", down: false };
  // Only a model that writes fills all of them; a column without a value says nothing.
  const filled = CELLS.filter((name) => rows.some((row) => row[name]?.value));
  const columns = [...FIXED, ...filled];
  const hasQuotes = rows.some((row) => filled.some((name) => quoteOf(row[name])));
  const quotes = h("input", { type: "checkbox" });
  const heads = columns.map((name) => {
    const head = h("button", { type: "button", class: "sort" }, t(`evidence.${name === "title" ? "article" : name}`), icon("chevron"));
    const cell = h("th", { scope: "col", "aria-sort": "none" }, head);
    head.addEventListener("click", () => {
      state.down = state.by === name ? !state.down : false;
      state.by = name;
      draw();
    });
    return cell;
  });
  const table = h("table", { class: "evidence" }, h("thead", {}, h("tr", {}, heads)), body);
  const draw = () => {
    heads.forEach((cell, place) => cell.setAttribute("aria-sort", columns[place] === state.by ? (state.down ? "descending" : "ascending") : "none"));
    const sorted = [...rows].sort((a, b) => compare(a, b, state.by) * (state.down ? -1 : 1));
    body.replaceChildren(...sorted.map((row) => rowOf(row, filled)));
  };
  quotes.addEventListener("change", () => table.classList.toggle("with-quotes", quotes.checked));
  draw();
  return h(
    "section",
    { class: "form" },
    h("div", { class: "row" }, h("h2", {}, t("evidence.title")), h("span", { class: "grow" }), hasQuotes ? h("label", { class: "check" }, quotes, h("span", {}, t("evidence.quotes"))) : null),
    h("div", { class: "scroll", tabindex: "0", role: "region", "aria-label": t("evidence.title") }, table),
  );
}

function sortKey(row, name) {
  if (name === "number") return row.number || Infinity;
  if (name === "sample_size") return Number((row.sample_size?.value || "").replace(/[, ]/g, "").match(/\d+/)?.[0] ?? -1);
  const value = row[name];
  return typeof value === "string" ? value : value?.value || "";
}

function compare(a, b, name) {
  const [x, y] = [sortKey(a, name), sortKey(b, name)];
  return typeof x === "number" ? x - y || 0 : x.localeCompare(y);
}

/** Returns the sentence that a cell was read from, where it says more than the cell. */
function quoteOf({ value = "", quote = "" } = {}) {
  return quote === value ? "" : quote;
}

function rowOf(row, filled) {
  const year = row.item?.issued?.["date-parts"]?.[0]?.[0];
  const journal = row.item?.["container-title"];
  const cells = filled.map((name) => {
    const { value = "", quote = "" } = row[name] || {};
    const shown = quoteOf(row[name]);
    return h("td", { title: plain(quote) }, value ? foreign(value) : h("span", { class: "muted" }, "–"), shown ? h("p", { class: "quote" }, foreign(shown)) : null);
  });
  return h(
    "tr",
    {},
    h("td", {}, row.number ? h("span", { class: "number" }, String(row.number)) : h("span", { class: "muted small" }, t("evidence.uncited"))),
    h("td", { class: "evidence-title" }, outside(row.url, foreign(row.title || row.uid)), h("p", { class: "muted small" }, foreign([journal, year].filter(Boolean).join(", "))), (row.notices || []).map((one) => h("span", { class: "badge bad" }, plain(one)))),
    h("td", {}, foreign(row.level)),
    cells,
  );
}

function exportRow(turn) {
  const id = turn.told?.trace_id || turn.id;
  const one = (format) =>
    button(t(`export.${format}`), {
      icon: "download",
      kind: "quiet",
      onclick: async () => {
        try {
          const reply = await send(`/v1/traces/${encodeURIComponent(id)}/export?format=${format}`);
          const name = /filename="([^"]+)"/.exec(reply.headers.get("content-disposition") || "")?.[1] || `review.${format}`;
          save(name, reply.headers.get("content-type"), await reply.blob());
        } catch (error) {
          toast(error.code === "trace_not_found" ? t("export.gone") : error.message, "bad");
        }
      },
    });
  return h("div", { class: "row export-row" }, h("span", { class: "label" }, t("export.title")), ["docx", "csv", "bibtex"].map(one), one("ris"), one("csl-json"));
}

