// Searches one namespace with all retrievers side by side, and shows how often what they found has the keywords, as the
// server counts them.

import { post } from "./api.js";
import { button, foreign, h, icon, onSubmit, outside, plain, scrolled } from "./dom.js";
import { t } from "./texts.js";

const RETRIEVERS = ["hybrid", "dense", "bm25", "pes2"];
const HITS = 8;
const MARKED = /\*\*?([^\s*](?:[^*]*[^\s*])?)\*\*?/g;

/** Returns the search of a namespace. */
export function searchView(namespace) {
  const search = new Search(namespace);
  return search.node;
}

class Search {
  constructor(namespace) {
    this.namespace = namespace;
    // Of the query as it was written: its keywords, and those of them that are fixed.
    this.words = [];
    this.fixed = new Set();
    this.field = h("input", { type: "search", placeholder: t("search.placeholder"), "aria-label": t("search.placeholder"), "aria-describedby": "search-marks", required: true });
    this.keywords = h("div", { class: "row keywords" });
    this.columns = h("div", { class: "retrievers" });
    this.counts = h("div", { class: "counts" });
    const form = h("form", { class: "row nowrap" }, this.field, button(t("search.go"), { icon: "search", kind: "primary", type: "submit" }));
    const search = () => {
      this.query = this.field.value.trim();
      this.words = [];
      if (this.query) this.run();
    };
    onSubmit(form, search);
    const marks = namespace.keywords ? h("p", { class: "muted small", id: "search-marks" }, t("search.marks")) : null;
    this.node = h("div", { class: "form" }, form, marks, this.keywords, this.columns, this.counts);
  }

  able(retriever) {
    const { encoder, words, keywords } = this.namespace;
    const has = { dense: encoder !== "none", bm25: words !== "none", pes2: keywords, hybrid: encoder !== "none" && words !== "none" };
    return has[retriever];
  }

  async run() {
    const able = RETRIEVERS.filter((one) => this.able(one));
    const lists = new Map(able.map((one) => [one, h("ol", { class: "hits" }, h("li", { class: "muted" }, t("search.searching")))]));
    this.lists = lists;
    this.columns.replaceChildren(...able.map((one) => h("section", { class: "retriever" }, h("h3", {}, t(`retriever.${one}`)), h("p", { class: "muted small" }, t(`retriever.${one}.about`)), lists.get(one))));
    this.counts.replaceChildren();
    const found = new Map();
    if (able.includes("pes2")) await this.ask("pes2", { query: this.steered() }, found);
    if (this.lists !== lists) return; // another search began meanwhile
    const asked = { query: bare(this.query), ...(this.words.length && { count: this.words }) };
    await Promise.all(able.filter((one) => one !== "pes2").map((one) => this.ask(one, asked, found)));
    if (this.lists !== lists) return;
    const counted = [...found.values()].filter((hit) => hit.counts?.length);
    if (counted.length) this.counts.replaceChildren(h("h3", { class: "label" }, t("search.counts")), countTable(counted, this.words, this.fixed));
  }

  async ask(retriever, asked, found) {
    const lists = this.lists;
    const list = lists.get(retriever);
    try {
      const { data, keywords } = await post("/v1/search", { ...asked, namespaces: [this.namespace.name], k: HITS, retriever });
      if (retriever === "pes2" && this.lists === lists && !this.words.length) this.take(keywords);
      list.replaceChildren(...(data.length ? data.map((hit) => hitItem(this.namespace, hit)) : [h("li", { class: "muted" }, t("search.nothing"))]));
      data.forEach((hit) => found.set(hit.id, hit));
    } catch (error) {
      list.replaceChildren(h("li", { class: "error-text" }, foreign(error.message)));
    }
  }

  /** Takes the keywords that the server found in the query, and shows them to be fixed. */
  take(keywords) {
    this.words = keywords.map((one) => one.text);
    this.fixed = new Set(keywords.filter((one) => one.fixed).map((one) => one.text));
    const chips = this.words.map((word) => {
      const chip = h("button", { type: "button", class: "chip", "aria-pressed": String(this.fixed.has(word)) }, foreign(word));
      chip.addEventListener("click", () => {
        if (!this.fixed.delete(word)) this.fixed.add(word);
        chip.setAttribute("aria-pressed", String(this.fixed.has(word)));
        this.run();
      });
      return chip;
    });
    this.keywords.replaceChildren(...(chips.length ? [h("span", { class: "muted small" }, t("search.fixed")), ...chips] : []));
  }

  /** Returns the query of PES2: as it was written, then with fixed keywords between two stars and others between one. */
  steered() {
    if (!this.words.length) return this.query;
    const only = this.query.startsWith("##") ? "##" : "#";
    return `${only}${this.words.map((word) => (this.fixed.has(word) ? `**${word}**` : `*${word}*`)).join(" ")}`;
  }
}

/** Returns a query without the marks of its keywords. */
function bare(query) {
  return query.startsWith("#") ? query.replace(/^#+/, "").replace(MARKED, "$1").trim() : query;
}

function hitItem(namespace, hit) {
  const address = `#/reader/${encodeURIComponent(namespace.name)}/${encodeURIComponent(hit.document_id)}${hit.page ? `?page=${hit.page}&mark=${encodeURIComponent(hit.text.slice(0, 300))}` : ""}`;
  return h(
    "li",
    { class: "hit" },
    h("a", { href: address }, foreign(hit.title || hit.document_id)),
    hit.retracted_by?.length ? h("span", { class: "badge bad" }, t("retracted")) : null,
    h("p", { class: "muted small" }, foreign([hit.section, hit.page ? t("source.page", { n: hit.page }) : "", hit.date].filter(Boolean).join(" · "))),
    h("p", { class: "hit-text", dir: "auto" }, plain(hit.text)),
    hit.url ? h("p", { class: "small" }, outside(hit.url, t("source.open"))) : null,
  );
}

/** Returns the counts in the order of PES2: all fixed keywords, distinct keywords, sum. */
function countTable(hits, words, fixed) {
  const rank = ({ counts }) => [Number(words.every((word, place) => !fixed.has(word) || counts[place])), counts.filter(Boolean).length, counts.reduce((a, b) => a + b, 0)];
  const rows = hits.map((hit) => ({ hit, rank: rank(hit) }));
  rows.sort((a, b) => b.rank[0] - a.rank[0] || b.rank[1] - a.rank[1] || b.rank[2] - a.rank[2]);
  const heads = words.map((word) => h("th", { scope: "col" }, fixed.has(word) ? icon("check") : null, foreign(word)));
  return scrolled(
    t("search.counts"),
    h("table", {}, h("thead", {}, h("tr", {}, h("th", { scope: "col" }, t("search.passage")), heads)), h("tbody", {}, rows.map(({ hit }) => h("tr", {}, h("td", {}, foreign(hit.title || hit.document_id)), hit.counts.map((number) => h("td", { class: number ? "number-cell some" : "number-cell" }, String(number))))))),
  );
}
