// The chat: its history, its turns, and one question after the other.

import { AnswerView } from "./answer.js";
import { get } from "./api.js";
import { Composer, ableModel, commonOptions, examples } from "./composer.js";
import { announce, button, dialog, foreign, h, icon, toast } from "./dom.js";
import { insteadOf } from "./instead.js";
import { session } from "./keys.js";
import { begin, newTurn, runOf, stopRuns, takeUp, tell } from "./run.js";
import { SourcePanel } from "./sources.js";
import { countTurns, cutTurns, forgetAll, forgetChat, getChat, getTurns, listChats, newId, onChange, placeName, putChat } from "./store.js";
import { has, t, tn } from "./texts.js";

// Turns that are shown at once; earlier ones come on request.
const SHOWN = 20;
// Earlier turns that go with a question.
const REMEMBERED = 10;
const CHATS_SHOWN = 60;
// Methods whose examples the sample's notes answer.
const OF_NOTES = ["medrag", "i-medrag", "weiseeule"];

// A reload would forget a key that is held in memory.
const showAgain = () => window.dispatchEvent(new HashChangeEvent("hashchange"));

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
    // The answer that is waited for here.
    this.run = null;
    this.left = new AbortController();
    // By place; those that are shown.
    this.views = new Map();
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
    // What a person may begin with, under the box; only before the first question.
    this.start = h("div", { class: "start" });
    this.column = h("section", { class: "column", "aria-label": t("chat.label") }, this.log, this.foot, this.start);
    main.replaceChildren(h("div", { class: "chat" }, this.history, this.column, this.panel.node));
    this.unlisten = onChange((change) => this.changed(change));
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
      this.composer.take(chat);
      await this.showTurns(Math.max(0, this.count - SHOWN));
      this.log.scrollTop = this.log.scrollHeight;
      this.goOn();
    }
    this.takeOver();
    if (!this.count) this.showEmpty();
    this.composer.field.focus({ preventScroll: true });
  }

  /** Leaves the screen; an answer goes on, and is found again in its chat. */
  leave() {
    this.left.abort();
    this.unlisten();
  }

  /** Shows what another tab has changed. */
  async changed({ chat, place, cut }) {
    if (place === undefined) this.showHistory();
    if (!this.id || (chat && chat !== this.id)) return;
    if (!(await getChat(this.id))) {
      if (this.count) location.hash = "#/chat";
      return;
    }
    const [turn] = cut ? [] : await getTurns(this.id, place ?? Infinity, (place ?? Infinity) + 1);
    if (cut) {
      this.count = await countTurns(this.id);
      await this.showTurns(Math.max(0, this.count - SHOWN));
    } else if (turn && !runOf(turn)) this.showTurn(turn);
  }

  showTurn(turn) {
    const view = this.views.get(turn.place);
    if (view) {
      Object.assign(view.turn, turn);
      if (turn.state === "running") view.update();
      else this.finish(view);
      return;
    }
    this.count = Math.max(this.count, turn.place + 1);
    this.add(turn);
    this.goOn();
  }

  /** Takes the question that another screen has written for the chat. */
  takeOver() {
    const written = sessionStorage.getItem("ask");
    if (!written || this.id) return;
    sessionStorage.removeItem("ask");
    const { text, method, namespaces, options, once } = JSON.parse(written);
    const model = ableModel(method);
    if (!model) return;
    this.composer.setModel(model);
    if (once) this.setOnce(once);
    if (namespaces) this.composer.set("namespaces", namespaces);
    for (const [name, value] of Object.entries(options || {})) this.composer.set(name, value);
    this.composer.show();
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
    this.views.clear();
    const views = turns.map((turn) => this.viewOf(runOf(turn)?.turn ?? turn).node);
    const earlier = from ? button(tn("chat.earlier", Math.min(SHOWN, from)), { kind: "quiet", onclick: () => this.showEarlier() }) : null;
    this.turns.replaceChildren(...views);
    this.showLog(earlier);
  }

  showLog(earlier = null) {
    this.column.classList.remove("fresh");
    this.start.replaceChildren();
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
    const view = new AnswerView(turn, {
      // What sums up an article is no question for the method that is chosen now.
      retry: (options) => this.again(turn, options ?? (turn.options.recommend ? {} : undefined)),
      edit: () => this.edit(turn),
      source: (number) => this.panel.show(turn, number),
    });
    this.views.set(turn.place, view);
    this.offer(view);
    return view;
  }

  async finish(view) {
    await view.finish();
    this.offer(view);
  }

  /** Tells under an answer from which source it is, and offers the others. */
  offer(view) {
    view.node.querySelector(".instead")?.remove();
    const { turn } = view;
    const offered = insteadOf(turn, (model) => this.replace(turn, model, commonOptions(model, turn.options)));
    if (offered) view.node.append(offered);
  }

  /** Goes on with answers that had not ended when this screen, or the page, was left. */
  async goOn() {
    for (const view of this.views.values()) {
      if (view.turn.state !== "running" || view.awaited) continue;
      view.awaited = true;
      const run = runOf(view.turn) ?? (await takeUp(view.turn, (turn) => this.messages(turn), view, this.left.signal));
      if (run) this.wait(run, view);
      else if (!this.left.signal.aborted) this.finish(view);
    }
  }

  showEmpty() {
    const { composer } = this;
    const { model } = composer;
    this.column.classList.add("fresh");
    this.log.replaceChildren(h("div", { class: "empty" }, h("h1", {}, t("chat.hello")), h("p", { class: "lead" }, t("chat.lead"))));
    const questions = composer.on.size ? [...composer.on].map((one) => examples({ method: one })[0]).filter(Boolean) : model ? examples(model) : [];
    const needs = model && has(`needs.${model.method}`) ? [t(`needs.${model.method}`), " ", h("a", { href: "#/library" }, t("nav.library")), "."] : [];
    this.start.replaceChildren(
      h("p", { class: "asked muted small", role: "status" }, composer.about, " ", needs),
      questions.length ? h("div", { class: "examples" }, h("h2", { class: "label" }, t("chat.try")), questions.map((question) => h("button", { type: "button", class: "example", "data-notes": OF_NOTES.some((method) => examples({ method }).includes(question)) || null, onclick: () => this.ask(question) }, h("span", {}, question), icon("right")))) : "",
    );
    this.dropExamples();
  }

  /** Takes the examples about the sample's notes away where these are not searched. */
  async dropExamples() {
    const { data } = await get("/v1/namespaces").catch(() => ({ data: [{ sample: true }] }));
    if (data.some((one) => one.sample) && !data.some((one) => !one.sample && one.documents)) return;
    for (const node of this.start.querySelectorAll("[data-notes]")) node.remove();
    if (!this.start.querySelector(".example")) this.start.querySelector(".examples")?.remove();
  }

  /** Asks a question, of whom is chosen, or of `model` with `options`. */
  async ask(question, { model, options } = { model: this.composer.model, options: { ...this.composer.sent, ...this.once } }) {
    if (this.busy) return;
    this.setBusy(true);
    const chat = await this.chatFor(question).catch(() => toast(t("history.full"), "bad"));
    if (!chat) {
      this.setBusy(false);
      this.composer.setText(question);
      return;
    }
    this.count = await countTurns(chat.id);
    const turn = newTurn(chat.id, this.count, question, model, options);
    this.setOnce(null);
    this.count += 1;
    const run = await begin(turn, (one) => this.messages(one), (one) => this.add(one));
    announce(t("live.working"));
    await this.wait(run, run.view);
  }

  add(turn) {
    if (!this.turns.isConnected) this.showLog();
    const view = this.viewOf(turn);
    this.turns.querySelector(".now")?.classList.remove("now");
    view.node.classList.add("now");
    this.turns.append(view.node);
    view.node.scrollIntoView({ block: "start" });
    return view;
  }

  async chatFor(question) {
    const found = this.id && (await getChat(this.id));
    const chat = found || { id: newId(), title: question.slice(0, 120), created: Date.now() };
    chat.updated = Date.now();
    Object.assign(chat, this.composer.choice);
    await putChat(chat);
    if (!this.id) {
      this.id = chat.id;
      history.replaceState(null, "", `#/chat/${chat.id}`);
    }
    this.showHistory();
    return chat;
  }

  setBusy(busy) {
    this.busy = busy;
    this.composer.setRunning(busy);
  }

  /** Shows an answer while it comes, and when it has ended. */
  async wait(run, view) {
    run.view = view;
    this.run = run;
    this.setBusy(true);
    await run.ended;
    this.run = null;
    this.setBusy(false);
    await this.finish(view);
    if (run.view === view) tell(run.turn);
  }

  async messages(turn) {
    const earlier = turn.place ? await getTurns(turn.chat, Math.max(0, turn.place - REMEMBERED), turn.place) : [];
    const said = earlier.filter((one) => one.state === "done").flatMap((one) => [
      { role: "user", content: one.question },
      { role: "assistant", content: one.told?.answer || one.content || "…" },
    ]);
    return [...said, { role: "user", content: turn.question }];
  }

  stop() {
    this.run?.controller.abort();
    this.composer.field.focus();
  }

  async edit(turn) {
    if (this.busy) return;
    this.composer.setText(turn.question);
    this.composer.field.focus();
    await this.cut(turn.place);
  }

  /** Asks again of whom is chosen now; with `options`, with the turn's own method and these. */
  again(turn, options) {
    if (!options) return this.replace(turn);
    const model = session.models.find((one) => one.id === turn.model);
    return model && this.replace(turn, model, { ...turn.options, ...options });
  }

  /** Asks the question of a turn anew, which is replaced with all later ones. */
  async replace(turn, model, options) {
    if (this.busy) return;
    await this.cut(turn.place);
    await this.ask(turn.question, model && { model, options });
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
        h("div", { class: "history-foot" }, h("p", { class: "fine" }, t(`history.${placeName()}`)), items.length ? button(t("history.forget_all"), { icon: "trash", kind: "quiet", onclick: () => this.forgetEverything() }) : null),
      ),
    );
  }

  fresh(event) {
    if (location.hash !== "#/chat") return;
    event.preventDefault();
    showAgain();
  }

  async forget(chat) {
    stopRuns(chat.id);
    await forgetChat(chat.id);
    if (chat.id === this.id) location.hash = "#/chat";
    else this.showHistory();
  }

  forgetEverything() {
    const go = button(t("history.forget_all"), { icon: "trash", kind: "danger" });
    const node = dialog(t("history.forget_all"), h("div", { class: "form" }, h("p", {}, t("history.forget_all.about")), h("div", { class: "row end" }, go)));
    go.addEventListener("click", async () => {
      node.close();
      stopRuns();
      await forgetAll();
      if (location.hash === "#/chat") showAgain();
      else location.hash = "#/chat";
    });
  }
}
