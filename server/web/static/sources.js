// The panel beside an answer: the passage, record or statement behind a citation, with the sentence that carries it.

import { get } from "./api.js";
import { button, foreign, h, icon, literally, outside, plain, webAddress } from "./dom.js";
import { t, tn } from "./texts.js";

const PUBMED = /pubmed\.ncbi\.nlm\.nih\.gov\/(\d+)/;
const WIDE = window.matchMedia("(min-width: 1100px)");

/** Returns what the answer's record says of a reference, null for nothing. */
export function citationOf(turn, number) {
  const cited = turn.trace?.details?.citations || [];
  return cited.find((one) => one.number === number) || null;
}

/**
 * Returns whether a source is retracted: a passage that says so of itself; an article that a statement or a record lists
 * among its retracted ones. A statement keeps its other articles.
 */
export function isRetracted(turn, reference) {
  const article = PUBMED.exec(reference.url || "")?.[1];
  const records = (turn.trace?.calls || []).map((call) => call.record || {}).filter((record) => record.db === "pubmed");
  if (article && [...statementsOf(turn, reference), ...records].some((one) => lists(one.retracted, article))) return true;
  const cited = citationOf(turn, reference.number);
  return cited?.retracted === true || cited?.retracted_by?.length > 0;
}

/** Returns whether a list of retracted articles has one, however either is written. */
export function lists(retracted, pmid) {
  const number = /\d+/.exec(pmid)?.[0];
  return Array.isArray(retracted) && retracted.some((one) => /\d+/.exec(String(one))?.[0] === number);
}

/** Returns the record of an NCBI call that a reference names, null for none. */
export function recordOf(turn, reference) {
  // Records without a title are found by their page alone: every text begins with an empty one.
  const page = (reference.url || "").replace(/\/$/, "");
  const ways = [({ id }) => id && page.endsWith(`/${id}`), ({ title }) => title && reference.title.startsWith(title)];
  const found = (turn.trace?.calls || []).flatMap((call) => (call.record?.records || []).filter((record) => record.text).map((record) => ({ call, record })));
  for (const is of ways) {
    const one = found.find(({ record }) => is(record));
    if (one) return one;
  }
  return null;
}

/** Shows sources, one at a time. */
export class SourcePanel {
  constructor() {
    this.node = h("aside", { class: "panel", "aria-label": t("source.panel"), tabindex: "-1", hidden: true });
    this.node.addEventListener("keydown", (event) => event.key === "Escape" && this.close());
  }

  show(turn, number) {
    const reference = turn.references.find((one) => one.number === number);
    if (!reference) return;
    if (this.node.hidden) this.before = document.activeElement;
    const place = turn.references.indexOf(reference);
    const step = (by) => this.show(turn, turn.references[place + by].number);
    const body = h("div", { class: "panel-body" });
    this.node.replaceChildren(
      h(
        "div",
        { class: "panel-head" },
        h("h2", {}, t("source.title", { n: number, of: turn.references.length })),
        button(t("source.previous"), { icon: "left", bare: true, kind: "quiet", disabled: place === 0, onclick: () => step(-1) }),
        button(t("source.next"), { icon: "right", bare: true, kind: "quiet", disabled: place === turn.references.length - 1, onclick: () => step(1) }),
        button(t("close"), { icon: "close", bare: true, kind: "quiet", onclick: () => this.close() }),
      ),
      body,
    );
    fill(body, turn, reference);
    this.node.hidden = false;
    this.node.focus({ preventScroll: true });
    if (!WIDE.matches) this.node.scrollTop = 0;
    body.querySelector("mark")?.scrollIntoView({ block: "center" });
  }

  close() {
    this.node.hidden = true;
    if (this.before?.isConnected) this.before.focus();
  }
}

function fill(body, turn, reference) {
  const cited = citationOf(turn, reference.number);
  const statements = statementsOf(turn, reference);
  if (statements.length) body.append(...statementNodes(statements, reference));
  else if (reference.text || cited?.passage_id) body.append(...passage(cited || {}, reference, sentencesOf(turn, reference)));
  else body.append(...record(turn, reference));
}

