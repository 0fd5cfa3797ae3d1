// What a reader takes along: the answer's text, a chat as Markdown, its references as RIS, all of it as JSON.

import { button, h, icon, plain, save, toast } from "./dom.js";
import { citationOf } from "./evidence.js";
import { getTurns } from "./store.js";
import { answerText } from "./support.js";
import { t, tn } from "./texts.js";

/** Returns the menu that copies one answer. */
export function copyMenu(turn) {
  const text = () => plain(answerText(turn));
  return menu([icon("copy"), h("span", {}, t("copy.title"))], [
    [t("copy.text"), () => copy(text())],
    [t("copy.references"), () => copy([text(), ...listed(turn, (one) => `[${one.number}] ${titleOf(one)}`)].join("\n"))],
    [t("copy.markdown"), () => copy(asMarkdown(turn))],
  ]);
}

/** Returns the menu that saves one answer or its whole chat. */
export function exportMenu(turn) {
  const chat = (work) => async () => work(await getTurns(turn.chat));
  return menu([t("export.menu")], [
    [t("export.page"), async () => save("arrowhead-answer.html", "text/html", await (await import("./share.js")).pageOf(turn))],
    [t("export.markdown"), chat((turns) => save("arrowhead-chat.md", "text/markdown", turns.map(asMarkdown).join("\n---\n\n")))],
    [t("export.ris"), chat((turns) => save("arrowhead-references.ris", "application/x-research-info-systems", asRis(turns)))],
    [t("export.json"), chat((turns) => save("arrowhead-chat.json", "application/json", JSON.stringify(turns, null, 2)))],
  ]);
}

function menu(label, entries) {
  const work = (act) => async () => {
    node.open = false;
    try {
      await act();
    } catch (error) {
      toast(error.message, "bad");
    }
  };
  const body = h("div", { class: "menu-items" }, entries.map(([words, act]) => button(words, { kind: "quiet", onclick: work(act) })));
  const node = h("details", { class: "menu" }, h("summary", { class: "button quiet" }, label), body);
  node.addEventListener("keydown", (event) => {
    if (event.key !== "Escape") return;
    node.open = false;
    node.querySelector("summary").focus();
  });
  node.addEventListener("focusout", (event) => {
    if (!node.contains(event.relatedTarget)) node.open = false;
  });
  return node;
}

/** Copies a text, and says whether the browser allowed it. */
export async function copy(text) {
  try {
    await navigator.clipboard.writeText(text);
    toast(t("copied"), "good");
  } catch {
    toast(t("copy_failed"), "bad");
  }
}

/** Returns the lines of a list of references, with its heading. */
function listed(turn, line) {
  return turn.references.length ? ["", tn("references.title", turn.references.length), "", ...turn.references.map(line)] : [];
}

/** Returns a reference in one line. */
function titleOf(reference, escaped = (text) => text) {
  return `${escaped(plain(reference.title).replace(/\s+/g, " "))}${reference.url ? ` <${absolute(reference.url)}>` : ""}`;
}

function asMarkdown(turn) {
  // Titles are no Markdown: what looks like it stays as it is.
  const escaped = (text) => text.replace(/[\\`*_[\]<>#]/g, "\\$&");
  const lines = [`## ${escaped(plain(turn.question).replace(/\s+/g, " "))}`, "", plain(answerText(turn)) || `(${turn.state})`, ...listed(turn, (one) => `- [${one.number}] ${titleOf(one, escaped)}`)];
  const told = [turn.model, turn.told?.outcome, turn.told?.egress, new Date(turn.created).toISOString()].filter(Boolean);
  return [...lines, "", `*${told.join("; ")}*`, ""].join("\n");
}

function absolute(url) {
  return url.startsWith("/") ? location.origin + url : url;
}

/** Returns the references of turns in the format of reference managers, each once. */
export function asRis(turns) {
  const seen = new Set();
  const records = [];
  for (const turn of turns) {
    for (const one of turn.references) {
      const place = one.url || one.title;
      if (seen.has(place)) continue;
      seen.add(place);
      records.push(risOf(one, knownOf(turn, one)));
    }
  }
  return records.join("");
}

/** Returns what the answer's record knows of the work behind a reference: a review has its articles as CSL-JSON. */
function knownOf(turn, reference) {
  const row = (turn.trace?.details?.evidence_table || []).find((one) => one.number === reference.number);
  const cited = citationOf(turn, reference.number) || {};
  if (!row?.item) return { ...cited, authors: cited.authors || [], year: String(cited.year || cited.date || "").slice(0, 4) };
  const { item } = row;
  const authors = (item.author || []).map((one) => one.literal || [one.family, one.given, one.suffix].filter(Boolean).join(", "));
  const [year, ...day] = item.issued?.["date-parts"]?.[0] || [];
  const date = year ? [year, ...day.map((part) => String(part).padStart(2, "0")), "", ""].slice(0, 3).join("/") : "";
  return { title: item.title, authors, journal: item["container-title"], year, date, volume: item.volume, issue: item.issue, pages: item.page, doi: item.DOI, pmid: item.PMID, note: item.note };
}

function risOf(reference, known) {
  const clean = (text) => plain(String(text ?? "")).replace(/\s+/g, " ").trim();
  const pmid = known.pmid || /pubmed\.ncbi\.nlm\.nih\.gov\/(\d+)/.exec(reference.url)?.[1];
  const fields = [
    ["TY", known.journal || pmid ? "JOUR" : "ELEC"],
    ["TI", known.title || reference.title],
    ...known.authors.map((author) => ["AU", author]),
    ["JO", known.journal],
    ["PY", known.year],
    ["DA", /^\d{4}\//.test(known.date || "") ? known.date : ""],
    ["VL", known.volume],
    ["IS", known.issue],
    ["SP", known.pages],
    ["DO", known.doi],
    ["AN", pmid],
    ["UR", reference.url ? absolute(reference.url) : ""],
    ["N1", known.note],
  ];
  const lines = fields.map(([name, value]) => [name, clean(value)]).filter(([, value]) => value);
  return [...lines, ["ER", ""]].map(([name, value]) => `${name}  - ${value}\r\n`).join("");
}
