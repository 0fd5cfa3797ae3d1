// Where a question is written: the field, the sources that are asked, and what goes with it.

import { get } from "./api.js";
import { button, dialog, foreign, h, icon } from "./dom.js";
import { session } from "./keys.js";
import { has, t, titleOf, tn } from "./texts.js";

const CHOSEN = "method";
const ORDER = ["auto", "genegpt", "kg-rag", "medrag", "i-medrag", "clinfo", "weiseeule", "direct"];
// What people switch on, each by the method that asks it alone.
export const SOURCES = ["genegpt", "kg-rag", "medrag", "clinfo"];
// Further methods of a source; Auto knows WeiseEule, which reads the marked keywords of a question.
const READERS = new Map([["i-medrag", "medrag"], ["weiseeule", "medrag"]]);
const ALONGSIDE = new Map([["medrag", ["weiseeule"]]]);
// Methods that read namespaces, and those that call NCBI.
const READS = new Set(["auto", "medrag", "i-medrag", "weiseeule", "clinfo"]);
const CALLS = new Set(["auto", "genegpt", "clinfo"]);
// WeiseEule's, the default first.
const RETRIEVERS = ["pes2", "pes1", "bm25", "hybrid"];
const MODES = ["off", "local-first", "ncbi"];

/** Returns the models in the order of lists, those that can answer first. */
export function choices() {
  const place = (one) => (ORDER.includes(one.method) ? ORDER.indexOf(one.method) : 5.5);
  // Auto has a second name, with that of the base model.
  const once = session.models.filter((one) => one.method !== "auto" || !one.id.includes(":"));
  return once.sort((a, b) => place(a) - place(b));
}

export function isAble(model) {
  return model.arrowhead?.synthesis?.length !== 0;
}

/** Returns the name that people know a method by. */
export function methodName(model) {
  return has(`method.${model.method}`) ? t(`method.${model.method}`) : model.method;
}

/** Returns the one line that says what a method is for. */
export function methodAbout(model) {
  return has(`method.${model.method}.about`) ? t(`method.${model.method}.about`) : model.description;
}

/** Returns example questions that the data which ships answers. */
export function examples(model) {
  const found = [];
  for (let place = 1; has(`example.${model.method}.${place}`); place += 1) found.push(t(`example.${model.method}.${place}`));
  return found;
}

/** Returns the model that answers by a method, where it can. */
export function ableModel(method) {
  return choices().find((one) => one.method === method && isAble(one));
}

/** Returns those options that a model takes like others: what a person chose to be stricter stays so. */
export function commonOptions({ method }, { grounded, egress, namespaces }) {
  const common = { ...(grounded && method !== "direct" && { grounded }), ...(egress && CALLS.has(method) && { egress }) };
  return READS.has(method) && namespaces ? { ...common, namespaces } : common;
}

function kept() {
  try {
    return JSON.parse(localStorage.getItem(CHOSEN)) || {};
  } catch {
    return {}; // another program of this address has written it
  }
}

/** Makes the composer; `ask` is called with a question, `stop` to end the running answer. */
export class Composer {
  constructor({ ask, stop }) {
    this.options = {};
    this.changed = () => {};
    this.field = h("textarea", { id: "question", rows: 1, placeholder: t("ask.placeholder"), "aria-label": t("ask.label"), maxlength: 20000, dir: "auto" });
    this.sendButton = button(t("ask.send"), { icon: "send", bare: true, kind: "primary round", type: "submit" });
    this.stopButton = button(t("ask.stop"), { icon: "stop", bare: true, kind: "round", onclick: stop, hidden: true });
    this.sources = h("div", { class: "sources", role: "group", "aria-label": t("sources.label") });
    this.optionsButton = button(t("options.title"), { icon: "sliders", bare: true, onclick: () => this.choose() });
    this.node = h(
      "form",
      { class: "composer" },
      h("div", { class: "composer-field" }, this.field, this.stopButton, this.sendButton),
      h("div", { class: "composer-row" }, this.sources, this.optionsButton),
    );
    this.node.addEventListener("submit", (event) => {
      event.preventDefault();
      this.submit(ask);
    });
    this.field.addEventListener("input", () => this.fit());
    this.field.addEventListener("keydown", (event) => {
      if (event.key === "Enter" && !event.shiftKey && !event.isComposing) {
        event.preventDefault();
        this.node.requestSubmit();
      } else if (event.key === "Escape" && this.running) stop();
    });
    this.take(kept());
  }

