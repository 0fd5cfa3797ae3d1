// How an answer was made: the transcript, the calls, the graph, what left the machine, and how to ask again.

import { button, dialog, foreign, h, moment, outside, plain, save, scrolled, seconds, tabs } from "./dom.js";
import { graphOf, graphView } from "./graph.js";
import { mismatchesOf, verdictOf } from "./sources.js";
import { bare, labelledSentences, leftOf, readFor } from "./support.js";
import { t, tn } from "./texts.js";

/** Opens the record of a turn. */
export function showDetails(turn, actions) {
  const entries = [{ label: t("details.transcript"), make: () => transcript(turn.trace.spans) }];
  if (turn.trace.calls.length || turn.trace.searches.length) entries.push({ label: t("details.calls"), make: () => calls(turn.trace) });
  if (graphOf(turn).edges.length) entries.push({ label: t("details.graph"), make: () => graphView(turn) });
  const keywords = turn.trace.details?.keyword_table;
  let node = null;
  const again_ = (options) => {
    node.close();
    actions.retry(options);
  };
  if (keywords?.rows?.length && keywords.keywords?.length) entries.push({ label: t("details.keywords"), make: () => keywordTable(keywords, again_) });
  entries.push({ label: t("details.left"), make: () => left(turn) });
  entries.push({ label: t("details.again"), make: () => again(turn) });
  node = dialog(t("details.title"), tabs(t("details.title"), entries), { wide: true });
}

/** Shows each sentence of an answer beside the sentences of its sources that are nearest to it. */
export function showSideBySide(turn) {
  const rows = labelledSentences(turn).map((sentence) => {
    const said = h("div", { class: "side-said" }, foreign(bare(sentence.text), "p"), sentence.kind ? verdictOf(sentence) : h("p", { class: "muted small" }, t("verdict.none")), mismatchesOf(sentence));
    return h("li", { class: `side for-${sentence.kind || "none"}` }, said, h("div", { class: "side-read" }, readNodes(turn, sentence)));
  });
  const heads = h("div", { class: "side side-heads", "aria-hidden": "true" }, h("span", { class: "label" }, t("side.said")), h("span", { class: "label" }, t("sentence.read")));
  dialog(t("side.title"), [heads, h("ul", { class: "side-list" }, rows)], { wide: true });
}

function readNodes(turn, sentence) {
  const read = readFor(turn, sentence);
  if (!read.length) return h("p", { class: "muted small" }, t("sentence.uncited"));
  return read.map(({ reference, quotes }) => [
    quotes.length ? quotes.map((quote) => h("blockquote", { dir: "auto" }, h("mark", {}, plain(quote)))) : h("p", { class: "muted small" }, t("sentence.unmarked")),
    h("p", { class: "small" }, h("span", { class: "number" }, String(reference.number)), " ", outside(reference.url, foreign(reference.title))),
  ]);
}

function transcript(spans) {
  const blocks = spans.map(({ kind, text }) =>
    h("div", { class: `span ${kind}` }, h("span", { class: "span-kind" }, t(`span.${kind}`)), h("pre", { dir: "auto", tabindex: "0" }, plain(text))),
  );
  return h("div", { class: "transcript" }, h("p", { class: "muted" }, t("details.transcript.about")), blocks.length ? blocks : h("p", {}, t("details.transcript.none")));
}

function calls(trace) {
  const rows = trace.calls.map((call) =>
    h(
      "tr",
      {},
      h("td", {}, foreign(call.url, "code")),
      h("td", {}, foreign(call.summary)),
      h("td", { class: "number-cell" }, seconds(call.seconds)),
      h("td", {}, whereOf(call)),
    ),
  );
  const searches = trace.searches.map(({ queries, sources }) => h("li", {}, foreign(queries.join("; ")), h("span", { class: "muted" }, ` · ${tn("details.sources", sources.length)}`)));
  return h(
    "div",
    {},
    rows.length ? table([t("details.call"), t("details.reply"), t("details.time"), t("details.where")], rows) : null,
    searches.length ? h("div", {}, h("h3", { class: "label" }, t("details.searches")), h("ul", { class: "plain-list" }, searches)) : null,
  );
}

/** Returns who answered a call, "" where that is not known or nobody was asked. */
export function whereOf({ record }) {
  if (record?.from_cache) return t("where.cache");
  const place = record?.egress?.went_to;
  if (!place) return "";
  return record.egress.left ? t("where.left", { host: plain(place) }) : t("where.here");
}