/** Returns the places of the sentences that the answer rests on, in the text of its source. */
export function sentencesOf(turn, reference) {
  const text = reference.text || "";
  const found = [];
  for (const one of turn.trace?.details?.citations || []) {
    if (one.number !== reference.number) continue;
    // The answer's own text stands in the source where it is a quote.
    const quotes = [one.quote || one.text, one.sentence, ...(one.sentences || []).map((sentence) => sentence.text)].filter(Boolean);
    for (const quote of quotes) {
      const place = quotePattern(quote).exec(text);
      if (place) found.push({ start: place.index, end: place.index + place[0].length });
    }
  }
  return found;
}

const lettersOf = (text) => String(text || "").toLowerCase().replace(/[^\p{L}\p{N}]+/gu, "");

/** Returns whether an answer has quotes, and each of them stands in what it was read from, word for word; some begin with a title. */
export function isQuoted(turn, answer) {
  const quotes = [...answer.matchAll(/“([^”]+)”/g)].map((found) => lettersOf(found[1]));
  const cited = turn.trace?.details?.citations || [];
  const texts = [...turn.references.flatMap((one) => [one.text, one.title]), ...cited.flatMap((one) => [one.title, one.text, one.quote, one.sentence])].map(lettersOf);
  return quotes.length > 0 && quotes.every((quote) => quote && texts.some((text) => text.includes(quote)));
}

/** Returns where a document came from, in words where no file brought it. */
export function fileOf(name) {
  return /^(POST|PUT) /.test(name || "") ? t("source.api") : plain(name || "");
}

/** Returns a quote as a pattern: line breaks of the source are blanks in it, and its brackets around numbers parentheses. */
function quotePattern(quote) {
  const words = quote.trim().split(/\s+/).map(literally);
  return new RegExp(words.join("\\s+").replaceAll("\\(", "[([]").replaceAll("\\)", "[)\\]]"), "u");
}

function passage(cited, reference, sentences) {
  const text = reference.text || cited.text || "";
  const link = reference.url.startsWith("/v1/") ? cited.document_url || "" : reference.url;
  const facts = [cited.section ? plain(cited.section) : "", cited.page ? t("source.page", { n: cited.page }) : "", fileOf(cited.file)].filter(Boolean).join(" · ");
  const more = h("p", { class: "muted small" });
  const nodes = [
    foreign(cited.title || reference.title, "h3"),
    facts ? h("p", { class: "muted small", dir: "auto" }, facts) : null,
    more,
    passageText(text, sentences),
    sentences.length ? h("p", { class: "fine" }, icon("check"), t("source.marked")) : null,
    h(
      "div",
      { class: "row" },
      /\.pdf$/i.test(cited.file || "") && cited.page ? h("a", { class: "button", href: readerAddress(cited) }, icon("doc"), h("span", {}, t("source.open_page", { n: cited.page }))) : null,
      link ? outside(link, h("span", { class: "button" }, icon("open"), h("span", {}, t("source.open")))) : null,
    ),
  ];
  if (cited.namespace && cited.passage_id) describe(more, nodes, cited);
  return nodes.filter(Boolean);
}

/** Adds what the namespace knows of the document: authors, journal, date, kind, retraction. */
async function describe(more, nodes, cited) {
  try {
    const found = await get(`/v1/passages/${encodeURIComponent(cited.namespace)}/${encodeURIComponent(cited.passage_id)}`);
    const authors = found.authors?.length > 3 ? `${found.authors[0]} et al.` : (found.authors || []).join(", ");
    more.append(foreign([authors, found.journal, found.date, (found.types || []).join(", ")].filter(Boolean).join(" · ")));
    if (found.retracted_by?.length) more.before(h("p", { class: "badge bad" }, t("retracted.by", { by: plain(found.retracted_by.join(", ")) })));
  } catch {
    // a note that ships with the server is in no namespace of the reader's
  }
}

