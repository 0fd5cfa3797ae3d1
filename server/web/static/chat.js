// The chat: its history, its turns, and one question after the other.

import { AnswerView } from "./answer.js";
import { Composer, examples, isAble, methodAbout, methodName, choices } from "./composer.js";
import { announce, button, dialog, foreign, h, icon } from "./dom.js";
import { session } from "./keys.js";
import { newTurn, runTurn, tell } from "./run.js";
import { SourcePanel } from "./sources.js";
import { countTurns, cutTurns, forgetAll, forgetChat, getChat, getTurns, listChats, putChat, putTurn } from "./store.js";
import { has, t, tn } from "./texts.js";

// Turns that are shown at once; earlier ones come on request.
const SHOWN = 20;
// Earlier turns that go with a question.
const REMEMBERED = 10;
const CHATS_SHOWN = 60;

/** Shows a chat, a new one where none is named; returns how to leave it. */
export function show(main, [id]) {
  const screen = new ChatScreen(main, id);
  screen.open();
  return () => screen.leave();
}

class ChatScreen {
  constructor(main, id) {
    this.id = id || null;
    this.first = 0;
    this.count = 0;
    this.controller = null;
    // Options of the next question alone.
    this.once = null;
    this.note = h("p", { class: "fine", role: "status", hidden: true });
    this.panel = new SourcePanel();
    this.turns = h("div", { class: "turns" });
    this.log = h("div", { class: "log" });
    this.history = h("aside", { class: "history", "aria-label": t("history.title") });
    this.composer = new Composer({ ask: (question) => this.ask(question), stop: () => this.stop() });
    this.composer.changed = () => {
      this.setOnce(null);
      if (!this.count) this.showEmpty();
    };
    const left = session.permissions.egress === "off" ? t("privacy.off") : t("privacy.on");
    this.foot = h("div", { class: "ask" }, this.note, this.composer.node, h("p", { class: "fine" }, left, " ", t("privacy.disclaimer")));
    this.column = h("section", { class: "column", "aria-label": t("chat.label") }, this.log, this.foot);
    main.replaceChildren(h("div", { class: "chat" }, this.history, this.column, this.panel.node));
  }

  async open() {
    this.showHistory();
    if (this.id) {
      const chat = await getChat(this.id);
      if (!chat) {
        location.replace("#/chat");
        return;
      }
      this.count = await countTurns(this.id);
      const model = session.models.find((one) => one.id === chat.model);
      if (model && isAble(model)) this.composer.setModel(model);
      await this.showTurns(Math.max(0, this.count - SHOWN));
      this.log.scrollTop = this.log.scrollHeight;
    }
    this.takeOver();
    if (!this.count) this.showEmpty();
    this.composer.field.focus({ preventScroll: true });
  }

  leave() {
    this.controller?.abort();
  }

  /** Takes the question that another screen has written for the chat. */
  takeOver() {
    const written = sessionStorage.getItem("ask");
    if (!written || this.id) return;
    sessionStorage.removeItem("ask");
    const { text, method, namespaces, options, once } = JSON.parse(written);
    const model = session.models.find((one) => one.method === method);
    if (!model || !isAble(model)) return;
    this.composer.setModel(model);
    if (once) this.setOnce(once);
    if (namespaces) this.composer.set("namespaces", namespaces);
    for (const [name, value] of Object.entries(options || {})) this.composer.set(name, value);
    this.composer.showModel();
    this.composer.setText(text);
  }

  setOnce(options) {
    this.once = options;
    this.note.hidden = !options;
    this.note.textContent = options ? t("chat.sums_up") : "";
  }

  // Turns

  async showTurns(from) {
    this.first = from;
    const turns = await getTurns(this.id, from);
    const views = turns.map((turn) => this.viewOf(turn).node);
    const earlier = from ? button(tn("chat.earlier", Math.min(SHOWN, from)), { kind: "quiet", onclick: () => this.showEarlier() }) : null;
    this.turns.replaceChildren(...views);
    this.log.replaceChildren(h("div", { class: "earlier" }, earlier), this.turns);
  }

  async showEarlier() {
    const height = this.log.scrollHeight;
    const from = Math.max(0, this.first - SHOWN);
    const turns = await getTurns(this.id, from, this.first);
    this.first = from;
    this.turns.prepend(...turns.map((turn) => this.viewOf(turn).node));
    this.log.querySelector(".earlier").replaceChildren(...(from ? [button(tn("chat.earlier", Math.min(SHOWN, from)), { kind: "quiet", onclick: () => this.showEarlier() })] : []));
    this.log.scrollTop += this.log.scrollHeight - height;
  }

  viewOf(turn) {
    return new AnswerView(turn, {
      // What sums up an article is no question for the method that is chosen now.
      retry: (options) => this.again(turn, turn.question, options ?? (turn.options.recommend ? {} : undefined)),
      edit: () => this.edit(turn),
      source: (number) => this.panel.show(turn, number),
    });
  }

  showEmpty() {
    const model = this.composer.model;
    const cards = choices().map((one) =>
      h(
        "button",
        { type: "button", class: "method-card", "aria-pressed": String(one === model), disabled: !isAble(one), onclick: () => this.composer.setModel(one) },
        h("span", { class: "method-name" }, methodName(one)),
        h("span", { class: "method-about" }, methodAbout(one)),
      ),
    );
    const questions = model ? examples(model) : [];
    this.log.replaceChildren(
      h(
        "div",
        { class: "empty" },
        h("h1", {}, t("chat.hello")),
        h("p", { class: "lead" }, t("chat.lead")),
        h("div", { class: "method-cards", role: "group", "aria-label": t("method.title") }, cards),
        model ? h("p", { class: "method-line", "aria-hidden": "true" }, methodAbout(model)) : null,
        model && has(`needs.${model.method}`) ? h("p", { class: "muted" }, t(`needs.${model.method}`), " ", h("a", { href: "#/library" }, t("nav.library"))) : null,
        questions.length
          ? h("div", { class: "examples" }, h("h2", { class: "label" }, t("chat.try")), questions.map((question) => h("button", { type: "button", class: "example", onclick: () => this.ask(question) }, h("span", {}, question), icon("right"))))
          : null,
      ),
    );
  }

