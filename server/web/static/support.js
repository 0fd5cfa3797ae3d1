// What each sentence of an answer rests on: the server's label in the words of the page, and where the sentence stands.

import { plain } from "./dom.js";
import { isQuoted, lettersOf, placesOf, quotesIn, recordOf, statementsOf, textOf } from "./evidence.js";
import { t } from "./texts.js";

// A citation of the answer.
const MARKS = /\[\d{1,3}(?:, ?\d{1,3})*\]/g;
// Shorter ones could stand somewhere by chance.
const SURE_LETTERS = 12;

/** Returns the answer without its list of references, which the page shows in its own way. */
export function answerText(turn) {
  const text = turn.content;
  const at = text.lastIndexOf("\n\nReferences:\n");
  if (at < 0 || !/^\[\d+\] /.test(text.slice(at + 14))) return text;
  return text.slice(0, at);
}

/** Returns the numbers of the citations in a text. */
function numbersIn(text) {
  return [...text.matchAll(MARKS)].flatMap(([mark]) => mark.match(/\d+/g) || []).map(Number);
}

/**
 * Returns the sentences of an answer that the server has labelled: text, numbers of sources, the nearest sentence of one
 * (`quote`), what does not correspond (`mismatches`), and `kind`: "supported", "partly", "not", "contrary", or "" where
 * nothing could be compared.
 */
export function labelledSentences(turn) {
  const labels = (turn.told?.support ?? turn.trace?.support)?.sentences || [];
  // The server counts characters, the browser half of some.
  const characters = [...answerText(turn)];
  return labels.map((label) => {
    const text = characters.slice(label.start, label.end).join("");
    const numbers = [...label.citations, ...numbersIn(text)];
    const references = turn.references.filter((one) => numbers.includes(one.number));
    return { ...label, text, references, ...kindOf(turn, label, text, references) };
  });
}

function kindOf(turn, { verdict, checked }, text, references) {
  const told = { contradicted: "contrary", unsupported: "not", supported: "supported" }[verdict];
  if (told) return { kind: told, isQuote: false };
  const isThere = isQuoted(turn, text, references);
  // A quote is stated by its source, unless the sentence says more than the quote.
  const isQuote = isThere && /^(?:[^.!?]*:)?[\s.]*$/u.test(bare(text).replace(/“[^”]+”/g, ""));
  return { kind: isQuote ? "supported" : checked || isThere ? "partly" : "", isQuote };
}

/** Returns in one line what left this machine for an answer, null where the server has not said. */
export function leftOf(turn) {
  const told = turn.told?.egress ?? turn.trace?.egress;
  // Silence is no promise: where nothing was told, nothing is said.
  if (!told) return null;
  if (told === "no data left this machine") return { isNothing: true, words: t("left.nothing") };
  return { isNothing: false, words: t("left.some", { what: plain(told.replace(/^left this machine: /, "")) }) };
}

