// Fills a namespace from PubMed, and shows the jobs that change it: how far they are, and how they ended.

import { get, post, send } from "./api.js";
import { announce, button, bytes, count, foreign, h, icon, plain, seconds, toast } from "./dom.js";
import { session } from "./keys.js";
import { t, tn, whatLeft } from "./texts.js";
import { ENDED, leftOf } from "./work.js";

const EVERY_MS = 1000;
const FIRST_MS = 250;
const MOST = 10_000;
const KEPT = 20;

/** Watches a job until it ends, and returns it; null where `signal` aborts before. */
export async function follow(job, item, signal) {
  item.cancellable(() => send(`/v1/jobs/${job.id}`, { method: "DELETE" }));
  let found = job;
  while (!ENDED.includes(found.state)) {
    item.show(found);
    await new Promise((resolve) => setTimeout(resolve, found === job ? FIRST_MS : EVERY_MS));
    if (signal.aborted) return null;
    try {
      found = await get(`/v1/jobs/${job.id}`);
    } catch (error) {
      // A server that ended keeps no jobs; what was stored is there, and the fetch goes on where it is run again.
      item.fail(error.status === 404 ? t("fetch.gone") : error.message);
      return null;
    }
  }
  item.end(found);
  announce(item.text.textContent);
  return found;
}

/** The form that asks PubMed, the queries that the namespace keeps, and the jobs that run since before. */
export class Fetching {
  constructor(address, name, begin) {
    this.address = address;
    this.begin = begin;
    this.kept = h("div", {});
    this.node = h("div", { class: "form" }, this.form(), this.kept);
    this.showKept();
    this.takeUp(name);
  }

  form() {
    this.by = h("select", { id: "q-by" }, ["keywords", "term"].map((one) => h("option", { value: one }, t(`fetch.by.${one}`))));
    this.words = h("input", { type: "search", id: "q-term", required: true, spellcheck: "false", maxlength: 2000, "aria-describedby": "q-about" });
    this.from = h("input", { type: "date", id: "q-from" });
    this.to = h("input", { type: "date", id: "q-to" });
    this.limit = h("input", { type: "number", id: "q-limit", min: 1, max: MOST, value: 200 });
    this.full = h("input", { type: "checkbox" });
    this.noReviews = h("input", { type: "checkbox" });
    this.error = h("p", { class: "error-text", role: "alert" });
    const label = h("label", { for: "q-term" });
    const about = h("p", { class: "muted small", id: "q-about" });
    const showBy = () => {
      label.textContent = t(`fetch.${this.by.value}`);
      about.textContent = t(`fetch.${this.by.value}.about`);
      this.words.placeholder = this.by.value === "term" ? "asthma AND mepolizumab" : "asthma, mepolizumab/reslizumab";
    };
    this.by.addEventListener("change", showBy);
    showBy();
    const form = h(
      "form",
      { class: "card form" },
      h("h3", {}, t("fetch.title")),
      session.permissions.egress === "off" ? h("p", { class: "muted small" }, t("fetch.off")) : null,
      h("div", { class: "field" }, h("label", { for: "q-by" }, t("fetch.by")), this.by),
      h("div", { class: "field" }, label, this.words, about),
      h("div", { class: "fields" }, dated("q-from", "fetch.from", this.from), dated("q-to", "fetch.to", this.to), dated("q-limit", "fetch.limit", this.limit)),
      h("label", { class: "check" }, this.full, h("span", {}, t("fetch.full"))),
      h("label", { class: "check" }, this.noReviews, h("span", {}, t("fetch.no_reviews"))),
      this.error,
      h("div", { class: "row" }, button(t("fetch.go"), { kind: "primary", type: "submit" })),
    );
    form.addEventListener("submit", (event) => {
      event.preventDefault();
      const body = this.body();
      this.submit(`${this.address}/queries`, body, body.term || body.keywords.join(", "));
    });
    return form;
  }

  body() {
    const written = this.words.value.trim();
    const what = this.by.value === "term" ? { term: written } : { keywords: written.split(/[,;]/).map((one) => one.trim()).filter(Boolean) };
    return { ...what, with_reviews: !this.noReviews.checked, limit: Number(this.limit.value) || 200, full_text: this.full.checked, ...(this.from.value && { date_from: this.from.value }), ...(this.to.value && { date_to: this.to.value }) };
  }