/** Returns how often each keyword stands in each passage, with the spellings that count; fixed ones can be changed. */
function keywordTable({ keywords, rows }, again_) {
  const fixed = new Set(keywords.filter((one) => one.fixed).map((one) => one.text));
  const chips = keywords.map(({ text, spellings = [] }) => {
    const others = spellings.map((one) => one.text).filter((one) => one !== text);
    const chip = h("button", { type: "button", class: "chip", "aria-pressed": String(fixed.has(text)), title: others.map(plain).join(", ") }, foreign(text));
    chip.addEventListener("click", () => {
      if (!fixed.delete(text)) fixed.add(text);
      chip.setAttribute("aria-pressed", String(fixed.has(text)));
    });
    return chip;
  });
  const also = keywords.flatMap(({ text, spellings = [] }) => spellings.filter((one) => one.text !== text && one.occurrences).map((one) => h("li", {}, foreign(text), " → ", foreign(one.text), h("span", { class: "muted" }, ` · ${plain(one.kind)} · ${one.occurrences}`))));
  const body = rows.map((row) => h("tr", {}, h("td", {}, foreign(row.title || row.document_id), row.page ? h("span", { class: "muted small" }, ` ${t("source.page", { n: row.page })}`) : null), row.counts.map((number) => h("td", { class: number ? "number-cell some" : "number-cell" }, String(number)))));
  const ask = button(t("keywords.again"), { icon: "retry", onclick: () => again_({ keywords: keywords.map((one) => one.text), fixed: fixed.size ? [...fixed] : "none" }) });
  return h(
    "div",
    {},
    h("div", { class: "row keywords" }, h("span", { class: "muted small" }, t("search.fixed")), chips, ask),
    table([t("search.passage"), ...keywords.map((one) => plain(one.text))], body),
    also.length ? h("details", { class: "more" }, h("summary", {}, t("keywords.spellings")), h("ul", { class: "plain-list" }, also)) : null,
  );
}

/** Returns a table that scrolls by itself. */
export function table(heads, rows, properties = {}) {
  return scrolled(
    t("table.label"),
    h("table", properties, h("thead", {}, h("tr", {}, heads.map((head) => h("th", { scope: "col" }, head)))), h("tbody", {}, rows)),
  );
}

function left(turn) {
  const gone = turn.trace.calls.filter((call) => call.record?.egress?.left);
  const kept = turn.trace.calls.filter((call) => call.record?.egress?.withheld?.length || call.record?.egress?.note);
  const rows = gone.map((call) => h("tr", {}, h("td", {}, foreign(call.record.egress.went_to)), h("td", {}, foreign((call.record.egress.classes || []).join(", "))), h("td", {}, foreign(call.url, "code"))));
  return h(
    "div",
    {},
    h("p", { class: "lead" }, leftOf(turn)?.words ?? t("left.unknown")),
    h("p", { class: "muted" }, t("left.about")),
    rows.length ? table([t("left.host"), t("left.kinds"), t("details.call")], rows) : null,
    kept.length ? h("ul", { class: "plain-list" }, kept.map((call) => h("li", {}, foreign(call.record.egress.note || call.record.egress.withheld.join(", "))))) : null,
  );
}

function again(turn) {
  const body = { model: turn.model, messages: [{ role: "user", content: turn.question }], ...(Object.keys(turn.options || {}).length ? { arrowhead: turn.options } : {}) };
  const quoted = JSON.stringify(body).replaceAll("'", "'\\''");
  const command = `curl ${location.origin}/v1/chat/completions -H 'Content-Type: application/json' -H "Authorization: Bearer $KEY" -d '${quoted}'`;
  return h(
    "div",
    { class: "form" },
    h("dl", { class: "facts-list" }, h("dt", {}, t("details.model")), h("dd", {}, foreign(turn.model)), h("dt", {}, t("details.id")), h("dd", {}, foreign(turn.id || "")), h("dt", {}, t("details.when")), h("dd", {}, moment(turn.created))),
    h("pre", { class: "code", tabindex: "0", dir: "ltr" }, plain(command)),
    h("div", { class: "row" }, button(t("details.save"), { icon: "download", onclick: () => save("arrowhead-record.json", "application/json", JSON.stringify(turn.trace, null, 2)) })),
  );
}