/** Returns a sentence in one line, without its citations and signs of Markdown. */
export function bare(text) {
  return text.replace(MARKS, "").replace(/\*\*|`/g, "").replace(/\s+/g, " ").replace(/ (?=[.,;:!?])/g, "").trim();
}

/** Returns what was read for a sentence: each source that it cites, with the sentences of it that are nearest. */
export function readFor(turn, sentence) {
  return sentence.references.map((reference) => ({ reference, quotes: quotesOf(turn, reference, sentence) }));
}

/** Returns the sentences of a source that are nearest to a sentence of the answer. */
export function quotesOf(turn, reference, sentence) {
  const statements = statementsFor(turn, reference, sentence);
  if (statements.length) return statements.map((one) => one.text);
  const said = lettersOf(bare(sentence.text));
  const text = textOf(turn, reference);
  const places = placesFor(sentence, text);
  if (places.length || !recordOf(turn, reference)) return places.map(({ start, end }) => text.slice(start, end));
  // A short answer, such as a symbol, stands in a line of its record.
  return said.length > 1 && said.length < 60 ? text.split("\n").filter((line) => lettersOf(line).includes(said)).slice(0, 3) : [];
}

/** Returns the statements of a graph that a sentence quotes, all of its source where it quotes none. */
export function statementsFor(turn, reference, sentence) {
  const statements = statementsOf(turn, reference);
  const said = lettersOf(sentence.text);
  const quoted = statements.filter((one) => said.includes(lettersOf(one.text)));
  return quoted.length ? quoted : statements;
}

/** Returns the places in the text of a source that are nearest to a sentence of the answer. */
export function placesFor(sentence, text) {
  return placesOf([sentence.quote, ...quotesIn(sentence.text)], text);
}

/**
 * Underlines sentences in the rendered answer: each of their pieces goes into an element that `wrap(sentence)` returns.
 * A sentence whose place is not certain is left alone. Returns the last element of each.
 */
export function underline(content, sentences, wrap) {
  const there = lettersThere(content);
  const ends = new Map();
  const cuts = new Map();
  let cursor = 0;
  for (const sentence of sentences) {
    const wanted = lettersSaid(sentence.text);
    const at = wanted ? there.letters.indexOf(wanted, cursor) : -1;
    if (at < 0 || (at > cursor && wanted.length < SURE_LETTERS)) continue;
    cursor = at + wanted.length;
    if (!sentence.kind) continue;
    for (const { node, start, end } of pieces(there.places.slice(at, cursor))) cuts.set(node, [...(cuts.get(node) || []), { start, end, sentence }]);
  }
  for (const [node, parts] of cuts) for (const { start, end, sentence } of parts.reverse()) wrapPart(node, start, end, wrap(sentence), sentence, ends);
  return ends;
}

function wrapPart(node, start, end, element, sentence, ends) {
  const part = node.splitText(start);
  part.splitText(end - start);
  part.replaceWith(element);
  element.append(part);
  ends.set(sentence, element);
}

/** Returns the letters of the rendered text in one string, and the place of each. */
function lettersThere(content) {
  const walker = document.createTreeWalker(content, NodeFilter.SHOW_TEXT);
  const places = [];
  let letters = "";
  while (walker.nextNode()) {
    const node = walker.currentNode;
    for (const found of blanked(node.data).matchAll(/[\p{L}\p{N}]/gu)) {
      letters += found[0];
      for (let unit = 0; unit < found[0].length; unit += 1) places.push({ node, at: found.index + unit });
    }
  }
  return { letters, places };
}

/** Returns the letters of a sentence of the answer as its rendering has them: no address of a link, no number of a list. */
function lettersSaid(text) {
  const shown = blanked(text).replace(/\]\([^)\s]*\)/g, "]").replace(/^\s*(?:[-*+]|\d{1,3}[.)])\s+/gm, "");
  return (shown.match(/[\p{L}\p{N}]/gu) || []).join("");
}

const blanked = (text) => text.replace(MARKS, (mark) => " ".repeat(mark.length));

/** Returns the parts of text nodes that these letters take, with the signs around them. */
function pieces(letters) {
  const parts = [];
  for (const { node, at } of letters) {
    const last = parts.at(-1);
    if (last?.node === node) last.end = at + 1;
    else parts.push({ node, start: at, end: at + 1 });
  }
  for (const part of parts) {
    const { data } = part.node;
    while (/[“‘«([{¿¡]/.test(data[part.start - 1] || "")) part.start -= 1;
    while (/[.,;:!?%"”’»)\]}…]/.test(data[part.end] || "")) part.end += 1;
  }
  return parts;
}

/** Replaces the citations in a rendered answer by what `make(number)` returns. */
export function putCitations(content, make) {
  const walker = document.createTreeWalker(content, NodeFilter.SHOW_TEXT);
  const nodes = [];
  while (walker.nextNode()) if (/\[\d/.test(walker.currentNode.data)) nodes.push(walker.currentNode);
  for (const node of nodes) if (!node.parentElement.closest("a, code, button")) node.replaceWith(...withCitations(node.data, make));
}

function withCitations(text, make) {
  const out = [];
  let from = 0;
  for (const found of text.matchAll(new RegExp(` ?${MARKS.source}`, "g"))) {
    const numbers = numbersIn(found[0]);
    const cites = numbers.map(make);
    if (!cites.every(Boolean)) continue;
    out.push(text.slice(from, found.index));
    out.push(...cites);
    from = found.index + found[0].length;
  }
  out.push(text.slice(from));
  return out;
}

/** Puts something behind a sentence, its citations and its full stop. */
export function putBehind(node, what) {
  let last = node;
  while (last.nextSibling?.matches?.(".cite") || last.nextSibling?.data === "") last = last.nextSibling;
  const stop = /^[.,;:!?)”"]+/.exec(last.nextSibling?.data || "");
  if (stop) {
    last = last.nextSibling;
    last.splitText(stop[0].length);
  }
  last.after(what);
}
