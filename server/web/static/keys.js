// Who is asking: the key, what it may do, and the state of the server.

import { get, hasKey, keyStays, onRefused, setKey } from "./api.js";
import { button, h, icon, onSubmit } from "./dom.js";
import { isKept, keepChats, leaveStore, openStore } from "./store.js";
import { t } from "./texts.js";

/** What the page knows of the server, for this key. */
export const session = { permissions: null, models: [], ready: null };

/** Loads what the key may do, and opens the chats of whose it is; `keep`: in this browser. Raises ApiError. */
export async function loadSession(keep = false) {
  const [permissions, models] = await Promise.all([get("/v1/permissions"), get("/v1/models")]);
  session.permissions = permissions;
  // Those that answer: others embed or re-rank.
  session.models = models.data.filter((one) => one.method);
  await loadReady();
  const owner = permissions.needs_key ? permissions.key_id : "";
  if (keep) keepChats(owner);
  await openStore(owner, !owner || isKept(owner) ? "browser" : keyStays() ? "tab" : "memory");
}

/** Loads the server's state, also while it cannot answer; raises ApiError where it is not reached. */
export async function loadReady() {
  try {
    session.ready = await get("/ready");
  } catch (error) {
    if (error.status !== 503) throw error;
    session.ready = { status: "loading", egress: session.permissions.egress };
  }
  return session.ready;
}

/** Returns the models of one method's kind, of all where it is left out. */
export function modelOf(method) {
  return session.models.find((one) => one.method === method);
}

/** Returns the form that asks for a key; `done` is called when one was taken. */
export function loginForm(done, wrong = "") {
  const field = h("input", { type: "password", id: "key", autocomplete: "off", spellcheck: "false", required: true, "aria-describedby": "key-about key-error" });
  const stays = h("input", { type: "checkbox", id: "key-stays" });
  const keeps = h("input", { type: "checkbox", id: "key-keeps" });
  const error = h("p", { id: "key-error", class: "error-text", role: "alert" }, wrong);
  const form = h(
    "form",
    { class: "card login" },
    h("div", { class: "login-icon" }, icon("key")),
    h("h1", {}, t("key.title")),
    h("p", { id: "key-about", class: "muted" }, t("key.about")),
    h("label", { for: "key" }, t("key.label")),
    field,
    h("label", { class: "check" }, stays, h("span", {}, t("key.stays"))),
    h("label", { class: "check" }, keeps, h("span", {}, t("key.keep"))),
    error,
    button(t("key.go"), { kind: "primary", type: "submit" }),
  );
  const enter = async () => {
    setKey(field.value.trim(), stays.checked);
    await loadSession(keeps.checked).catch((problem) => {
      setKey("", false);
      field.focus();
      throw problem.status === 401 ? new Error(t("key.wrong")) : problem;
    });
    field.value = "";
    done();
  };
  onSubmit(form, enter, error);
  queueMicrotask(() => field.focus());
  return h("div", { class: "center" }, form);
}

/** Forgets the key and the chats; where the server has `ended` it, those stay that this browser was told to keep. */
export async function signOut(ended = false) {
  session.permissions = null;
  setKey("", false);
  await leaveStore(!ended);
}

export { hasKey, onRefused };
