// Where a question is written: the field, the choice of method, and its options.

import { get } from "./api.js";
import { button, dialog, foreign, h, icon } from "./dom.js";
import { session } from "./keys.js";
import { has, t, tn } from "./texts.js";

const CHOSEN = "method";
const ORDER = ["auto", "genegpt", "kg-rag", "medrag", "i-medrag", "clinfo", "weiseeule", "direct"];
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

function usual() {
  const able = choices().filter(isAble);
  const kept = able.find((one) => one.id === localStorage.getItem(CHOSEN));
  return kept || able[0];
}

/** Makes the composer; `ask` is called with a question, `stop` to end the running answer. */
export class Composer {
  constructor({ ask, stop }) {
    this.model = usual();
    this.options = {};
    this.changed = () => {};
    this.field = h("textarea", { id: "question", rows: 1, placeholder: t("ask.placeholder"), "aria-label": t("ask.label"), maxlength: 20000, dir: "auto" });
    this.sendButton = button(t("ask.send"), { icon: "send", bare: true, kind: "primary round", type: "submit" });
    this.stopButton = button(t("ask.stop"), { icon: "stop", bare: true, kind: "round", onclick: stop, hidden: true });
    this.picker = h("button", { type: "button", class: "picker", "aria-haspopup": "dialog", onclick: () => this.pick() });
    this.optionsButton = button(t("options.title"), { icon: "sliders", bare: true, onclick: () => this.choose() });
    this.node = h(
      "form",
      { class: "composer" },
      this.field,
      h("div", { class: "composer-row" }, this.picker, this.optionsButton, h("span", { class: "grow" }), this.stopButton, this.sendButton),
    );
    this.node.addEventListener("submit", (event) => {
      event.preventDefault();
      const question = this.field.value.trim();
      if (!question || this.running || !this.model) return;
      this.setText("");
      ask(question);
    });
    this.field.addEventListener("input", () => this.fit());
    this.field.addEventListener("keydown", (event) => {
      if (event.key === "Enter" && !event.shiftKey && !event.isComposing) {
        event.preventDefault();
        this.node.requestSubmit();
      } else if (event.key === "Escape" && this.running) stop();
    });
    this.showModel();
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

  setModel(model) {
    this.model = model;
    this.options = {};
    localStorage.setItem(CHOSEN, model.id);
    this.showModel();
    this.changed();
  }

  showModel() {
    const name = this.model ? methodName(this.model) : t("ask.no_model");
    this.picker.replaceChildren(h("span", { class: "picker-name" }, name), icon("chevron"));
    this.picker.setAttribute("aria-label", t("method.choose", { name }));
    const method = this.model?.method;
    this.optionsButton.hidden = !method || method === "direct";
    this.optionsButton.classList.toggle("on", Object.keys(this.options).length > 0);
  }

  pick() {
    const list = choices().map((model) =>
      h(
        "button",
        { type: "button", class: "choice", "aria-pressed": String(model === this.model), disabled: !isAble(model), onclick: () => { this.setModel(model); window_.close(); this.field.focus(); } },
        h("span", { class: "choice-name" }, methodName(model), model === this.model ? icon("check") : null),
        h("span", { class: "choice-about" }, methodAbout(model)),
        h("span", { class: "choice-note" }, isAble(model) ? synthesisNote(model) : t("method.unable")),
      ),
    );
    const window_ = dialog(t("method.title"), h("div", { class: "choices" }, list, h("p", { class: "muted small" }, t("method.served", { base: "" }), foreign(session.models[0]?.base || "", "code"))));
  }

  async choose() {
    const method = this.model.method;
    const parts = [];
    if (READS.has(method)) parts.push(await this.namespaceChoice());
    if (method === "weiseeule") parts.push(this.retrieverChoice(), this.compareChoice());
    if (this.options.articles) parts.push(h("p", { class: "muted small" }, tn("options.articles", this.options.articles.length)));
    parts.push(this.strictChoice());
    if (CALLS.has(method)) parts.push(this.egressChoice());
    dialog(t("options.title"), h("div", { class: "form" }, parts), { onclose: () => this.showModel() });
  }

  async namespaceChoice() {
    let names = [];
    try {
      names = (await get("/v1/namespaces")).data.map((one) => one.name);
    } catch (error) {
      return h("p", { class: "error-text" }, error.message);
    }
    if (!names.length) return h("p", { class: "muted" }, t("options.no_namespaces"));
    const chosen = new Set(this.options.namespaces || []);
    const boxes = names.map((name) => {
      const box = h("input", { type: "checkbox", checked: chosen.has(name) });
      box.addEventListener("change", () => {
        if (box.checked) chosen.add(name);
        else chosen.delete(name);
        this.set("namespaces", chosen.size ? [...chosen] : undefined);
      });
      return h("label", { class: "check" }, box, foreign(name));
    });
    return h("fieldset", {}, h("legend", {}, t("options.namespaces")), h("p", { class: "muted small" }, t("options.namespaces.about")), boxes);
  }

  retrieverChoice() {
    const field = h("select", { id: "retriever" }, RETRIEVERS.map((one) => h("option", { value: one }, `${t(`compared.${one}`)}: ${t(`compared.${one}.about`)}`)));
    field.value = this.options.retriever || RETRIEVERS[0];
    field.addEventListener("change", () => this.set("retriever", field.value === RETRIEVERS[0] ? undefined : field.value));
    return h("div", { class: "field" }, h("label", { for: "retriever" }, t("options.retriever")), field);
  }

  compareChoice() {
    const box = h("input", { type: "checkbox", checked: this.options.compare === true });
    box.addEventListener("change", () => this.set("compare", box.checked || undefined));
    return h("label", { class: "check" }, box, h("span", {}, t("options.compare"), h("span", { class: "muted small block" }, t("options.compare.about"))));
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

/** Returns what a reader should know of the way in which a method's answers are made here, "" for nothing. */
export function synthesisNote(model) {
  return model.arrowhead?.synthesis?.[0] === "extractive" ? t("method.extractive") : "";
}