  submit(ask) {
    const question = this.named(this.field.value.trim());
    if (!question || this.running || !this.model) return;
    this.setText("");
    ask(question);
  }

  /** Chooses the method that a question begins with, as in "/kg-rag What …", and returns the rest of the question. */
  named(text) {
    const [, name, question] = /^\/([a-z-]+)\s+(.+)$/s.exec(text) || [];
    const model = name && ableModel(name);
    if (!model) return text;
    this.setModel(model);
    return question;
  }

  setText(text) {
    this.field.value = text;
    this.fit();
  }

  fit() {
    this.field.style.height = "auto";
    this.field.style.height = `${Math.min(this.field.scrollHeight, 220)}px`;
  }

  setRunning(running) {
    this.running = running;
    this.stopButton.hidden = !running;
    this.sendButton.hidden = running;
  }

  /** Returns who is asked, as `take` takes it. */
  get choice() {
    return { model: this.model?.id, on: [...this.on] };
  }

  /** Asks as it was chosen before, where that can still be: by a model, or by Auto with some sources. */
  take({ model, on = [] }) {
    const able = choices().filter(isAble);
    this.model = able.find((one) => one.id === model) || able[0];
    this.on = new Set(this.model?.method === "auto" ? on.filter(ableModel) : []);
    this.show();
  }

  setModel(model, on = new Set()) {
    this.model = model;
    this.on = on;
    this.options = commonOptions(model, this.options);
    localStorage.setItem(CHOSEN, JSON.stringify(this.choice));
    this.show();
    this.changed();
  }

  /** Returns the sources that are on, none where all are asked. */
  get chosen() {
    const method = this.model?.method;
    const one = READERS.get(method) ?? method;
    return SOURCES.includes(one) ? new Set([one]) : this.on;
  }

  /** Switches a source on or off: one alone is asked by its method, several by Auto; none means all. */
  toggle(source) {
    const on = new Set(this.chosen);
    if (!on.delete(source)) on.add(source);
    const auto = ableModel("auto");
    const served = SOURCES.filter(ableModel);
    if (on.size === 1 || !auto) this.setModel(ableModel(auto ? [...on][0] : source));
    else this.setModel(auto, on.size === served.length ? new Set() : on);
  }

  /** Returns what goes with a question: the options, and the methods that Auto may use. */
  get sent() {
    if (!this.on.size) return { ...this.options };
    return { ...this.options, methods: [...this.on].flatMap((one) => [one, ...(ALONGSIDE.get(one) || [])]) };
  }

  show() {
    const auto = ableModel("auto");
    const { chosen } = this;
    const method = this.model?.method;
    const served = SOURCES.filter((one) => session.models.some((model) => model.method === one));
    const all = auto ? [chip(t("sources.auto"), method === "auto" && !chosen.size, () => this.setModel(auto))] : [];
    const chips = served.map((one) => chip(t(`sources.${one}`), chosen.has(one), () => this.toggle(one), !ableModel(one)));
    const at = [...this.sources.children].indexOf(document.activeElement);
    this.sources.replaceChildren(...all, ...chips);
    if (at >= 0) this.sources.children[at].focus();
    this.showButton(method === "auto" || SOURCES.includes(method));
  }

  /** Shows the name of a method that is not one of the switches. */
  showButton(isPlain) {
    const name = this.model ? methodName(this.model) : t("ask.no_model");
    this.optionsButton.replaceChildren(icon("sliders"), ...(isPlain ? [] : [h("span", {}, name)]));
    this.optionsButton.setAttribute("aria-label", isPlain ? t("options.title") : `${t("options.title")}: ${name}`);
    this.optionsButton.classList.toggle("bare", isPlain);
    this.optionsButton.classList.toggle("on", !isPlain || Object.keys(this.options).length > 0);
  }

  /** Returns a line on who is asked. */
  get about() {
    if (!this.model) return t("ask.no_model");
    if (this.on.size) return t("sources.some", { names: [...this.on].map((one) => t(`sources.${one}`)).join(", ") });
    return this.model.method === "auto" ? t("sources.auto.about") : `${methodName(this.model)}: ${methodAbout(this.model)}`;
  }

  /** Opens the options, with the method by its name. */
  async choose() {
    const body = h("div", { class: "form" });
    const method = this.methodChoice(() => this.showOptions(parts));
    const parts = h("div", { class: "form" });
    body.append(method, parts);
    dialog(t("options.title"), body, { onclose: () => this.show() });
    await this.showOptions(parts);
  }

