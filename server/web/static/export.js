// What a reader takes along: the answer's text, a chat as Markdown, its references as RIS, all of it as JSON.

import { button, h, plain, save } from "./dom.js";
import { citationOf } from "./sources.js";
import { getTurns } from "./store.js";
import { t } from "./texts.js";

/** Returns the answer without its list of references, which the page shows in its own way. */
export function answerText(turn) {
  const text = turn.content;
  const at = text.lastIndexOf("\n\nReferences:\n");
  if (at < 0 || !/^\[\d+\] /.test(text.slice(at + 14))) return text;
  return text.slice(0, at);
}

/** Returns the menu that saves one answer or its whole chat. */
export function exportMenu(turn) {
  const body = h("div", { class: "menu-items" });
  const menu = h("details", { class: "menu" }, h("summary", { class: "button quiet" }, t("export.title")), body);
  const add = (label, work) => body.append(button(label, { kind: "quiet", onclick: async () => { menu.open = false; work(await getTurns(turn.chat)); } }));
  add(t("export.markdown"), (turns) => save("arrowhead-chat.md", "text/markdown", turns.map(asMarkdown).join("\n---\n\n")));
  add(t("export.ris"), (turns) => save("arrowhead-references.ris", "application/x-research-info-systems", asRis(turns)));
  add(t("export.json"), (turns) => save("arrowhead-chat.json", "application/json", JSON.stringify(turns, null, 2)));
  menu.addEventListener("keydown", (event) => {
    if (event.key !== "Escape") return;
    menu.open = false;
    menu.querySelector("summary").focus();
  });
  menu.addEventListener("focusout", (event) => {
    if (!menu.contains(event.relatedTarget)) menu.open = false;
  });
  return menu;
}

function asMarkdown(turn) {
  const lines = [`## ${plain(turn.question).replace(/\s+/g, " ")}`, "", answerText(turn) || `(${turn.state})`, ""];
  for (const one of turn.references) lines.push(`${one.number}. ${plain(one.title)}${one.url ? ` <${absolute(one.url)}>` : ""}`);
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
