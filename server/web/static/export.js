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
      records.push(risOf(one, citationOf(turn, one.number) || {}));
    }
  }
  return records.join("");
}

function risOf(reference, cited) {
  const clean = (text) => plain(text).replace(/\s+/g, " ").trim();
  const pmid = cited.pmid || /pubmed\.ncbi\.nlm\.nih\.gov\/(\d+)/.exec(reference.url)?.[1];
  const fields = [
    ["TY", cited.journal || pmid ? "JOUR" : "ELEC"],
    ["TI", clean(cited.title || reference.title)],
    ...(cited.authors || []).map((author) => ["AU", clean(author)]),
    ["JO", clean(cited.journal || "")],
    ["PY", clean(cited.year || cited.date || "").slice(0, 4)],
    ["DO", clean(cited.doi || "")],
    ["AN", pmid || ""],
    ["UR", reference.url ? absolute(reference.url) : ""],
    ["ER", ""],
  ];
  return `${fields.filter(([name, value]) => value || name === "ER").map(([name, value]) => `${name}  - ${value}`).join("\r\n")}\r\n`;
}