  methodChoice(changed) {
    const field = h("select", { id: "method", "aria-describedby": "method-about" }, choices().map((one) => h("option", { value: one.id, disabled: !isAble(one) }, isAble(one) ? methodName(one) : `${methodName(one)} (${t("method.unable")})`)));
    const about = h("p", { class: "muted small", id: "method-about" });
    const tell = () => about.replaceChildren([methodAbout(this.model), synthesisNote(this.model)].filter(Boolean).join(" "));
    field.value = this.model.id;
    tell();
    field.addEventListener("change", () => {
      this.setModel(session.models.find((one) => one.id === field.value));
      tell();
      changed();
    });
    return h("div", { class: "field" }, h("label", { for: "method" }, t("method.title")), field, about, h("p", { class: "muted small" }, t("method.typed"), " ", t("method.served", { base: "" }), foreign(session.models[0]?.base || "", "code")));
  }

  async showOptions(node) {
    const { model } = this;
    const { method } = model;
    const parts = [];
    if (READS.has(method)) parts.push(await this.namespaceChoice());
    if (method === "weiseeule") parts.push(this.retrieverChoice());
    if (this.options.articles) parts.push(h("p", { class: "muted small" }, tn("options.articles", this.options.articles.length)));
    if (method !== "direct") parts.push(this.strictChoice());
    if (CALLS.has(method)) parts.push(this.egressChoice());
    // Another method was chosen meanwhile.
    if (this.model === model) node.replaceChildren(...parts);
  }

  async namespaceChoice() {
    let names = [];
    try {
      names = (await get("/v1/namespaces")).data;
    } catch (error) {
      return h("p", { class: "error-text" }, error.message);
    }
    if (!names.length) return h("p", { class: "muted" }, t("options.no_namespaces"));
    const chosen = new Set(this.options.namespaces || []);
    const boxes = names.map((one) => {
      const { name } = one;
      const box = h("input", { type: "checkbox", checked: chosen.has(name) });
      box.addEventListener("change", () => {
        if (box.checked) chosen.add(name);
        else chosen.delete(name);
        this.set("namespaces", chosen.size ? [...chosen] : undefined);
      });
      return h("label", { class: "check" }, box, foreign(titleOf(one)));
    });
    return h("fieldset", {}, h("legend", {}, t("options.namespaces")), h("p", { class: "muted small" }, t("options.namespaces.about")), boxes);
  }

  retrieverChoice() {
    const field = h("select", { id: "retriever" }, RETRIEVERS.map((one) => h("option", { value: one }, `${t(`compared.${one}`)}: ${t(`compared.${one}.about`)}`)));
    field.value = this.options.retriever || RETRIEVERS[0];
    field.addEventListener("change", () => this.set("retriever", field.value === RETRIEVERS[0] ? undefined : field.value));
    return h("div", { class: "field" }, h("label", { for: "retriever" }, t("options.retriever")), field);
  }

  strictChoice() {
    const box = h("input", { type: "checkbox", checked: this.options.grounded === "strict" });
    box.addEventListener("change", () => this.set("grounded", box.checked ? "strict" : undefined));
    return h("label", { class: "check" }, box, h("span", {}, t("options.strict"), h("span", { class: "muted small block" }, t("options.strict.about"))));
  }

  egressChoice() {
    const ceiling = MODES.indexOf(session.permissions.egress);
    const field = h("select", { id: "egress" }, MODES.slice(0, ceiling + 1).map((mode) => h("option", { value: mode }, t(`egress.${mode}.about`))));
    field.value = this.options.egress || session.permissions.egress;
    field.addEventListener("change", () => this.set("egress", field.value === session.permissions.egress ? undefined : field.value));
    return h("div", { class: "field" }, h("label", { for: "egress" }, t("options.egress")), field, h("p", { class: "muted small" }, t("options.egress.about")));
  }

  set(name, value) {
    if (value === undefined) delete this.options[name];
    else this.options[name] = value;
  }
}

function chip(label, isOn, onclick, disabled = false) {
  return h("button", { type: "button", class: "source", "aria-pressed": String(isOn), disabled, title: disabled && !isOn ? t("method.unable") : null, onclick }, label);
}

/** Returns what a reader should know of the way in which a method's answers are made here, "" for nothing. */
export function synthesisNote(model) {
  return model.arrowhead?.synthesis?.[0] === "extractive" ? t("method.extractive") : "";
}
