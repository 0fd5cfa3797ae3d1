// A review of the literature as a document of the server: its question and protocol, PRISMA's counts while it runs, the
// answer, the table of evidence, and what is new since the run before. All of it is /v1/reviews; the page shows it.

import { AnswerView } from "./answer.js";
import { get, post, send } from "./api.js";
import { announce, button, count, day, dialog, foreign, h, icon, moment, onSubmit, plain, problem, save, toast } from "./dom.js";
import { isAble } from "./composer.js";
import { JobItem, follow } from "./fetching.js";
import { modelOf, session } from "./keys.js";
import { evidenceTable } from "./review_table.js";
import { SourcePanel } from "./sources.js";
import { t, tn } from "./texts.js";

const FLOW = ["found", "duplicates", "left_out", "missing", "screened", "excluded", "excluded_by_hand", "included", "cited"];
// Shown dashed, as they leave the flow; some only where there are any.
const OUT = new Set(["duplicates", "excluded", "left_out", "missing", "excluded_by_hand"]);
const RARE = new Set(["left_out", "missing", "excluded_by_hand"]);
// Kinds of article by their keys in the catalogue, as PubMed names them.
const KINDS = { trial: "Randomized Controlled Trial", meta: "Meta-Analysis", systematic: "Systematic Review", review: "Review", guideline: "Practice Guideline" };
const FORMATS = ["docx", "markdown", "csv", "bibtex", "ris", "csl-json"];
const LISTED = 100;