  async submit(path, body, name) {
    this.error.textContent = "";
    try {
      const job = await post(path, body);
      await this.begin(job, new JobItem(name, t("fetch.title")));
      await this.showKept();
    } catch (failure) {
      this.error.textContent = failure.message;
    }
  }

  /** Shows the queries that the namespace keeps; run again, one fetches what is new, revised or was not fetched. */
  async showKept() {
    let queries = [];
    try {
      queries = (await get(this.address)).queries || [];
    } catch {
      // the documents' list tells the fault
    }
    if (!queries.length) {
      this.kept.replaceChildren();
      return;
    }
    const items = queries.slice(-KEPT).map((one) => {
      const facts = [one.date_from && t("fetch.since", { day: plain(one.date_from) }), one.date_to && t("fetch.until", { day: plain(one.date_to) }), one.limit ? t("fetch.at_most", { n: count(one.limit) }) : "", one.full_text ? t("fetch.full_short") : "", t("fetch.last", { day: plain(one.day), n: count(one.count) })];
      return h("li", {}, foreign(one.term, "code"), h("p", { class: "muted small" }, facts.filter(Boolean).join(" · ")));
    });
    const again = button(t("fetch.update"), { icon: "retry", onclick: () => this.submit(`${this.address}/update`, {}, t("fetch.update")) });
    this.kept.replaceChildren(h("section", { class: "card form" }, h("h3", {}, t("fetch.kept")), h("ul", { class: "plain-list" }, items), h("div", { class: "row" }, again)));
  }

  /** Shows the namespace's jobs that were begun before this screen was opened. */
  async takeUp(name) {
    try {
      const { data } = await get("/v1/jobs");
      for (const job of data) {
        if (job.namespace !== name || ENDED.includes(job.state)) continue;
        this.begin(job, new JobItem(t(`job.${job.kind}`), "")).then(() => this.showKept());
      }
    } catch {
      // a server without jobs: nothing to take up
    }
  }
}

function dated(id, label, node) {
  return h("div", { class: "field" }, h("label", { for: id }, t(label)), node);
}

/** Shows one upload or fetch: its name, how far it is, and how it ended. */
export class JobItem {
  constructor(name, about) {
    this.bar = h("progress", { max: 1, "aria-label": t("add.progress", { name: plain(name) }) });
    this.text = h("span", { class: "muted small" }, about);
    this.stop = h("span", {});
    this.node = h("li", { class: "job" }, h("div", { class: "job-head" }, foreign(name, "span", { class: "job-name" }), this.stop), this.bar, this.text);
  }

  progress(share, text) {
    this.bar.value = share;
    this.text.textContent = text;
  }

  cancellable(stop) {
    this.stop.replaceChildren(button(t("add.cancel"), { icon: "close", bare: true, kind: "quiet", onclick: () => stop().catch((error) => toast(error.message, "bad")) }));
  }

  show({ kind, state, cancelling, progress }) {
    const told = progress || {};
    const share = shareOf(told);
    if (share === null) this.bar.removeAttribute("value");
    else this.bar.value = share;
    const words = kind?.startsWith("review") ? ofReview(told) : told.phase ? ofCollection(told) : ofDocuments(told);
    this.text.textContent = cancelling ? t("add.cancelling") : state === "queued" ? t("add.queued") : words.filter(Boolean).join(" · ");
  }

  end({ kind, state, result, error, progress }) {
    this.stop.replaceChildren();
    if (state === "failed") {
      this.fail(error?.message || t("add.failed"));
      return;
    }
    this.bar.remove();
    if (kind?.startsWith("review")) {
      const words = state === "cancelled" ? t("add.cancelled") : result?.failed_cells ? tn("review.cells_failed", result.failed_cells) : t("work.done");
      this.text.replaceChildren(icon(state === "cancelled" || result?.failed_cells ? "warn" : "check"), ` ${words}`);
      return;
    }
    if (result?.already) {
      this.text.replaceChildren(icon("check"), " ", t("add.already"));
      return;
    }
    const sums = sumsOf(result || {});
    const parts = [
      result?.entries === undefined ? tn("add.added", sums.added) : tn("corpora.entries", result.entries),
      ...["changed", "unchanged", "known", "full_texts", "missing", "passed"].map((name) => (sums[name] ? tn(`add.${name}`, sums[name]) : "")),
    ];
    const notes = sums.notes.length ? ` – ${sums.notes.join("; ")}` : "";
    const cancelled = state === "cancelled" ? `${t("add.cancelled")}${result ? ": " : ""}` : "";
    const whole = result?.entries || sums.added || sums.changed || sums.unchanged || sums.known;
    this.text.replaceChildren(icon(whole && !cancelled ? "check" : "warn"), ` ${cancelled}`, result || !cancelled ? parts.filter(Boolean).join(", ") : "", foreign(notes));
    const left = result?.left || progress?.left;
    if (left) this.node.append(h("span", { class: "muted small" }, plain(whatLeft(left))));
  }

