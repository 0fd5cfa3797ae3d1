// The knowledge base: namespaces, their documents, files and PubMed queries that fill them, and searches.

import { get, post, send } from "./api.js";
import { button, bytes, count, dialog, foreign, h, icon, outside, plain, tabs, toast } from "./dom.js";
import { Fetching, JobItem, follow } from "./fetching.js";
import { session } from "./keys.js";
import { searchView } from "./search.js";
import { t, tn } from "./texts.js";
import { sendLater, takeOver } from "./uploads.js";

const LISTED = 50;

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
    const make = this.mayChange ? button(t("library.create"), { icon: "plus", onclick: () => this.create() }) : null;
    this.list.replaceChildren(h("div", { class: "names-head" }, h("h1", {}, t("nav.library"))), ...items, ...(make ? [make] : []));
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
    const field = h("input", { type: "text", id: "ns-name", required: true, maxlength: 200, dir: "auto", autocomplete: "off", "aria-describedby": "ns-about ns-error" });
    const error = h("p", { id: "ns-error", class: "error-text", role: "alert" });
    const form = h(
      "form",
      { class: "form" },
      h("div", { class: "field" }, h("label", { for: "ns-name" }, t("library.name")), field, h("p", { id: "ns-about", class: "muted small" }, t("library.name.about"))),
      error,
      h("div", { class: "row end" }, button(t("library.create"), { kind: "primary", type: "submit" })),
    );
    const node = dialog(t("library.create"), form);
    form.addEventListener("submit", async (event) => {
      event.preventDefault();
      try {
        const { name } = await post("/v1/namespaces", { title: field.value });
        node.close();
        location.hash = `#/library/${encodeURIComponent(name)}`;
      } catch (failure) {
        error.textContent = failure.message;
      }
    });
    field.focus();
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
    this.facts = h("p", { class: "muted small" }, factsOf(namespace));
    const remove = this.mayChange ? button(t("library.delete"), { icon: "trash", kind: "quiet", onclick: () => this.confirmDelete(namespace, address) }) : null;
    this.tabs = tabs(t("library.tabs"), entries);
    this.body.replaceChildren(h("div", { class: "library-head" }, h("div", {}, foreign(titleOf(namespace), "h2"), this.facts, this.mayChange ? null : h("p", { class: "muted small" }, t("library.read_only"))), remove), namespace.damage ? problem(new Error(namespace.damage)) : this.tabs);
    this.documents.load();
    if (!namespace.documents && mayChange) [...this.tabs.querySelectorAll("[role=tab]")].at(-1).click();
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
    this.namespaces = (await get("/v1/namespaces")).data;
    this.showList();
    const now = this.namespaces.find((one) => one.name === this.name);
    if (now) this.facts.textContent = factsOf(now);
  }
}

function titleOf({ name, title, sample }) {
  return sample ? t("library.sample") : title || name;
}

function factsOf(namespace) {
  if (namespace.sample) return t("library.sample.about");
  return [tn("library.documents", namespace.documents || 0), tn("library.passages", namespace.passages || 0), bytes(namespace.bytes || 0), namespace.encoder].filter(Boolean).join(" · ");
}

/** Lists documents, by name and by PMID. */
class Documents {
  constructor(address, name, mayChange) {
    this.address = address;
    this.name = name;
    this.mayChange = mayChange;
    this.field = h("input", { type: "search", placeholder: t("documents.search"), "aria-label": t("documents.search") });
    this.rows = h("div", { class: "documents" });
    this.total = h("p", { class: "muted small", role: "status" });
    const form = h("form", { class: "row nowrap" }, this.field, button(t("search.go"), { icon: "search", type: "submit" }));
    form.addEventListener("submit", (event) => {
      event.preventDefault();
      this.load();
    });
    this.node = h("div", { class: "form" }, form, this.total, this.rows);
  }

  async load(before = "") {
    const words = this.field.value.trim().replace(/^pmid:?\s*/i, "");
    const query = new URLSearchParams({ limit: LISTED, ...(words && { query: words }), ...(before && { before }) });
    this.asked = query;
    try {
      const found = await get(`${this.address}/documents?${query}`);
      if (this.asked !== query) return; // another search began meanwhile: its reply may have come first
      const items = found.data.map((one) => this.row(one));
      if (before) this.rows.lastChild.remove();
      else this.rows.replaceChildren();
      this.rows.append(...items);
      if (found.next) this.rows.append(button(t("documents.more"), { kind: "quiet", onclick: () => this.load(found.next) }));
      this.total.textContent = found.total ? tn("library.documents", found.total) : /^\d{4,9}$/.test(words) ? t("documents.no_pmid", { pmid: words }) : words ? t("documents.no_match") : t("documents.none");
    } catch (error) {
      if (this.asked === query) this.total.textContent = error.message;
    }
  }

  row(one) {
    const address = `#/reader/${encodeURIComponent(this.name)}/${encodeURIComponent(one.id)}`;
    const facts = [(one.authors || []).length ? `${one.authors[0]}${one.authors.length > 1 ? " et al." : ""}` : "", one.journal, one.date, one.name].filter(Boolean).join(" · ");
    return h(
      "div",
      { class: "document" },
      h(
        "div",
        { class: "document-text" },
        h("a", { href: address, class: "document-title" }, foreign(one.title || one.name || one.id)),
        h("p", { class: "muted small" }, foreign(facts || one.id)),
      ),
      h(
        "div",
        { class: "row" },
        one.retracted_by?.length ? h("span", { class: "badge bad" }, t("retracted")) : null,
        one.corrected_by?.length ? h("span", { class: "badge warn" }, t("documents.corrected")) : null,
        Object.values(one.waiting || {}).some(Boolean) ? h("span", { class: "badge warn" }, t("documents.waiting")) : null,
        one.pages ? h("span", { class: "badge" }, tn("documents.pages", one.pages)) : null,
        h("span", { class: "badge" }, tn("library.passages", one.passages)),
        one.url ? outside(one.url, h("span", { class: "unseen" }, t("source.open")), icon("open")) : null,
        this.mayChange ? button(t("documents.remove", { title: plain(one.title || one.id).slice(0, 60) }), { icon: "trash", bare: true, kind: "quiet", onclick: (event) => this.remove(one, event.currentTarget) }) : null,
      ),
    );
  }

  async remove(one, trigger) {
    const go = button(t("documents.remove_short"), { icon: "trash", kind: "danger" });
    const node = dialog(t("documents.remove_short"), h("div", { class: "form" }, h("p", {}, foreign(one.title || one.name || one.id)), h("div", { class: "row end" }, go)));
    go.addEventListener("click", async () => {
      node.close();
      trigger.disabled = true;
      try {
        await send(`${this.address}/documents/${encodeURIComponent(one.id)}?wait=30`, { method: "DELETE" });
        this.load();
      } catch (error) {
        toast(error.message, "bad");
        trigger.disabled = false;
      }
    });
  }
}

function problem(error) {
  return h("div", { class: "problem", role: "alert" }, icon("warn"), h("p", {}, foreign(error.message)));
}
