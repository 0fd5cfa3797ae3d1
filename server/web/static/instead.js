// Under an answer: from which source it is, and the others, each of which one press asks instead.

import { SOURCES, ableModel } from "./composer.js";
import { button, h, icon } from "./dom.js";
import { has, t } from "./texts.js";

// WeiseEule and i-MedRAG read documents too.
const SOURCE_OF = new Map([["weiseeule", "medrag"], ["i-medrag", "medrag"]]);

/** Returns the line for an answer that has ended, null where there is nothing to tell; `ask` gets the chosen model. */
export function insteadOf(turn, ask) {
  if (turn.state === "running" || turn.options.recommend) return null;
  const by = turn.told?.answered_by || (turn.method === "auto" ? "" : turn.method);
  const source = SOURCE_OF.get(by) ?? by;
  const found = new Map((turn.told?.alternatives || []).map((one) => [SOURCE_OF.get(one.method) ?? one.method, one.found]));
  const others = SOURCES.filter((one) => one !== source && ableModel(one)).sort((a, b) => Boolean(found.get(b)) - Boolean(found.get(a)));
  if (turn.method !== "auto" && ableModel("auto")) others.unshift("auto");
  const made = turn.method === "auto" && has(`made.${by}`) ? h("p", { class: "muted small" }, t(`made.${by}`)) : null;
  if (!made && !others.length) return null;
  const offers = others.map((one) => button(t(`instead.${one}`), { kind: "quiet", title: found.get(one) ? t("instead.found") : null, onclick: () => ask(ableModel(one)) }));
  return h("div", { class: "instead" }, made, h("div", { class: "row", role: "group", "aria-label": t("instead.label") }, icon("retry"), offers));
}