  fail(text) {
    this.bar.remove();
    this.stop.replaceChildren();
    this.node.classList.add("bad");
    this.text.replaceChildren(icon("warn"), " ", foreign(text));
  }
}

/** Returns which share of a job is done, null where nobody can tell. */
function shareOf({ total, done, expected, arrived, indexed = 0, waiting = 0, seconds, remaining_s: left }) {
  if (total) return done / total;
  if (expected) return arrived / expected;
  if (indexed + waiting) return indexed / (indexed + waiting);
  return seconds && left != null ? seconds / (seconds + left) : null;
}

function ofDocuments(told) {
  const { expected, arrived, indexed = 0, waiting = 0, passages_per_s: rate, remaining_s: left } = told;
  const reading = !expected && waiting && rate;
  return [
    expected ? t("add.arrived", { n: count(arrived), of: count(expected) }) : tn("library.documents", told.read || 0),
    t("add.indexed", { n: count(indexed), of: count(indexed + waiting) }),
    told.documents_per_s ? t("add.rate", { n: count(told.documents_per_s) }) : "",
    arrived < expected && left != null ? leftOf(left) : reading ? t("add.least", { left: leftOf(waiting / rate) }) : "",
  ];
}

/** Returns how far a collection is: bytes of its files, or rows of what is made of them. */
function ofCollection({ phase, done, total, per_s: rate, remaining_s: left }) {
  const inBytes = ["fetching", "checking", "reading"].includes(phase);
  const written = inBytes ? bytes : count;
  return [t(`corpora.phase.${phase === "fetching" ? phase : ["checking", "reading", "nodes", "edges"].includes(phase) ? "reading" : "writing"}`), total ? t("corpora.done", { n: written(done), of: written(total) }) : written(done), rate ? t("add.speed", { n: written(Math.round(rate)) }) : "", left != null ? leftOf(left) : ""];
}

function ofReview({ phase, done, total, per_s: rate, seconds: past = 0, remaining_s: left }) {
  const words = phase === "columns" ? [t("review.cells", { n: count(done), of: count(total) }), rate ? t("review.cells_rate", { n: count(rate) }) : ""] : [t("review.searching"), past ? seconds(past) : ""];
  return [...words, left ? leftOf(left) : ""];
}

/** Returns what a job changed: of a file, or of all its queries together. */
function sumsOf(result) {
  const queries = result.queries || [];
  const changes = [...(result.added === undefined ? [] : [result]), ...queries.map((one) => one.added)];
  const sum = (rows, name) => rows.reduce((number, one) => number + (one[name] || 0), 0);
  const sums = Object.fromEntries(["added", "changed", "unchanged", "passed"].map((name) => [name, sum(changes, name)]));
  for (const name of ["known", "full_texts", "missing"]) sums[name] = sum(queries, name);
  const reasons = changes.flatMap((one) => one.first_passed || []).map((one) => (!result.file || one.file === result.file ? one.reason : `${one.file}: ${one.reason}`));
  const ignored = queries.flatMap((one) => one.words_not_found || []);
  const days = queries.flatMap((one) => one.unlisted_days || []);
  const [found, taken] = ["counted", "listed"].map((name) => sum(queries, name));
  const cited = result.cited_works;
  sums.notes = [cited?.count ? tn("reader.cites", cited.count) : plain(cited?.fault || ""), found > taken ? t("fetch.found", { n: count(found), of: count(taken) }) : "", ignored.length ? t("fetch.ignored", { words: ignored.map(plain).join(", ") }) : "", days.length ? t("fetch.unlisted", { days: days.slice(0, 5).map(plain).join(", ") }) : "", ...reasons].filter(Boolean);
  return sums;
}
