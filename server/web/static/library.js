// The collections: their list, and one of them with its documents, its search, and the files and queries that fill it.

import { get, post, send } from "./api.js";
import { Documents } from "./documents.js";
import { button, bytes, count, dialog, foreign, h, icon, moment, onSubmit, plain, problem, tabs, toast } from "./dom.js";
import { Fetching, JobItem, follow } from "./fetching.js";
import { session } from "./keys.js";
import { searchView } from "./search.js";
import { t, titleOf, tn } from "./texts.js";
import { sendLater, takeOver } from "./uploads.js";

const EVERY_MS = 15_000;

// The name that the sample has, unless a collection took it.
const SAMPLE = "notes";

/** Shows the namespaces, one of them opened where it is named. */
export function show(main, [name]) {
  const screen = new Library(main, name);
  screen.load();
  return () => screen.controller.abort();
}

class Library {
  constructor(main, name) {
    this.name = name || "";
    this.controller = new AbortController();
    this.mayChange = session.permissions.may_change_namespaces;
    this.list = h("nav", { class: "names", "aria-label": t("library.namespaces") });
    this.body = h("section", { class: "library-body", "aria-live": "off" });
    main.replaceChildren(h("div", { class: "library" }, this.list, this.body));
  }

  async load() {
    try {
      this.namespaces = (await get("/v1/namespaces")).data;
    } catch (error) {
      this.body.replaceChildren(problem(error));
      return;
    }
    this.showList();
    // One collection alone is opened by itself.
    if (!this.name && this.namespaces.length === 1) {
      location.replace(`#/library/${encodeURIComponent(this.namespaces[0].name)}`);
      return;
    }
    const chosen = this.namespaces.find((one) => one.name === this.name);
    if (this.name && !chosen) this.body.replaceChildren(problem(new Error(t("library.unknown", { name: this.name }))));
    else if (chosen) this.showNamespace(chosen);
    else this.showEmpty();
  }

  showList() {
    const items = this.namespaces.map((one) =>
      h("a", { href: `#/library/${encodeURIComponent(one.name)}`, class: "name", "aria-current": one.name === this.name ? "page" : null }, foreign(titleOf(one), "span", { class: "name-text" }), h("span", { class: "muted small" }, one.damage ? t("library.damaged") : tn("library.documents", one.documents || 0))),
    );
    const make = button(t("library.create"), { icon: "plus", onclick: () => this.create() });
    const restore = button(t("library.sample.restore"), { icon: "retry", kind: "quiet", onclick: () => this.restoreSample() });
    const more = session.permissions.may_administer ? h("a", { href: "#/corpora", class: "button quiet" }, icon("list"), h("span", {}, t("corpora.title"))) : null;
    const hasSample = this.namespaces.some((one) => one.sample || one.name === SAMPLE);
    this.list.replaceChildren(h("div", { class: "names-head" }, h("h1", {}, t("nav.library"))), ...items, ...(this.mayChange ? [make, ...(hasSample ? [] : [restore])] : []), more ?? "");
  }

  async restoreSample() {
    try {
      const { name } = await post("/v1/sample", {});
      this.namespaces = (await get("/v1/namespaces")).data;
      location.hash = `#/library/${encodeURIComponent(name)}`;
    } catch (error) {
      toast(error.message, "bad");
    }
  }

  showEmpty() {
    const none = !this.namespaces.length;
    this.body.replaceChildren(
      h(
        "div",
        { class: "blank" },
        h("div", { class: "login-icon" }, icon("doc")),
        h("h2", {}, none ? t("library.none") : t("library.choose")),
        h("p", { class: "muted" }, none ? t("library.none.about") : t("library.choose.about")),
        none && this.mayChange ? button(t("library.create"), { icon: "plus", kind: "primary", onclick: () => this.create() }) : null,
        this.mayChange ? null : h("p", { class: "muted small" }, t("library.read_only")),
      ),
    );
  }

  create() {
    this.askTitle(t("library.create"), t("library.create"), "", async (title, node) => {
      const { name } = await post("/v1/namespaces", { title });
      node.close();
      location.hash = `#/library/${encodeURIComponent(name)}`;
    });
  }

