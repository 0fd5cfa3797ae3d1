// An answer as one file that opens without the server: no script, its own styles, everything of others as text.

import { render } from "./api.js";
import { methodName } from "./composer.js";
import { foreign, h, moment, outside, plain, setRendered } from "./dom.js";
import { citationOf, isRetracted } from "./evidence.js";
import { session } from "./keys.js";
import { fileOf, mismatchesOf, SIGNS, verdictOf } from "./sources.js";
import { answerText, bare, labelledSentences, leftOf, putBehind, putCitations, quotesOf, readFor, underline } from "./support.js";
import { has, t, tn } from "./texts.js";

// Whatever stands in the file, a browser runs no script of it and asks for nothing.
const POLICY = "default-src 'none'; style-src 'unsafe-inline'; base-uri 'none'; form-action 'none'";

/** Returns the text of the file. */
export async function pageOf(turn) {
  const page = document.implementation.createHTMLDocument(plain(turn.question).slice(0, 120));
  const { lang, dir } = document.documentElement;
  Object.assign(page.documentElement, { lang, dir });
  page.head.prepend(
    h("meta", { charset: "utf-8" }),
    h("meta", { "http-equiv": "Content-Security-Policy", content: POLICY }),
    h("meta", { name: "viewport", content: "width=device-width, initial-scale=1" }),
    h("meta", { name: "referrer", content: "no-referrer" }),
  );
  const sentences = labelledSentences(turn);
  const left = leftOf(turn);
  const outcome = turn.told?.outcome ?? (turn.method === "direct" ? "direct" : null);
  const parts = [
    h("header", {}, h("h1", { dir: "auto" }, plain(turn.question)), h("p", { class: "about" }, [madeBy(turn), moment(turn.created), outcome && t(`outcome.${outcome}`)].filter(Boolean).join(" · "))),
    await answer(turn, sentences),
    legend(sentences),
    remarks(turn, sentences),
    sources(turn, sentences),
    h("footer", {}, left ? h("p", {}, left.words) : null, h("p", {}, t("privacy.disclaimer"))),
  ];
  page.body.append(h("main", {}, parts.filter(Boolean)));
  const file = new XMLSerializer().serializeToString(page);
  // As a node, the policy of this page would refuse it.
  return `<!doctype html>\n${file.replace("</head>", () => `<style>${STYLES}</style></head>`)}\n`;
}

function madeBy(turn) {
  const model = session.models.find((one) => one.id === turn.model);
  const answeredBy = turn.told?.answered_by;
  return [model && methodName(model), has(`method.${answeredBy}`) && t(`method.${answeredBy}`), plain(turn.model)].filter(Boolean).join(", ");
}

/** Returns a link, or its text where it leads to this server, which a reader of the file may not reach. */
function link(url, ...children) {
  return outside(String(url).startsWith(`${location.origin}/`) ? "" : url, ...children);
}

async function answer(turn, sentences) {
  const content = h("section", { class: "answer", dir: "auto" });
  setRendered(content, await render(answerText(turn)));
  const ends = underline(content, sentences, ({ kind }) => h("span", { class: `said ${kind}`, title: t(`verdict.${kind}`) }));
  const numbers = new Set(turn.references.map((one) => one.number));
  putCitations(content, (number) => numbers.has(number) && h("a", { class: "cite", href: `#source-${number}`, title: t("cite.label", { n: number, title: "" }) }, `[${number}]`));
  for (const [sentence, node] of ends) if (sentence.kind !== "supported") putBehind(node, h("span", { class: `sign ${sentence.kind}`, title: t(`verdict.${sentence.kind}`) }, SIGNS[sentence.kind]));
  for (const node of content.querySelectorAll("a:not(.cite)")) node.replaceWith(link(node.getAttribute("href"), ...node.childNodes));
  return content;
}

function legend(sentences) {
  const kinds = Object.keys(SIGNS).filter((kind) => sentences.some((one) => one.kind === kind));
  return kinds.length ? h("ul", { class: "legend" }, kinds.map((kind) => h("li", {}, h("span", { class: `said ${kind}` }, t("legend.sample")), " ", t(`verdict.${kind}`)))) : null;
}

/** Returns the sentences that nothing supports, with what does not correspond and what the sources say instead. */
function remarks(turn, sentences) {
  const found = sentences.filter((one) => one.kind === "not" || one.kind === "contrary");
  if (!found.length) return null;
  const quotes = (one) => readFor(turn, one).flatMap(({ reference, quotes }) => quotes.map((quote) => h("blockquote", { class: one.kind, dir: "auto" }, `${plain(quote)} [${reference.number}]`)));
  return h("section", {}, h("h2", {}, t("verdict.not")), found.map((one) => h("div", { class: "remark" }, foreign(bare(one.text), "p"), verdictOf(one), mismatchesOf(one), quotes(one))));
}

