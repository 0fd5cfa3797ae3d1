// The panel beside an answer: the passage, record or statement behind a citation, with the sentence that carries it.

import { get } from "./api.js";
import { button, count, foreign, h, icon, literally, outside, plain, webAddress } from "./dom.js";
import { citationOf, lists, recordOf, sentencesOf, statementsOf, textOf } from "./evidence.js";
import { bare, labelledSentences, placesFor, statementsFor } from "./support.js";
import { t, tn } from "./texts.js";

// What a label is known by besides its colour and line.
export const SIGNS = { supported: "✓", partly: "~", not: "!", contrary: "≠" };
const WIDE = window.matchMedia("(min-width: 1100px)");

/** Shows sources, one at a time. */
export class SourcePanel {
  constructor() {
    this.node = h("aside", { class: "panel", "aria-label": t("source.panel"), tabindex: "-1", hidden: true });
    this.node.addEventListener("keydown", (event) => event.key === "Escape" && this.close());
  }

  /** Shows a source by its number, or what was read for a sentence of the answer. */
  show(turn, shown) {
    if (typeof shown === "number") this.showSource(turn, shown);
    else this.showSentence(turn, shown);
  }

  showSource(turn, number) {
    const place = turn.references.findIndex((one) => one.number === number);
    if (place < 0) return;
    const body = h("div", { class: "panel-body" });
    fill(body, turn, turn.references[place]);
    const turnTo = (by) => turn.references[place + by] && (() => this.showSource(turn, turn.references[place + by].number));
    this.open(t("source.title", { n: number, of: turn.references.length }), { before: [t("source.previous"), turnTo(-1)], after: [t("source.next"), turnTo(1)] }, body);
  }

  showSentence(turn, { start }) {
    const sentences = labelledSentences(turn).filter((one) => one.kind);
    const place = sentences.findIndex((one) => one.start === start);
    if (place < 0) return;
    const turnTo = (by) => sentences[place + by] && (() => this.showSentence(turn, sentences[place + by]));
    this.open(t("sentence.title", { n: count(place + 1), of: count(sentences.length) }), { before: [t("sentence.previous"), turnTo(-1)], after: [t("sentence.next"), turnTo(1)] }, sentenceBody(turn, sentences[place]));
  }

  open(title, { before, after }, body) {
    if (this.node.hidden) this.before = document.activeElement;
    const turner = ([label, go], name) => button(label, { icon: name, bare: true, kind: "quiet", disabled: !go, onclick: go });
    this.node.replaceChildren(h("div", { class: "panel-head" }, h("h2", {}, title), turner(before, "left"), turner(after, "right"), button(t("close"), { icon: "close", bare: true, kind: "quiet", onclick: () => this.close() })), body);
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

/** Fills in a source; of one that was read for a sentence, what is nearest to that is marked. */
function fill(body, turn, reference, sentence) {
  const cited = citationOf(turn, reference.number);
  const statements = sentence ? statementsFor(turn, reference, sentence) : statementsOf(turn, reference);
  if (statements.length) body.append(...statementNodes(statements, reference));
  else if (reference.text || cited?.passage_id) body.append(...passage(cited || {}, reference, sentence ? placesFor(sentence, textOf(turn, reference)) : sentencesOf(turn, reference), sentence));
  else body.append(...record(turn, reference));
}

/** Returns a sentence of the answer above what was read for it. */
function sentenceBody(turn, sentence) {
  const { kind, references } = sentence;
  const body = h("div", { class: `panel-body for-${kind}` }, h("blockquote", { class: "said-again", dir: "auto" }, plain(bare(sentence.text))), verdictOf(sentence), mismatchesOf(sentence));
  body.append(h("h3", { class: "label" }, t("sentence.read")));
  if (!references.length) body.append(h("p", { class: "muted" }, t("sentence.uncited")));
  for (const reference of references) {
    const part = h("section", { class: "read-source" }, h("p", { class: "number" }, String(reference.number)));
    fill(part, turn, reference, sentence);
    body.append(part);
  }
  return body;
}

/** Returns the label of a sentence in words. */
export function verdictOf({ kind, isQuote }) {
  return h("p", { class: `verdict-line ${kind}` }, h("span", { class: `sign ${kind}`, "aria-hidden": "true" }, SIGNS[kind]), h("span", {}, t(`verdict.${isQuote ? "quoted" : kind}.about`)));
}

/** Returns what of a sentence does not correspond to its sources, in a list; null for nothing. */
export function mismatchesOf({ mismatches }) {
  return mismatches.length ? h("ul", { class: "mismatches" }, mismatches.map((one) => h("li", {}, foreign(one.detail)))) : null;
}

/** Returns where a document came from, in words where no file brought it. */
export function fileOf(name) {
  return /^(POST|PUT) /.test(name || "") ? t("source.api") : plain(name || "");
}

function passage(cited, reference, sentences, sentence) {
  const text = reference.text || cited.text || "";
  const link = reference.url.startsWith("/v1/") ? cited.document_url || "" : reference.url;
  const facts = [cited.section ? plain(cited.section) : "", cited.page ? t("source.page", { n: cited.page }) : "", fileOf(cited.file)].filter(Boolean).join(" · ");
  const marked = sentences.map(({ start, end }) => ({ text: text.slice(start, end) }));
  const more = h("p", { class: "muted small" });
  const nodes = [
    foreign(cited.title || reference.title, "h3"),
    facts ? h("p", { class: "muted small", dir: "auto" }, facts) : null,
    more,
    passageText(text, sentences),
    markNote(sentences.length > 0, sentence),
    h(
      "div",
      { class: "row" },
      /\.pdf$/i.test(cited.file || "") && cited.page ? h("a", { class: "button", href: readerAddress(marked.length ? { ...cited, sentences: marked } : cited) }, icon("doc"), h("span", {}, t("source.open_page", { n: cited.page }))) : null,
      link ? outside(link, h("span", { class: "button" }, icon("open"), h("span", {}, t("source.open")))) : null,
    ),
  ];
  if (cited.namespace && cited.passage_id) describe(more, nodes, cited);
  return nodes.filter(Boolean);
}

/** Says what is marked: what the answer rests on, or what is nearest to a sentence of it. */
function markNote(isMarked, sentence) {
  if (sentence?.isQuote || (!sentence && !isMarked)) return null;
  const words = !sentence ? "source.marked" : isMarked ? "sentence.marked" : "sentence.unmarked";
  return h("p", { class: "fine" }, icon(sentence ? "info" : "check"), t(words));
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
