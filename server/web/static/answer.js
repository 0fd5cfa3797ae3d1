// One turn of a chat: the question, the steps while it works, the answer with its citations, and what it rests on.

import { render } from "./api.js";
import { button, count, foreign, h, icon, plain, scrolled, seconds, setRendered, webAddress } from "./dom.js";
import { showDetails, showSideBySide, whereOf } from "./details.js";
import { isRetracted } from "./evidence.js";
import { copyMenu, exportMenu } from "./export.js";
import { session } from "./keys.js";
import { methodName } from "./composer.js";
import { SIGNS } from "./sources.js";
import { answerText, labelledSentences, leftOf, putBehind, putCitations, underline } from "./support.js";
import { t, tn } from "./texts.js";

const GOOD = new Set(["answered"]);
const BAD = new Set(["call_failed", "cut"]);

/** Shows a turn; `actions`: retry, edit, source(number). */
export class AnswerView {
  constructor(turn, actions) {
    this.turn = turn;
    this.actions = actions;
    const model = session.models.find((one) => one.id === turn.model);
    this.steps = h("details", { class: "steps", hidden: true, open: turn.state === "running" });
    this.content = h("div", { class: "content", dir: "auto" });
    this.legend = h("div", { class: "legend" });
    this.references = h("div", { class: "references" });
    this.foot = h("div", { class: "answer-foot" });
    this.body = h("div", { class: "answer", "aria-busy": String(turn.state === "running") }, this.steps, this.content, this.legend, this.references, this.foot);
    this.node = h(
      "article",
      { class: "turn", "aria-label": t("turn.label") },
      h(
        "header",
        { class: "question" },
        h("h2", { dir: "auto" }, plain(turn.question)),
        button(t("turn.edit"), { icon: "edit", bare: true, kind: "quiet", onclick: actions.edit }),
      ),
      h("p", { class: "byline" }, model ? methodName(model) : plain(turn.model)),
      this.body,
    );
    this.shown = 0;
    if (turn.state === "running") this.update();
    else this.finish();
  }

  /** Shows what came since the last time. */
  update() {
    this.body.setAttribute("aria-busy", "true");
    this.showSteps();
    const text = answerText(this.turn);
    if (text.length !== this.shown) {
      this.shown = text.length;
      this.content.textContent = plain(text);
      this.content.classList.add("plain");
    }
  }

  tick() {
    const clock = this.steps.querySelector(".clock");
    if (clock) clock.textContent = seconds(this.turn.seconds);
    else this.showSteps();
  }

  /** Shows the answer as it is kept: rendered, with citations, references and what it rests on. */
  async finish() {
    this.body.setAttribute("aria-busy", "false");
    this.showSteps();
    this.steps.open = false;
    this.showReferences();
    this.showFoot();
    const text = answerText(this.turn);
    this.content.textContent = plain(text);
    this.content.classList.add("plain");
    if (!text) return;
    try {
      setRendered(this.content, await render(text));
      this.content.classList.remove("plain");
    } catch {
      // the text stays as it came
    }
    const sentences = labelledSentences(this.turn);
    this.legend.replaceChildren(...legend(this.turn, sentences));
    const ends = underline(this.content, sentences, (sentence) => this.said(sentence));
    this.decorate();
    for (const [sentence, node] of ends) putBehind(node, this.sign(sentence));
  }

  // Steps

  showSteps() {
    const { turn } = this;
    const running = turn.state === "running";
    const steps = turn.trace ? stepsOfTrace(turn) : turn.steps;
    this.steps.hidden = !steps.length && !turn.thinking && !running;
    const calls = steps.filter((step) => step.url).length;
    const sum = running
      ? [h("span", { class: "spinner", "aria-hidden": "true" }), h("span", {}, steps.length ? plain(steps.at(-1).text) : t("steps.working")), h("span", { class: "clock" }, seconds(turn.seconds))]
      : [icon("list"), h("span", {}, [calls ? tn("steps.calls", calls) : "", steps.length > calls ? tn("steps.steps", steps.length - calls) : ""].filter(Boolean).join(", ") || t("steps.thought")), h("span", { class: "clock" }, seconds(turn.seconds))];
    const list = h("ol", { class: "step-list" }, steps.map((step) => stepItem(step)));
    const thinking = turn.thinking.trim() ? foreign(turn.thinking.trim(), "p", { class: "thinking" }) : null;
    const open = this.steps.open;
    this.steps.replaceChildren(h("summary", {}, sum), list, ...(thinking ? [thinking] : []));
    this.steps.open = open;
  }