  async ask(question) {
    if (this.controller) return;
    const chat = await this.chatFor(question);
    const turn = newTurn(chat.id, this.count, question, this.composer.model, { ...this.composer.options, ...this.once });
    this.setOnce(null);
    this.count += 1;
    if (!this.turns.isConnected) this.log.replaceChildren(h("div", { class: "earlier" }), this.turns);
    const view = this.viewOf(turn);
    this.turns.querySelector(".now")?.classList.remove("now");
    view.node.classList.add("now");
    this.turns.append(view.node);
    view.node.scrollIntoView({ block: "start" });
    await this.run(turn, view);
  }

  async chatFor(question) {
    const found = this.id && (await getChat(this.id));
    const chat = found || { id: crypto.randomUUID(), title: question.slice(0, 120), created: Date.now() };
    chat.updated = Date.now();
    chat.model = this.composer.model.id;
    await putChat(chat);
    if (!this.id) {
      this.id = chat.id;
      history.replaceState(null, "", `#/chat/${chat.id}`);
    }
    this.showHistory();
    return chat;
  }

  async run(turn, view) {
    this.controller = new AbortController();
    this.composer.setRunning(true);
    announce(t("live.working"));
    await runTurn(turn, await this.messages(turn), this.controller.signal, view);
    this.controller = null;
    this.composer.setRunning(false);
    await putTurn(turn);
    await view.finish();
    tell(turn);
  }

  async messages(turn) {
    const earlier = turn.place ? await getTurns(this.id, Math.max(0, turn.place - REMEMBERED), turn.place) : [];
    const said = earlier.filter((one) => one.state === "done").flatMap((one) => [
      { role: "user", content: one.question },
      { role: "assistant", content: one.told?.answer || one.content || "…" },
    ]);
    return [...said, { role: "user", content: turn.question }];
  }

  stop() {
    this.controller?.abort();
    this.composer.field.focus();
  }

  async edit(turn) {
    if (this.controller) return;
    this.composer.setText(turn.question);
    this.composer.field.focus();
    await this.cut(turn.place);
  }

  /** Asks again with the method that is chosen now; with `options`, with the turn's own method and these. */
  async again(turn, question, options) {
    if (this.controller) return;
    const usual = { ...this.composer.options };
    if (options) {
      const model = session.models.find((one) => one.id === turn.model);
      if (!model) return;
      this.composer.setModel(model);
      this.composer.options = { ...turn.options, ...options };
      this.composer.showModel();
    }
    await this.cut(turn.place);
    await this.ask(question);
    if (!options) return;
    this.composer.options = usual;
    this.composer.showModel();
  }

  async cut(place) {
    await cutTurns(this.id, place);
    this.count = place;
    await this.showTurns(Math.max(0, place - SHOWN));
    if (!place) this.showEmpty();
  }

  // History

  async showHistory(more = false) {
    const chats = await listChats(more ? 5000 : CHATS_SHOWN + 1);
    const shown = more ? chats : chats.slice(0, CHATS_SHOWN);
    const items = shown.map((chat) =>
      h(
        "li",
        {},
        h("a", { href: `#/${chat.screen || "chat"}/${chat.id}`, "aria-current": chat.id === this.id ? "page" : null }, foreign(chat.title)),
        button(t("history.forget_one", { title: chat.title.slice(0, 40) }), { icon: "trash", bare: true, kind: "quiet", onclick: () => this.forget(chat) }),
      ),
    );
    const toggle = button(t("history.title"), { icon: "menu", kind: "quiet history-toggle", "aria-expanded": "false" });
    toggle.addEventListener("click", () => toggle.setAttribute("aria-expanded", String(this.history.classList.toggle("open"))));
    this.history.replaceChildren(
      h("div", { class: "history-head" }, toggle, h("a", { class: "button", href: "#/chat", onclick: (event) => this.fresh(event) }, icon("plus"), h("span", {}, t("history.new")))),
      h(
        "div",
        { class: "history-body" },
        items.length ? h("ul", { class: "history-list" }, items) : h("p", { class: "muted small" }, t("history.none")),
        chats.length > shown.length ? button(t("history.more"), { kind: "quiet", onclick: () => this.showHistory(true) }) : null,
        h("div", { class: "history-foot" }, h("p", { class: "fine" }, t("history.about")), items.length ? button(t("history.forget_all"), { icon: "trash", kind: "quiet", onclick: () => this.forgetEverything() }) : null),
      ),
    );
  }

  fresh(event) {
    if (location.hash === "#/chat") {
      event.preventDefault();
      location.reload();
    }
  }

  async forget(chat) {
    await forgetChat(chat.id);
    if (chat.id === this.id) location.hash = "#/chat";
    else this.showHistory();
  }

  forgetEverything() {
    const go = button(t("history.forget_all"), { icon: "trash", kind: "danger" });
    const node = dialog(t("history.forget_all"), h("div", { class: "form" }, h("p", {}, t("history.forget_all.about")), h("div", { class: "row end" }, go)));
    go.addEventListener("click", async () => {
      node.close();
      await forgetAll();
      if (location.hash === "#/chat") location.reload();
      else location.hash = "#/chat";
    });
  }
}