function sources(turn, sentences) {
  if (!turn.references.length) return null;
  const items = turn.references.map((reference) => {
    const cited = citationOf(turn, reference.number) || {};
    const facts = [cited.section, cited.page ? t("source.page", { n: cited.page }) : "", fileOf(cited.file)].filter(Boolean).map(plain).join(" · ");
    const citing = sentences.filter((one) => one.references.includes(reference));
    const quotes = [...new Set(citing.flatMap((one) => quotesOf(turn, reference, one)))];
    return h(
      "li",
      { id: `source-${reference.number}`, value: String(reference.number) },
      h("p", {}, link(reference.url, foreign(reference.title)), isRetracted(turn, reference) ? h("strong", { class: "bad" }, ` ${t("retracted")}`) : null),
      facts ? h("p", { class: "about" }, facts) : null,
      quotes.map((quote) => h("blockquote", { dir: "auto" }, plain(quote))),
    );
  });
  return h("section", {}, h("h2", {}, tn("references.title", items.length)), h("ol", { class: "sources" }, items));
}

const STYLES = `
:root { color-scheme: light dark; --text: light-dark(#1b1f20, #e9ebeb); --muted: light-dark(#565d5f, #a3abae); --line: light-dark(#e2e2db, #2d3235); --accent: light-dark(#0b6b6b, #63cbc4); --good: light-dark(#1b6b3a, #79d3a0); --warn: light-dark(#7d5200, #eebb62); --bad: light-dark(#a8231b, #ff9b92); }
body { margin: 0; background: light-dark(#fff, #121415); color: var(--text); font: 1rem/1.6 system-ui, sans-serif; }
main { max-width: 44rem; margin: 0 auto; padding: 2rem 1.25rem 3rem; overflow-wrap: anywhere; }
h1 { font-size: 1.4rem; line-height: 1.3; margin: 0; white-space: pre-wrap; }
h2 { font-size: 1rem; margin: 2rem 0 0.5rem; }
p { margin: 0.4rem 0; }
a { color: var(--accent); }
.about, footer, .legend { color: var(--muted); font-size: 0.875rem; }
.answer { margin-top: 1.5rem; font-size: 1.0625rem; }
.answer table { border-collapse: collapse; font-size: 0.9rem; }
.answer :is(td, th) { border: 1px solid var(--line); padding: 0.25rem 0.6rem; text-align: start; vertical-align: top; }
.answer pre { white-space: pre-wrap; }
.cite { font-size: 0.85em; margin-inline-start: 0.15em; text-decoration: none; }
.said { text-decoration: underline 2px; text-underline-offset: 0.25em; text-decoration-skip-ink: none; }
.said.supported { text-decoration-color: var(--good); }
.said.partly { text-decoration-style: dashed; text-decoration-color: var(--warn); }
.said.not { text-decoration-style: wavy; text-decoration-thickness: 1.5px; text-decoration-color: var(--bad); }
.said.contrary { text-decoration-style: double; text-decoration-color: var(--bad); }
.sign { font-size: 0.8em; font-weight: 700; margin-inline-start: 0.25em; color: var(--warn); }
.verdict-line .sign { margin: 0 0.4em 0 0; }
.sign:is(.not, .contrary), .bad { color: var(--bad); }
.sign.supported { color: var(--good); }
.legend { list-style: none; display: flex; flex-wrap: wrap; gap: 0.25rem 1.25rem; padding: 0; margin: 1.25rem 0 0; }
.remark { border-inline-start: 3px solid var(--bad); padding-inline-start: 0.9rem; margin-top: 0.75rem; }
.sources { padding-inline-start: 2rem; }
.sources li { margin-top: 0.75rem; }
.sources li:target { outline: 2px solid var(--accent); outline-offset: 6px; }
blockquote { margin: 0.5rem 0; padding: 0.5rem 0.9rem; border-inline-start: 3px solid var(--accent); background: light-dark(#f2f5f4, #1a1d1f); white-space: pre-wrap; }
blockquote.contrary { border-color: var(--bad); }
footer { margin-top: 2.5rem; border-top: 1px solid var(--line); padding-top: 0.75rem; }
@media print { :root { color-scheme: light; } main { padding: 0; max-width: none; } blockquote, .remark { break-inside: avoid; } }
`;