  // The answer

  decorate() {
    const numbers = new Map(this.turn.references.map((one) => [one.number, one]));
    putCitations(this.content, (number) => numbers.has(number) && this.cite(numbers.get(number)));
    for (const link of this.content.querySelectorAll("a")) if (!webAddress(link.getAttribute("href"))) link.replaceWith(...link.childNodes);
    for (const table of this.content.querySelectorAll("table")) {
      const box = scrolled(t("table.label"));
      table.replaceWith(box);
      box.append(table);
    }
  }

  /** Returns what a sentence stands in: a press shows what was read for it. */
  said(sentence) {
    const node = h("span", { class: `said ${sentence.kind}` });
    node.addEventListener("click", (event) => {
      // Neither a citation nor a selection of text.
      if (!event.target.closest("a, button") && document.getSelection().isCollapsed) this.actions.source(sentence);
    });
    return node;
  }

  /** Returns the same for the keyboard and for screen readers; it is in sight where the sentence is not supported, or focused. */
  sign(sentence) {
    const { kind } = sentence;
    return h("button", { type: "button", class: `sign ${kind}`, "aria-label": t("sentence.open", { verdict: t(`verdict.${kind}`) }), title: t(`verdict.${kind}`), onclick: () => this.actions.source(sentence) }, SIGNS[kind]);
  }

  cite(reference) {
    const label = t("cite.label", { n: reference.number, title: plain(reference.title).slice(0, 120) });
    return h("button", { type: "button", class: "cite", "aria-label": label, title: plain(reference.title), onclick: () => this.actions.source(reference.number) }, String(reference.number));
  }

  showReferences() {
    const { references } = this.turn;
    if (!references.length) {
      this.references.replaceChildren();
      return;
    }
    const items = references.map((one) =>
      h(
        "li",
        {},
        h(
          "button",
          { type: "button", class: "reference", onclick: () => this.actions.source(one.number) },
          h("span", { class: "number" }, String(one.number)),
          h("span", { class: "reference-text" }, foreign(one.title), webAddress(one.url) ? h("span", { class: "reference-address" }, plain(one.url)) : null, isRetracted(this.turn, one) ? h("span", { class: "badge bad" }, t("retracted")) : null),
          icon("right"),
        ),
      ),
    );
    this.references.replaceChildren(h("h3", { class: "label" }, tn("references.title", references.length)), h("ol", { class: "reference-list" }, items));
  }

  showFoot() {
    const { turn } = this;
    const facts = [];
    if (turn.error) facts.push(this.problem());
    const outcome = turn.told?.outcome;
    if (outcome) facts.push(fact(GOOD.has(outcome) ? "check" : BAD.has(outcome) ? "warn" : "info", t(`outcome.${outcome}`), t(`outcome.${outcome}.about`), GOOD.has(outcome) ? "good" : BAD.has(outcome) ? "bad" : "warn"));
    if (turn.state === "done" && turn.method === "direct") facts.push(fact("info", t("outcome.direct"), t("outcome.direct.about"), "warn"));
    const sentences = labelledSentences(turn);
    if (sentences.length) facts.push(support(sentences));
    const left = leftOf(turn);
    if (left) facts.push(fact(left.isNothing ? "shield" : "leave", left.words, t("left.about"), left.isNothing ? "" : "warn"));
    const tools = [
      turn.content ? copyMenu(turn) : null,
      button(t("turn.retry"), { icon: "retry", bare: true, kind: "quiet", onclick: () => this.actions.retry() }),
      turn.trace ? button(t("turn.details"), { icon: "list", kind: "quiet", onclick: () => showDetails(turn, this.actions) }) : null,
      turn.state === "done" && turn.chat ? exportMenu(turn) : null,
    ];
    this.foot.replaceChildren(h("div", { class: "facts" }, facts), h("div", { class: "tools" }, tools));
  }