export function readerAddress({ namespace, document_id: id, page, sentence, sentences }) {
  const query = new URLSearchParams({ page: String(page || 1) });
  const marked = sentences?.[0]?.text || sentence;
  if (marked) query.set("mark", marked.slice(0, 600));
  return `#/reader/${encodeURIComponent(namespace)}/${encodeURIComponent(id)}?${query}`;
}

/** Returns a passage with the sentences marked. */
export function passageText(text, sentences) {
  const sorted = [...sentences].sort((a, b) => a.start - b.start);
  const pieces = [];
  let from = 0;
  for (const { start, end } of sorted) {
    if (start < from) continue;
    pieces.push(plain(text.slice(from, start)), h("mark", {}, plain(text.slice(start, end))));
    from = end;
  }
  pieces.push(plain(text.slice(from)));
  return h("blockquote", { class: "passage", dir: "auto" }, pieces);
}

/** Returns the statements of a graph that a reference stands for: all of one article or node. */
function statementsOf(turn, reference) {
  const cited = (turn.trace?.details?.citations || []).filter((one) => one.edge);
  const has = (urls) => Boolean(reference.url) && (urls || []).includes(reference.url);
  const found = cited.filter((one) => has(one.pmid_urls) || (!one.pmid_urls?.length && has(one.node_urls)));
  return found.length ? found : cited.filter((one) => one.text && reference.title.startsWith(one.text));
}

function statementNodes(statements, reference) {
  const site = h("div", { class: "row" }, outside(reference.url, h("span", { class: "button" }, icon("open"), h("span", {}, t("source.open")))));
  return [...statements.map(statement), webAddress(reference.url) ? site : null].filter(Boolean);
}

function statement(cited) {
  const links = (cited.pmids || []).map((pmid, place) => h("li", {}, outside(cited.pmid_urls?.[place], `PMID ${plain(pmid)}`), lists(cited.retracted, pmid) ? h("span", { class: "badge bad" }, t("retracted")) : null));
  return h(
    "section",
    { class: "statement" },
    h("blockquote", { class: "passage", dir: "auto" }, plain(cited.text)),
    h(
      "dl",
      { class: "facts-list" },
      h("dt", {}, t("source.from")),
      h("dd", {}, foreign((cited.sources || []).join("; ") || t("source.unknown"))),
      cited.p_value === null || cited.p_value === undefined ? null : [h("dt", {}, t("source.p_value")), h("dd", {}, String(cited.p_value))],
      cited.licence ? [h("dt", {}, t("source.licence")), h("dd", {}, foreign(cited.licence))] : null,
    ),
    links.length ? h("div", {}, h("h3", { class: "label" }, tn("source.articles", links.length)), h("ul", { class: "plain-list" }, links)) : null,
  );
}

function record(turn, reference) {
  const found = recordOf(turn, reference);
  const answer = turn.told?.answer || "";
  const text = found?.record.text || "";
  // Not a number inside a longer one.
  const whole = new RegExp(`(?<![\\p{L}\\p{N}])${literally(answer)}(?![\\p{L}\\p{N}])`, "u");
  const place = answer && answer.length < 60 ? text.search(whole) : -1;
  const sentences = place >= 0 ? [{ start: place, end: place + answer.length }] : [];
  return [
    foreign(reference.title, "h3"),
    text ? passageText(text, sentences) : h("p", { class: "muted" }, t("source.no_text")),
    sentences.length ? h("p", { class: "fine" }, icon("check"), t("source.marked_answer")) : null,
    found ? h("dl", { class: "facts-list" }, h("dt", {}, t("source.call")), h("dd", {}, foreign(found.call.url, "code"))) : null,
    reference.url ? h("div", { class: "row" }, outside(reference.url, h("span", { class: "button" }, icon("open"), h("span", {}, t("source.open"))))) : null,
  ].filter(Boolean);
}
