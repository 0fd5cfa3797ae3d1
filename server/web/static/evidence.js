// What the record of an answer says of its sources: their texts, and the sentences that carry the answer.

import { literally } from "./dom.js";

const PUBMED = /pubmed\.ncbi\.nlm\.nih\.gov\/(\d+)/;

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

/** Returns the text of a source, "" where the server keeps none. */
export function textOf(turn, reference) {
  return reference.text || citationOf(turn, reference.number)?.text || recordOf(turn, reference)?.record.text || "";
}

/** Returns the places of the sentences that the answer rests on, in the text of its source. */
export function sentencesOf(turn, reference) {
  const cited = (turn.trace?.details?.citations || []).filter((one) => one.number === reference.number);
  // The answer's own text stands in the source where it is a quote.
  const quotes = cited.flatMap((one) => [one.quote || one.text, one.sentence, ...(one.sentences || []).map((sentence) => sentence.text)]);
  return placesOf(quotes, reference.text || "");
}

/** Returns the places of quotes in a text; those that it does not have are left out. */
export function placesOf(quotes, text) {
  const found = quotes.filter(Boolean).map((quote) => quotePattern(quote).exec(text));
  return found.filter(Boolean).map((place) => ({ start: place.index, end: place.index + place[0].length }));
}

/** Returns a text by its letters and digits alone, so that line breaks, brackets and cases make no difference. */
export function lettersOf(text) {
  return String(text || "").toLowerCase().replace(/[^\p{L}\p{N}]+/gu, "");
}

/** Returns what stands between quotation marks in a text. */
export function quotesIn(text) {
  return [...text.matchAll(/“([^”]+)”/g)].map((found) => found[1]);
}

/** Returns whether a text has quotes, and each of them stands in one of these references, word for word; some begin with a title. */
export function isQuoted(turn, text, references = turn.references) {
  const quotes = quotesIn(text).map(lettersOf);
  const texts = references.flatMap((one) => {
    const cited = citationOf(turn, one.number) || {};
    return [one.title, textOf(turn, one), cited.title, cited.quote, cited.sentence, ...statementsOf(turn, one).map((found) => found.text)].map(lettersOf);
  });
  return quotes.length > 0 && quotes.every((quote) => quote && texts.some((one) => one.includes(quote)));
}

/** Returns a quote as a pattern: line breaks of the source are blanks in it, and its brackets around numbers parentheses. */
function quotePattern(quote) {
  const words = quote.trim().split(/\s+/).map(literally);
  return new RegExp(words.join("\\s+").replaceAll("\\(", "[([]").replaceAll("\\)", "[)\\]]"), "u");
}

/** Returns the statements of a graph that a reference stands for: all of one article or node. */
export function statementsOf(turn, reference) {
  const cited = (turn.trace?.details?.citations || []).filter((one) => one.edge);
  const has = (urls) => Boolean(reference.url) && (urls || []).includes(reference.url);
  const found = cited.filter((one) => has(one.pmid_urls) || (!one.pmid_urls?.length && has(one.node_urls)));
  return found.length ? found : cited.filter((one) => one.text && reference.title.startsWith(one.text));
}