  problem() {
    const { error, state } = this.turn;
    if (state === "stopped") return fact("stop", t("turn.stopped"), t("turn.stopped.about"), "warn");
    const remedy = new Map([["offline", t("remedy.offline")], ["rate_limit_exceeded", t("remedy.wait", { n: error.retryAfter || 1 })], ["context_length_exceeded", t("remedy.shorter")]]).get(error.code);
    return h("div", { class: "problem", role: "alert" }, icon("warn"), h("div", {}, h("p", {}, foreign(error.message)), h("p", { class: "muted small" }, remedy || t("remedy.retry"))));
  }
}

function fact(name, text, about, kind) {
  return h("span", { class: `fact ${kind}`, title: about }, icon(name), h("span", {}, text));
}

/** Tells in a word what the labels of the sentences say; each mismatch stands in its tooltip. */
function support(sentences) {
  const about = t("support.about");
  const of = count(sentences.length);
  const number = (kind) => sentences.filter((one) => one.kind === kind).length;
  const not = number("not") + number("contrary");
  if (not) {
    const details = sentences.flatMap((one) => one.mismatches.map((found) => plain(found.detail)));
    const words = number("contrary") ? t("support.contrary", { n: count(not), of, contrary: count(number("contrary")) }) : t("support.some", { n: count(not), of });
    return fact("warn", words, [about, ...details.slice(0, 5)].join("\n"), "warn");
  }
  if (sentences.every((one) => one.isQuote)) return fact("check", t("support.quoted"), t("support.quoted.about"), "good");
  if (number("supported")) return fact("check", t("support.stated", { n: count(number("supported")), of }), about, "good");
  const checked = sentences.reduce((sum, one) => sum + one.checked, 0);
  if (checked) return fact("check", tn("support.checked", checked), about, "");
  return fact("info", t("support.none"), about, "");
}

/** Says what the lines under the sentences mean, each that is there, and opens all sentences beside what was read. */
function legend(turn, sentences) {
  const kinds = Object.keys(SIGNS).filter((kind) => sentences.some((one) => one.kind === kind));
  if (!kinds.length) return [];
  const items = kinds.map((kind) => h("li", {}, h("span", { class: `said ${kind}`, "aria-hidden": "true" }, t("legend.sample")), h("span", {}, t(`verdict.${kind}`))));
  return [h("ul", { "aria-label": t("legend.label") }, items), button(t("side.open"), { kind: "quiet", onclick: () => showSideBySide(turn) })];
}

/** Returns the steps of an answer's record: searches and calls in the words of the stream, with addresses and times. */
export function stepsOfTrace(turn) {
  const calls = [...turn.trace.calls];
  const steps = turn.steps.map((step) => ({ ...step }));
  for (const step of steps) {
    if (!step.url || !calls.length) continue;
    const call = calls.shift();
    Object.assign(step, { url: call.url, seconds: call.seconds, status: call.status, where: whereOf(call) });
  }
  return steps;
}

function stepItem(step) {
  const failed = step.status === "error" || step.status === "refused";
  return h(
    "li",
    { class: failed ? "step bad" : "step" },
    h("div", { class: "step-line" }, foreign(step.text, "span", { class: "step-text" }), step.reply === null ? null : [h("span", { class: "arrow", "aria-hidden": "true" }, "→"), foreign(step.reply, "span", { class: "step-reply" })], step.where ? h("span", { class: "badge" }, step.where) : null, step.seconds === undefined ? null : h("span", { class: "clock" }, seconds(step.seconds))),
    step.url ? foreign(step.url, "code", { class: "step-url" }) : null,
  );
}
