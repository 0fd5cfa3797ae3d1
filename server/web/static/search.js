// Searches one namespace with all retrievers side by side, and counts keywords in what they found.

import { post } from "./api.js";
import { button, foreign, h, icon, literally, outside, plain } from "./dom.js";
import { t } from "./texts.js";

const RETRIEVERS = ["hybrid", "dense", "bm25", "pes2"];
const HITS = 8;
const WORDS = /[\p{L}\p{N}][\p{L}\p{N}+\-./]*[\p{L}\p{N}+]|[\p{L}\p{N}]/gu;
const COMMON = new Set("a an and are as at be by can do does for from has have how in into is it its of on or that the their these this to was were what when where which who why with".split(" "));

/** Returns the search of a namespace. */
export function searchView(namespace) {
  const fixed = new Set();
  const field = h("input", { type: "search", placeholder: t("search.placeholder"), "aria-label": t("search.placeholder"), required: true });
  const keywords = h("div", { class: "row keywords" });
  const columns = h("div", { class: "retrievers" });
  const counts = h("div", {});
  const form = h("form", { class: "row nowrap" }, field, button(t("search.go"), { icon: "search", kind: "primary", type: "submit" }));
  const run = () => search(namespace, field.value.trim(), fixed, { columns, counts });
  form.addEventListener("submit", (event) => {
    event.preventDefault();
    fixed.clear();
    showKeywords(keywords, keywordsOf(field.value), fixed, run);
    run();
  });
  return h("div", { class: "form" }, form, keywords, columns, counts);
}

/** Returns the words of a question that carry meaning, each once, as written. */
export function keywordsOf(question) {
  const seen = new Map();
  for (const [word] of question.matchAll(WORDS)) if (!COMMON.has(word.toLowerCase())) seen.set(word.toLowerCase(), word);
  return [...seen.values()].slice(0, 12);
}

function showKeywords(node, words, fixed, run) {
  const chips = words.map((word) => {
    const chip = h("button", { type: "button", class: "chip", "aria-pressed": "false" }, foreign(word));
    chip.addEventListener("click", () => {
      if (fixed.delete(word)) chip.setAttribute("aria-pressed", "false");
      else {
        fixed.add(word);
        chip.setAttribute("aria-pressed", "true");
      }
      run();
    });
    return chip;
  });
  node.replaceChildren(...(words.length ? [h("span", { class: "muted small" }, t("search.fixed")), ...chips] : []));
}

async function search(namespace, query, fixed, { columns, counts }) {
  const able = RETRIEVERS.filter((one) => (one === "dense" ? namespace.encoder !== "none" : one === "hybrid" ? namespace.encoder !== "none" && namespace.words !== "none" : one === "bm25" ? namespace.words !== "none" : namespace.keywords));
  const words = keywordsOf(query);
  const lists = new Map(able.map((one) => [one, h("ol", { class: "hits" }, h("li", { class: "muted" }, t("search.searching")))]));
  columns.replaceChildren(...able.map((one) => h("section", { class: "retriever" }, h("h3", {}, t(`retriever.${one}`)), h("p", { class: "muted small" }, t(`retriever.${one}.about`)), lists.get(one))));
  counts.replaceChildren();
  const found = new Map();
  await Promise.all(
    able.map(async (retriever) => {
      try {
        const asked = retriever === "pes2" ? steered(words, fixed, query) : query;
        const { data } = await post("/v1/search", { query: asked, namespaces: [namespace.name], k: HITS, retriever });
        lists.get(retriever).replaceChildren(...(data.length ? data.map((hit) => hitItem(namespace, hit)) : [h("li", { class: "muted" }, t("search.nothing"))]));
        data.forEach((hit) => found.set(hit.id, hit));
      } catch (error) {
        lists.get(retriever).replaceChildren(h("li", { class: "error-text" }, foreign(error.message)));
      }
    }),
  );
  if (found.size && words.length) counts.replaceChildren(h("h3", { class: "label" }, t("search.counts")), countTable([...found.values()], words, fixed));
}

/** Returns the query of PES2: fixed keywords between two stars, others between one. */
function steered(words, fixed, query) {
  if (!words.length) return query;
  return `#${words.map((word) => (fixed.has(word) ? `**${word}**` : `*${word}*`)).join(" ")}`;
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

function countTable(hits, words, fixed) {
  const patterns = words.map((word) => new RegExp(`(?<![\\p{L}\\p{N}])${literally(word)}(?![\\p{L}\\p{N}])`, "giu"));
  const rows = hits.map((hit) => ({ hit, numbers: patterns.map((pattern) => (hit.text.match(pattern) || []).length) }));
  const present = (row) => row.numbers.filter(Boolean).length;
  const total = (row) => row.numbers.reduce((a, b) => a + b, 0);
  rows.sort((a, b) => present(b) - present(a) || total(b) - total(a));
  const heads = words.map((word) => h("th", { scope: "col" }, fixed.has(word) ? icon("check") : null, foreign(word)));
  return h(
    "div",
    { class: "scroll", tabindex: "0", role: "region", "aria-label": t("search.counts") },
    h("table", {}, h("thead", {}, h("tr", {}, h("th", { scope: "col" }, t("search.passage")), heads)), h("tbody", {}, rows.map(({ hit, numbers }) => h("tr", {}, h("td", {}, foreign(hit.title || hit.document_id)), numbers.map((number) => h("td", { class: number ? "number-cell some" : "number-cell" }, String(number))))))),
  );
}
