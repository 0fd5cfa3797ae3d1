// The first start of a server that other machines reach: its code makes the first key. Also shows a new key, once.

import { post, setKey } from "./api.js";
import { button, foreign, h, icon, onSubmit } from "./dom.js";
import { copy } from "./export.js";
import { loadSession } from "./keys.js";
import { t } from "./texts.js";

/** Returns the form that makes the first key; `done` is called when its owner is signed in, `message` is the server's. */
export function setupForm(done, message) {
  const code = h("input", { type: "text", id: "setup-code", required: true, maxlength: 100, autocomplete: "off", spellcheck: "false", "aria-describedby": "setup-about setup-error" });
  const name = h("input", { type: "text", id: "setup-name", required: true, maxlength: 64, dir: "auto", autocomplete: "off", value: t("setup.name.value") });
  const error = h("p", { id: "setup-error", class: "error-text", role: "alert" });
  const form = h(
    "form",
    { class: "card login" },
    h("div", { class: "login-icon" }, icon("key")),
    h("h1", {}, t("setup.title")),
    h("p", { id: "setup-about", class: "muted" }, t("setup.about")),
    h("label", { for: "setup-code" }, t("setup.code")),
    code,
    h("label", { for: "setup-name" }, t("setup.name")),
    name,
    error,
    button(t("setup.go"), { kind: "primary", type: "submit" }),
    h("details", {}, h("summary", { class: "muted small" }, t("setup.otherwise")), foreign(message, "p", { class: "muted small" })),
  );
  const node = h("div", { class: "center" }, form);
  const make = async () => {
    const made = await post("/v1/setup", { code: code.value, name: name.value }).finally(() => code.focus());
    node.replaceChildren(made.secret ? welcome(made, done) : form);
  };
  onSubmit(form, make, error);
  queueMicrotask(() => code.focus());
  return node;
}

function welcome(made, done) {
  const error = h("p", { class: "error-text", role: "alert" });
  const enter = async () => {
    setKey(made.secret, false);
    try {
      await loadSession();
      done();
    } catch (problem) {
      error.textContent = problem.message;
    }
  };
  const node = h("div", { class: "card login" }, h("h1", {}, t("setup.made")), newKey(made), error, button(t("setup.enter"), { kind: "primary", onclick: enter }));
  queueMicrotask(() => node.querySelector(".secret + .button").focus());
  return node;
}

/** Returns a new key with what its owner has to know: it is shown this once. */
export function newKey({ secret, name }) {
  return h(
    "div",
    { class: "form" },
    h("p", {}, t("admin.key.secret.about", { name })),
    h("pre", { class: "code secret", tabindex: "0", "aria-label": t("key.label") }, secret),
    button(t("copy.title"), { icon: "copy", onclick: () => copy(secret) }),
  );
}