/** Shows the form and the reviews of the key, or a review where one is named. */
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
    this.job = h("ul", { class: "plain-list" });
    this.out = h("div", { class: "review" });
    this.form = this.makeForm();
    this.others = h("div", {});
    this.page = h("div", { class: "page literature" }, subnav("literature"), h("div", { class: "page-head" }, h("h1", {}, t("nav.literature")), h("p", { class: "lead" }, t("literature.lead"))), this.form, this.job, this.out, this.others);
    main.replaceChildren(h("div", { class: "with-panel" }, h("div", { class: "page-scroll" }, this.page), this.panel.node));
  }

  async open(id) {
    if (!this.model || !isAble(this.model)) {
      this.form.replaceWith(h("div", { class: "problem" }, icon("info"), h("p", {}, t(this.model ? "method.unable" : "literature.missing"))));
      return;
    }
    if (!id) this.showEmpty();
    else await this.load(id);
    this.showOthers();
  }

  makeForm() {
    this.field = h("textarea", { class: "text", id: "l-question", rows: 2, required: true, maxlength: 2000, placeholder: t("literature.placeholder"), dir: "auto" });
    this.from = h("input", { type: "date", id: "l-from" });
    this.to = h("input", { type: "date", id: "l-to" });
    this.most = h("input", { type: "number", id: "l-most", min: 1, max: 1000, value: 60 });
    this.kind = kindChoice("l-kind");
    this.go = button(t("literature.go"), { icon: "search", kind: "primary", type: "submit" });
    this.remove = button(t("review.delete"), { icon: "trash", kind: "quiet", hidden: true, onclick: () => this.confirmDelete() });
    this.error = h("p", { class: "error-text", role: "alert" });
    this.protocol = h(
      "details",
      { class: "more" },
      h("summary", {}, t("literature.more")),
      h("div", { class: "fields" }, field("l-from", "fetch.from", this.from), field("l-to", "fetch.to", this.to), field("l-kind", "literature.kind", this.kind), field("l-most", "literature.most", this.most)),
    );
    const form = h("form", { class: "card form" }, h("div", { class: "field" }, h("label", { for: "l-question" }, t("literature.question")), this.field), this.protocol, this.error, h("div", { class: "row" }, this.go, h("span", { class: "grow" }), this.remove));
    onSubmit(form, () => this.run());
    this.field.addEventListener("keydown", (event) => {
      if (event.key !== "Enter" || event.shiftKey || event.isComposing) return;
      event.preventDefault();
      form.requestSubmit();
    });
    return form;
  }

  showEmpty() {
    const where = session.permissions.egress === "off" ? t("literature.off") : t("literature.on");
    this.out.replaceChildren(h("p", { class: "fine" }, icon("info"), where, " ", t("literature.kept")));
  }

  async showOthers() {
    const { data } = await get(`/v1/reviews?limit=${LISTED}`).catch(() => ({ data: [] }));
    const found = data.filter((one) => one.id !== this.review?.id);
    const items = found.map((one) => h("li", {}, h("a", { href: `#/literature/${one.id}` }, foreign(one.question)), h("span", { class: "muted small" }, ` · ${day(one.updated * 1000)}`)));
    this.others.replaceChildren(...(items.length ? [h("h2", { class: "label" }, t("literature.earlier")), h("ul", { class: "plain-list" }, items)] : []));
  }

  // The document

  async load(id) {
    try {
      await this.showReview(await get(`/v1/reviews/${encodeURIComponent(id)}`));
    } catch (error) {
      this.out.replaceChildren(problem(error));
      return;
    }
    this.takeProtocol();
    const running = this.review.job && (await get(`/v1/jobs/${this.review.job}`).catch(() => null));
    if (running) this.follow(running);
  }

  /** Writes the question and the protocol of the document into the form. */
  takeProtocol() {
    const { question, options } = this.review;
    this.field.value = question;
    this.from.value = options.date_from ?? "";
    this.to.value = options.date_to ?? "";
    this.most.value = options.max_articles ?? 60;
    const kind = [options.publication_types ?? []].flat()[0] ?? "";
    if (kind && ![...this.kind.options].some((one) => one.value === kind)) this.kind.append(h("option", { value: kind }, plain(kind)));
    this.kind.value = kind;
    this.protocol.open = Boolean(this.from.value || this.to.value || kind);
  }

  options() {
    const kept = { ...this.review?.options };
    // What the form does not show of a protocol stays.
    for (const name of ["date_from", "date_to", "publication_types"]) delete kept[name];
    return { ...kept, max_articles: Number(this.most.value) || 60, ...(this.from.value && { date_from: this.from.value }), ...(this.to.value && { date_to: this.to.value }), ...(this.kind.value && { publication_types: [this.kind.value] }) };
  }

  async run() {
    const question = this.field.value.trim();
    if (!question || this.isRunning) return;
    this.setRunning(true);
    this.error.textContent = "";
    try {
      const body = { question, options: this.options() };
      if (this.review) await this.change(body, false);
      else await this.showReview(await post("/v1/reviews", body));
      history.replaceState(null, "", `#/literature/${this.review.id}`);
      announce(t("live.working"));
      await this.follow(await post(`${this.address}/runs`, {}));
    } catch (error) {
      this.error.textContent = error.message;
      this.setRunning(false);
    }
  }

  /** Follows a job of the review until it ends, and shows what it has done. */
  async follow(job) {
    this.setRunning(true);
    const item = new JobItem(t(`job.${job.kind ?? "review"}`), "");
    const showJob = item.show.bind(item);
    let phase = "";
    item.show = (told) => {
      showJob(told);
      const progress = told.progress || {};
      // The answer is there before the columns are filled.
      if (phase === "search" && progress.phase === "columns") this.reload();
      phase = progress.phase ?? phase;
      if (phase === "search") this.showLive(progress);
    };
    this.job.replaceChildren(item.node);
    const ended = await follow(job, item, this.left.signal);
    if (this.left.signal.aborted) return;
    this.setRunning(false);
    if (ended?.state === "done") item.node.remove();
    await this.reload().catch((error) => toast(error.message, "bad"));
    this.showOthers();
  }

  setRunning(isRunning) {
    this.isRunning = isRunning;
    this.go.disabled = isRunning;
  }

  get address() {
    return `/v1/reviews/${encodeURIComponent(this.review.id)}`;
  }

  async reload() {
    await this.showReview(await get(this.address));
  }

  /** Changes the document at the server; shows what it is then, unless a run follows. */
  async change(body, shows = true) {
    const changed = await (await send(this.address, { method: "PATCH", body })).json();
    if (shows) await this.showReview(changed);
    else this.review = changed;
  }

  confirmDelete() {
    const go = button(t("review.delete"), { icon: "trash", kind: "danger" });
    const node = dialog(t("review.delete"), h("div", { class: "form" }, h("p", {}, t("review.delete.about")), h("div", { class: "row end" }, go)));
    go.addEventListener("click", async () => {
      try {
        await send(this.address, { method: "DELETE" });
        node.close();
        location.hash = "#/literature";
      } catch (error) {
        toast(error.message, "bad");
      }
    });
  }

  // What is shown of it

  /** Shows the counts and the text of a run while it works, above what the run before has found. */
  showLive({ flow = {}, steps = [], text = "" }) {
    if (!this.live?.isConnected) {
      this.live = h("div", { class: "form" });
      this.out.replaceChildren(this.live);
    }
    const turn = turnOf(this.review, null);
    Object.assign(turn, { state: "running", content: text, steps: steps.map(step) });
    if (!this.liveAnswer || this.liveAnswer.of !== this.live) this.liveAnswer = Object.assign(this.answerOf(turn), { of: this.live });
    Object.assign(this.liveAnswer.turn, turn);
    this.live.replaceChildren(flowOf(flow, true), this.liveAnswer.node);
    this.liveAnswer.update();
  }

  async showReview(review) {
    this.review = review;
    this.remove.hidden = false;
    this.go.querySelector("span").textContent = review.runs.length ? t("review.again") : t("literature.go");
    if (!review.record) {
      this.showEmpty();
      return;
    }
    const turn = turnOf(review, review.record);
    const details = review.record.details;
    const [last, before] = review.runs;
    const { changes } = last;
    const news = new Set(before ? changes.new : []);
    const rows = details.evidence_table || [];
    const answer = this.answerOf(turn);
    const table = evidenceTable({ rows, columns: review.columns, isNew: (uid) => news.has(uid) }, this.acts());
    const nodes = [staleNote(review, last), flowOf(review.flow, false), before ? changesOf(changes, before, rows) : null, answer.node, rows.length ? table : null, this.excludedByHand(review), ...searched(details), runsOf(review), this.exportRow(turn)];
    this.out.replaceChildren(...nodes.filter(Boolean));
    if (review.missing_cells && !this.isRunning) this.out.prepend(this.fillNote(review));
  }

  answerOf(turn) {
    return new AnswerView(turn, {
      retry: () => this.form.requestSubmit(),
      edit: () => this.field.focus(),
      source: (number) => this.panel.show(turn, number),
    });
  }

  acts() {
    const change = async (body) => this.change(body);
    return {
      addColumn: async (column) => {
        await change({ columns: [...this.review.columns, column] });
        this.fill();
      },
      removeColumn: (name) => change({ columns: this.review.columns.filter((one) => one.name !== name) }).catch((error) => toast(error.message, "bad")),
      exclude: (uid, reason) => change({ excluded: [...given(this.review.excluded), { uid, reason }] }),
    };
  }

  async fill() {
    try {
      await this.follow(await post(`${this.address}/columns`, {}));
    } catch (error) {
      toast(error.message, "bad");
      this.setRunning(false);
    }
  }

  fillNote({ missing_cells: missing }) {
    return h("div", { class: "row" }, h("p", { class: "fine" }, icon("info"), tn("review.missing_cells", missing)), button(t("review.fill"), { onclick: () => this.fill() }));
  }

  excludedByHand({ excluded }) {
    if (!excluded.length) return null;
    const back = (uid) => () => this.change({ excluded: given(excluded.filter((one) => one.uid !== uid)) }).catch((error) => toast(error.message, "bad"));
    const items = excluded.map(({ uid, title, reason }) => h("li", { class: "row nowrap" }, h("span", { class: "grow" }, foreign(title || uid), h("span", { class: "muted small" }, " · ", foreign(reason))), button(t("exclude.back"), { kind: "quiet", onclick: back(uid) })));
    return folded(tn("exclude.list", excluded.length), items, true);
  }

  exportRow(turn) {
    const one = (format) =>
      button(t(`export.${format === "markdown" ? "report" : format}`), {
        icon: "download",
        kind: "quiet",
        onclick: async () => {
          try {
            const reply = await send(`${this.address}/export?format=${format}`);
            const name = /filename="([^"]+)"/.exec(reply.headers.get("content-disposition") || "")?.[1] || `review.${format}`;
            save(name, reply.headers.get("content-type"), await reply.blob());
          } catch (error) {
            toast(error.message, "bad");
          }
        },
      });
    const page = button(t("export.page"), { icon: "download", kind: "quiet", onclick: async () => save("arrowhead-review.html", "text/html", await (await import("./share.js")).pageOf(turn)) });
    const json = button(t("export.json"), { icon: "download", kind: "quiet", onclick: () => save("arrowhead-review.json", "application/json", JSON.stringify(this.review, null, 2)) });
    return h("div", { class: "row export-row" }, h("span", { class: "label" }, t("export.title")), FORMATS.map(one), json, page);
  }
}

