// The documents of a collection: each with its status, and what could not be read of its files.

import { get, send } from "./api.js";
import { button, count, dialog, foreign, h, icon, onSubmit, outside, plain, toast } from "./dom.js";
import { t, tn } from "./texts.js";

const LISTED = 50;
const STATUS = { ready: "good", waiting: "warn", partly_read: "warn" };

/** Lists documents, by name and by PMID. */
export class Documents {
  constructor(address, name, mayChange) {
    this.address = address;
    this.name = name;
    this.mayChange = mayChange;
    this.field = h("input", { type: "search", placeholder: t("documents.search"), "aria-label": t("documents.search") });
    this.rows = h("div", { class: "documents" });
    this.total = h("p", { class: "muted small", role: "status" });
    this.unread = h("div", {});
    const form = h("form", { class: "row nowrap" }, this.field, button(t("search.go"), { icon: "search", type: "submit" }));
    onSubmit(form, () => this.load());
    this.node = h("div", { class: "form" }, form, this.unread, this.total, this.rows);
  }

  async load(before = "") {
    if (!before) this.loadUnread();
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
        h("span", { class: `badge ${STATUS[one.status]}` }, one.status === "partly_read" ? tn("documents.unread", one.unread) : t(`documents.${one.status}`)),
        one.pages ? h("span", { class: "badge" }, tn("documents.pages", one.pages)) : null,
        h("span", { class: "badge" }, tn("library.passages", one.passages)),
        one.url ? outside(one.url, h("span", { class: "unseen" }, t("source.open")), icon("open")) : null,
        this.mayChange ? button(t("documents.remove", { title: plain(one.title || one.id).slice(0, 60) }), { icon: "trash", bare: true, kind: "quiet", onclick: (event) => this.remove(one, event.currentTarget) }) : null,
      ),
    );
  }

  /** Shows the files, pages and records that could not be read, each with the reason. */
  async loadUnread() {
    try {
      const { data, total } = await get(`${this.address}/unread`);
      this.unread.replaceChildren(...(total ? [this.unreadList(data, total)] : []));
    } catch {
      // the documents' list tells the fault
    }
  }

  unreadList(data, total) {
    const items = data.map((one) => h("li", {}, foreign(fileName(one.file), "span", { class: "job-name" }), h("p", { class: "muted small" }, foreign([one.line ? t("unread.line", { n: count(one.line) }) : "", one.reason].filter(Boolean).join(": ")))));
    if (total > data.length) items.push(h("li", { class: "muted small" }, t("unread.more", { n: count(total - data.length) })));
    const forget = button(t("unread.forget"), { icon: "check", onclick: () => this.forgetUnread() });
    return h("details", { class: "unread" }, h("summary", {}, icon("warn"), h("span", {}, tn("unread.title", total))), h("p", { class: "muted small" }, t("unread.about")), h("ul", { class: "plain-list" }, items), this.mayChange ? h("div", { class: "row" }, forget) : null);
  }

  async forgetUnread() {
    try {
      await send(`${this.address}/unread`, { method: "DELETE" });
      await this.load();
      this.field.focus();
    } catch (error) {
      toast(error.message, "bad");
    }
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

/** Returns a file as people know it: of a followed folder by its path in it. */
const fileName = (name) => plain(name.replace(/^\.\//, ""));