  rename(namespace, address) {
    this.askTitle(t("library.rename"), t("library.rename"), titleOf(namespace), async (title, node) => {
      await send(address, { method: "PATCH", body: { title } });
      await this.load();
      node.close();
      this.body.querySelector(".library-head .button")?.focus();
    });
  }

  /** Asks for a title, and does with it what is to be done; a fault is shown beside the field. */
  askTitle(heading, go, written, done) {
    const field = h("input", { type: "text", id: "ns-name", required: true, maxlength: 200, value: written, dir: "auto", autocomplete: "off", "aria-describedby": "ns-about ns-error" });
    const error = h("p", { id: "ns-error", class: "error-text", role: "alert" });
    const form = h(
      "form",
      { class: "form" },
      h("div", { class: "field" }, h("label", { for: "ns-name" }, t("library.name")), field, h("p", { id: "ns-about", class: "muted small" }, t("library.name.about"))),
      error,
      h("div", { class: "row end" }, button(go, { kind: "primary", type: "submit" })),
    );
    const node = dialog(heading, form);
    onSubmit(form, () => done(field.value, node), error);
    field.select();
  }

  showNamespace(namespace) {
    const address = `/v1/namespaces/${encodeURIComponent(namespace.name)}`;
    const mayChange = this.mayChange && !namespace.sample;
    this.documents = new Documents(address, namespace.name, mayChange);
    const entries = [
      { label: t("library.tab.documents"), make: () => this.documents.node },
      { label: t("library.tab.search"), make: () => searchView(namespace) },
    ];
    if (mayChange) entries.push({ label: t("library.tab.add"), make: () => this.adding(address) });
    this.facts = h("div", { class: "muted small" }, factsOf(namespace));
    const rename = mayChange ? button(t("library.rename"), { icon: "edit", kind: "quiet", onclick: () => this.rename(namespace, address) }) : null;
    const remove = this.mayChange && !namespace.follows ? button(t("library.delete"), { icon: "trash", kind: "quiet", onclick: () => this.confirmDelete(namespace, address) }) : null;
    this.tabs = tabs(t("library.tabs"), entries);
    this.body.replaceChildren(h("div", { class: "library-head" }, h("div", {}, foreign(titleOf(namespace), "h2"), this.facts, this.mayChange ? null : h("p", { class: "muted small" }, t("library.read_only"))), h("div", { class: "row" }, rename, remove)), namespace.damage ? problem(new Error(namespace.damage)) : this.tabs);
    this.documents.load();
    if (namespace.follows) this.watch(namespace);
    else if (!namespace.documents && mayChange) [...this.tabs.querySelectorAll("[role=tab]")].at(-1).click();
  }

  /** Shows what became of a followed folder, as long as this screen is open. */
  watch(namespace) {
    const timer = setInterval(async () => {
      if (document.hidden) return;
      const before = JSON.stringify([namespace.documents, namespace.follows.waiting]);
      namespace = (await this.refresh().catch(() => null)) ?? namespace;
      if (before !== JSON.stringify([namespace.documents, namespace.follows?.waiting])) this.documents.load();
    }, EVERY_MS);
    this.controller.signal.addEventListener("abort", () => clearInterval(timer));
  }

  /** Loads what the list and the head show; returns the collection that is shown. */
  async refresh() {
    this.namespaces = (await get("/v1/namespaces")).data;
    this.showList();
    const now = this.namespaces.find((one) => one.name === this.name);
    if (now) this.facts.replaceChildren(...factsOf(now));
    return now;
  }

  confirmDelete(namespace, address) {
    const go = button(t("library.delete"), { icon: "trash", kind: "danger" });
    const node = dialog(t("library.delete"), h("div", { class: "form" }, h("p", {}, namespace.sample ? t("library.sample.delete") : t("library.delete.about", { name: plain(titleOf(namespace)), documents: count(namespace.documents || 0) })), h("div", { class: "row end" }, go)));
    go.addEventListener("click", async () => {
      try {
        await send(address, { method: "DELETE" });
        node.close();
        location.hash = "#/library";
      } catch (error) {
        toast(error.message, "bad");
      }
    });
  }