const given = (excluded) => excluded.map(({ uid, reason }) => ({ uid, reason }));
const step = (text) => ({ text, reply: null, url: "" });

/** Returns the answer of a review as the screens of answers take one; it is in no chat. */
function turnOf(review, record) {
  const [last] = review.runs;
  const turn = { chat: "", place: 0, id: last?.id, question: record ? last.question : review.question, model: review.model, method: "clinfo", options: review.options, state: "done", content: "", thinking: "", steps: [], references: [], told: null, trace: null, error: null, seconds: last?.seconds ?? 0 };
  if (!record) return turn;
  return { ...turn, content: record.content, steps: record.steps.map(step), references: record.references, told: { ...record, trace_id: last.id }, trace: record };
}

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

function flowOf(counts, running) {
  const boxes = FLOW.filter((name) => !RARE.has(name) || counts[name]).map((name) => {
    const known = counts[name] !== undefined;
    return h("li", { class: `flow-box ${known ? "known" : ""} ${OUT.has(name) ? "leaves" : ""}` }, h("span", { class: "flow-number" }, known ? count(counts[name]) : running ? "…" : "–"), h("span", { class: "flow-name" }, t(`flow.${name}`)));
  });
  return h("ol", { class: "flow", "aria-label": t("literature.flow") }, boxes);
}