  // Adding

  adding(address) {
    const jobs = h("ul", { class: "jobs plain-list" });
    jobs.append(...takeOver(this.name, (...one) => this.follow(...one)).map((item) => item.node));
    const picker = h("input", { type: "file", multiple: true, class: "unseen", id: "files", onchange: () => { this.addFiles(work, [...picker.files]); picker.value = ""; } });
    const ocr = h("input", { type: "text", id: "ocr", autocomplete: "off", spellcheck: "false", placeholder: "eng", pattern: "[A-Za-z_]{3,20}(\\+[A-Za-z_]{3,20}){0,4}", "aria-describedby": "ocr-about" });
    const work = { address, jobs, ocr };
    const zone = h(
      "label",
      { class: "drop", for: "files" },
      icon("upload"),
      h("span", { class: "drop-title" }, t("add.drop")),
      h("span", { class: "muted small" }, t("add.kinds", { most: bytes(session.permissions.max_upload_bytes) })),
    );
    for (const kind of ["dragenter", "dragover"]) {
      zone.addEventListener(kind, (event) => {
        event.preventDefault();
        zone.classList.add("over");
      });
    }
    zone.addEventListener("dragleave", () => zone.classList.remove("over"));
    zone.addEventListener("drop", (event) => {
      event.preventDefault();
      zone.classList.remove("over");
      this.addFiles(work, [...event.dataTransfer.files]);
    });
    const fetching = new Fetching(address, this.name, (job, item) => {
      jobs.prepend(item.node);
      return this.follow(job, item);
    });
    return h("div", { class: "adding" }, h("div", { class: "form" }, h("div", {}, picker, zone), h("div", { class: "field" }, h("label", { for: "ocr" }, t("add.ocr")), ocr, h("p", { class: "muted small", id: "ocr-about" }, t("add.ocr.about"))), jobs), fetching.node);
  }

  addFiles({ address, jobs, ocr }, files) {
    const languages = ocr.value.trim();
    for (const file of files) {
      const item = new JobItem(file.name, bytes(file.size));
      jobs.prepend(item.node);
      const path = `${address}/files?filename=${encodeURIComponent(file.name)}${languages && `&ocr=${encodeURIComponent(languages)}`}`;
      if (file.size > session.permissions.max_upload_bytes) item.fail(t("add.too_large", { most: bytes(session.permissions.max_upload_bytes) }));
      else sendLater({ namespace: this.name, path, file, item, follow: (...one) => this.follow(...one) });
    }
  }

  /** Watches a job until it ends, then shows what it changed. */
  async follow(job, item) {
    const ended = await follow(job, item, this.controller.signal);
    if (!ended) return;
    this.documents.load();
    await this.refresh();
  }
}

/** Returns lines on a collection: how much it holds, where its bytes are, which folder it follows. */
function factsOf(namespace) {
  if (namespace.sample) return [h("p", {}, t("library.sample.about"))];
  const { storage = {}, follows } = namespace;
  const parts = Object.fromEntries(Object.entries(storage).map(([name, size]) => [name, bytes(size)]));
  const facts = [tn("library.documents", namespace.documents || 0), tn("library.passages", namespace.passages || 0)].join(" · ");
  return [h("p", {}, facts), h("p", {}, t("library.storage", { all: bytes(namespace.bytes || 0), ...parts })), ...(follows ? followLines(follows) : [])];
}

function followLines({ folder, files, waiting, checked, problem }) {
  const facts = [tn("follow.files", files), waiting ? tn("follow.waiting", waiting) : "", checked ? t("follow.checked", { time: moment(checked * 1000) }) : ""];
  const fault = problem ? h("p", { class: "error-text" }, icon("warn"), " ", foreign(t("follow.problem", { problem: plain(problem) }))) : null;
  return [h("p", {}, t("follow.about"), " ", foreign(folder, "code"), " ", facts.filter(Boolean).join(" · ")), ...(fault ? [fault] : [])];
}