function staleNote({ stale }, last) {
  return stale ? h("p", { class: "fine warn-text", role: "status" }, icon("warn"), t("review.stale", { day: moment(last.created * 1000) })) : null;
}

/** Returns what the latest run has that the one before had not. */
function changesOf({ new: fresh, gone, changed }, before, rows) {
  const titles = new Map(rows.map((row) => [row.uid, row.title]));
  const uids = Object.keys(changed);
  const head = h("h2", { class: "label" }, t("review.since", { day: moment(before.created * 1000) }));
  if (!fresh.length && !gone.length && !uids.length) return h("section", { class: "changes" }, head, h("p", {}, t("review.nothing_new")));
  const item = (mark, title, why) => h("li", {}, h("span", { class: "badge" }, mark), " ", foreign(title), why ? h("span", { class: "muted small" }, " · ", foreign(why)) : null);
  const items = [
    ...fresh.map((uid) => item(t("review.new_badge"), titles.get(uid) || uid, "")),
    ...gone.map((one) => item(t("review.gone"), one.title || one.uid, one.reason || t("review.not_found"))),
    ...uids.map((uid) => item(t("review.changed"), titles.get(uid) || uid, changed[uid].map((name) => t(`review.changed.${name}`)).join(", "))),
  ];
  return h("section", { class: "changes" }, head, h("ul", { class: "plain-list" }, items));
}

function searched(details) {
  const queries = details.review?.queries || [];
  const excluded = (details.review?.excluded || []).filter((one) => one.stage !== "by hand");
  const asked = queries.map((one) => h("li", {}, foreign(one.text, "code"), h("span", { class: "muted small" }, ` · ${plain(one.source)} · ${one.fault ? plain(one.fault) : tn("literature.hits", one.hits ?? 0)}`)));
  const left = excluded.map((one) => h("li", {}, foreign(one.title || one.uid), h("span", { class: "muted small" }, " · ", foreign(one.reason))));
  return [asked.length ? folded(tn("literature.queries", asked.length), asked) : null, left.length ? folded(tn("literature.excluded", left.length), left) : null];
}

function runsOf({ runs }) {
  const items = runs.map((run) => h("li", {}, moment(run.created * 1000), h("span", { class: "muted small" }, ` · ${t("review.run", { found: count(run.counts.found ?? 0), included: count(run.counts.included ?? 0) })} · `, foreign(run.question))));
  return folded(tn("review.runs", runs.length), items);
}

function folded(title, items, open = false) {
  return h("details", { class: "more", open }, h("summary", {}, title), h("ul", { class: "plain-list" }, items));
}
