// Reads a document: pages of a PDF as pictures under a layer of text that can be selected, or its passages.

import { get, send } from "./api.js";
import { isAble } from "./composer.js";
import { announce, button, count, foreign, h, icon, outside, plain, problem } from "./dom.js";
import { modelOf } from "./keys.js";
import { t, titleOf, tn } from "./texts.js";

// Of the width that fits the screen.
const ZOOMS = [0.75, 1, 1.25, 1.6, 2.2];
const MAX_FIT = 820;

/** Shows a document; `page` and `mark` of the query say where. */
export function show(main, [namespace, document_], query) {
  if (!namespace || !document_) {
    location.replace(namespace ? `#/library/${encodeURIComponent(namespace)}` : "#/library");
    return null;
  }
  const reader = new Reader(main, namespace, document_, query);
  reader.load();
  return () => reader.leave();
}

class Reader {
  constructor(main, namespace, id, query) {
    this.namespace = namespace;
    this.address = `/v1/namespaces/${encodeURIComponent(namespace)}/documents/${encodeURIComponent(id)}`;
    this.page = Math.max(1, Math.floor(Number(query.get("page"))) || 1);
    this.mark = query.get("mark") || "";
    this.zoom = 1;
    this.turnNumber = 0;
    this.title = h("h1", {});
    this.facts = h("p", { class: "muted small" });
    // It scrolls, so the keyboard must reach it.
    this.body = h("div", { class: "reader-body", tabindex: "0", role: "region", "aria-label": t("reader.body") });
    this.bar = h("div", { class: "reader-bar", role: "toolbar", "aria-label": t("reader.tools") });
    this.menu = h("div", { class: "selection-menu", role: "toolbar", "aria-label": t("reader.selection"), hidden: true });
    this.place = h("span", {}, foreign(namespace));
    main.replaceChildren(h("div", { class: "reader" }, h("div", { class: "reader-head" }, h("a", { href: `#/library/${encodeURIComponent(namespace)}`, class: "button quiet" }, icon("left"), this.place), h("div", { class: "reader-title" }, this.title, this.facts)), this.bar, this.body, this.menu));
    this.onSelect = () => this.showMenu();
    document.addEventListener("selectionchange", this.onSelect);
    this.onKey = (event) => {
      if (event.target.closest?.("input, textarea, select, dialog")) return;
      if (event.key === "PageDown" || event.key === "ArrowRight") this.go(this.page + 1, event);
      if (event.key === "PageUp" || event.key === "ArrowLeft") this.go(this.page - 1, event);
    };
    document.addEventListener("keydown", this.onKey);
  }

  leave() {
    document.removeEventListener("selectionchange", this.onSelect);
    document.removeEventListener("keydown", this.onKey);
    if (this.picture) URL.revokeObjectURL(this.picture);
  }

  async load() {
    get(`/v1/namespaces/${encodeURIComponent(this.namespace)}`).then((one) => this.place.replaceChildren(foreign(titleOf(one))), () => {}); // its name stays
    try {
      this.document = await get(this.address);
    } catch (error) {
      this.body.replaceChildren(problem(error));
      return;
    }
    const one = this.document;
    this.title.replaceChildren(foreign(one.title || one.name || one.id));
    document.title = `${plain(one.title || one.id).slice(0, 80)} · Arrowhead`;
    this.facts.replaceChildren(foreign([(one.authors || []).slice(0, 3).join(", "), one.journal, one.date, one.name].filter(Boolean).join(" · ")), one.url ? [" · ", outside(one.url, t("source.open"))] : "");
    if (one.retracted_by?.length) this.facts.after(h("p", { class: "badge bad" }, t("retracted.by", { by: plain(one.retracted_by.join(", ")) })));
    if (one.cited_works?.length) this.facts.after(citedWorks(one.cited_works));
    if (one.has_file) this.showPage();
    else this.showPassages();
  }

  showPassages() {
    const nodes = [];
    let section = null;
    for (const passage of this.document.data) {
      if (passage.section && passage.section !== section) nodes.push(foreign(passage.section, "h2"));
      section = passage.section;
      const place = this.mark ? passage.text.indexOf(this.mark) : -1;
      const pieces = place < 0 ? [plain(passage.text)] : [plain(passage.text.slice(0, place)), h("mark", {}, plain(this.mark)), plain(passage.text.slice(place + this.mark.length))];
      nodes.push(h("p", { class: "reading", dir: "auto" }, pieces));
    }
    this.body.replaceChildren(h("article", { class: "sheet" }, nodes.length ? nodes : h("p", { class: "muted" }, t("reader.empty")), this.document.has_more ? h("p", { class: "muted" }, t("reader.more")) : null));
    this.body.querySelector("mark")?.scrollIntoView({ block: "center" });
  }

  go(page, event) {
    if (!this.document?.has_file || page < 1 || page > this.pages) return;
    event?.preventDefault();
    this.page = page;
    this.showPage();
  }

  async showPage() {
    const mine = (this.turnNumber += 1);
    const width = Math.min(this.width * Math.min(devicePixelRatio || 1, 2), 2400);
    this.body.setAttribute("aria-busy", "true");
    try {
      const [text, reply] = await Promise.all([get(`${this.address}/pages/${this.page}/text`), send(`${this.address}/pages/${this.page}.png?width=${Math.round(width)}`)]);
      const picture = URL.createObjectURL(await reply.blob());
      if (mine !== this.turnNumber) {
        URL.revokeObjectURL(picture);
        return;
      }
      if (this.picture) URL.revokeObjectURL(this.picture);
      this.picture = picture;
      this.pages = text.pages;
      this.showBar();
      this.body.replaceChildren(this.sheet(text, picture));
      announce(t("reader.page", { n: this.page, of: this.pages }));
      this.body.querySelector(".word.marked")?.scrollIntoView({ block: "center" });
    } catch (error) {
      this.body.replaceChildren(problem(error));
    }
    this.body.removeAttribute("aria-busy");
  }

  get width() {
    return Math.round(ZOOMS[this.zoom] * Math.max(240, Math.min(MAX_FIT, this.body.clientWidth - 32)));
  }

  showBar() {
    const number = h("input", { type: "number", min: 1, max: this.pages, value: this.page, "aria-label": t("reader.go") });
    number.addEventListener("change", () => this.go(Math.min(this.pages, Math.max(1, Number(number.value) || 1))));
    const zoom = (by) => {
      this.zoom = Math.min(ZOOMS.length - 1, Math.max(0, this.zoom + by));
      this.showPage();
    };
    this.bar.replaceChildren(
      button(t("reader.previous"), { icon: "left", bare: true, disabled: this.page <= 1, onclick: () => this.go(this.page - 1) }),
      number,
      h("span", { class: "muted small" }, t("reader.of", { of: count(this.pages) })),
      button(t("reader.next"), { icon: "right", bare: true, disabled: this.page >= this.pages, onclick: () => this.go(this.page + 1) }),
      h("span", { class: "grow" }),
      button(t("reader.smaller"), { kind: "bare-text", disabled: this.zoom === 0, onclick: () => zoom(-1) }),
      button(t("reader.larger"), { kind: "bare-text", disabled: this.zoom === ZOOMS.length - 1, onclick: () => zoom(1) }),
    );
  }

  sheet(text, picture) {
    const { width } = this;
    const scale = width / text.width;
    const marked = wordsOf(text.words, this.mark);
    const layer = h("div", { class: "text-layer" });
    text.words.forEach((word, place) => {
      const node = h("span", { class: marked.has(place) ? "word marked" : "word" }, `${plain(word.text)} `);
      const { x0: left, y0: top, x1: right, y1: bottom } = word;
      node.style.left = `${left * scale}px`;
      node.style.top = `${top * scale}px`;
      node.style.width = `${(right - left) * scale}px`;
      node.style.height = `${(bottom - top) * scale}px`;
      node.style.fontSize = `${(bottom - top) * scale * 0.85}px`;
      layer.append(node);
    });
    const sheet = h("div", { class: "pdf-page" }, h("img", { src: picture, alt: t("reader.picture", { n: this.page }) }), layer);
    sheet.style.width = `${width}px`;
    sheet.style.height = `${text.height * scale}px`;
    return h("div", {}, text.has_text ? null : h("p", { class: "fine no-text" }, icon("info"), t("reader.no_text")), sheet, this.mark && !marked.size && text.has_text ? h("p", { class: "fine no-text" }, icon("info"), t("reader.not_marked")) : null);
  }

  // Selected text

  showMenu() {
    const selection = document.getSelection();
    const text = selection.toString().replace(/\s+/g, " ").trim();
    if (text.length < 3 || !this.body.contains(selection.anchorNode)) {
      this.menu.hidden = true;
      return;
    }
    const ways = waysOf(this.document);
    if (!ways.length) return;
    const box = selection.getRangeAt(0).getBoundingClientRect();
    this.menu.replaceChildren(...ways.map((way) => button(t(`reader.${way.kind}`), { kind: "quiet", onclick: () => this.ask(way, text.slice(0, 4000)) })));
    this.menu.hidden = false;
    this.menu.style.top = `${Math.max(8, box.top - 48)}px`;
    this.menu.style.left = `${Math.min(innerWidth - 300, Math.max(8, box.left))}px`;
  }

  /** Goes on in the chat, with the question written but not sent. */
  ask({ kind, method, article }, text) {
    const asked = { method, text: article ? text : t(`reader.${kind}.prompt`, { text }), namespaces: kind === "ask" ? [this.namespace] : null };
    if (article) asked.once = { recommend: true, articles: [article], namespaces: [this.namespace] };
    sessionStorage.setItem("ask", JSON.stringify(asked));
    location.hash = "#/chat";
  }
}

/**
 * Returns what can be asked about a text of the document with the served model, and by which method. Without a model that
 * chats, WeiseEule sums up an article, which it knows by its PMID, by the sentences that say most about the text.
 */
function waysOf(document_) {
  const able = (method) => Boolean(modelOf(method) && isAble(modelOf(method)));
  const article = /^PMID:(\d+)$/.exec(document_.id)?.[1];
  const ways = [];
  if (able("direct")) ways.push({ kind: "summarise", method: "direct" }, { kind: "explain", method: "direct" });
  else if (article && able("weiseeule")) ways.push({ kind: "summarise", method: "weiseeule", article });
  const asked = ["medrag", "weiseeule", "direct"].find(able);
  if (asked) ways.push({ kind: "ask", method: asked });
  return ways;
}

/** Returns the works that a document cites, folded up. */
function citedWorks(works) {
  const items = works.map((one) => {
    const about = [one.authors.slice(0, 3).join(", ") + (one.authors.length > 3 ? " et al." : ""), one.container, one.year || ""].filter(Boolean).join(", ");
    const title = foreign(one.title || one.raw);
    return h("li", {}, one.url ? outside(one.url, title) : title, about ? h("span", { class: "muted small" }, " · ", foreign(about)) : null);
  });
  return h("details", { class: "more cited-works" }, h("summary", {}, tn("reader.cites", works.length)), h("ol", { class: "plain-list" }, items));
}

const clean = (text) => text.normalize("NFKC").toLowerCase().replace(/[^\p{L}\p{N}]+/gu, "");

/** Returns the places of the words of a page that a text consists of, none where it is not there. */
export function wordsOf(words, text) {
  const wanted = text.split(/\s+/).map(clean).filter(Boolean);
  if (!wanted.length) return new Set();
  const there = words.map((word, place) => ({ word: clean(word.text), place })).filter(({ word }) => word);
  let best = { matched: 0, from: 0, to: 0 };
  for (let from = 0; from < there.length; from += 1) {
    let at = from;
    let matched = 0;
    while (matched < wanted.length && at < there.length) {
      const word = there[at].word;
      // A line end broke the word, which the text has whole.
      const isBroken = word !== wanted[matched] && word + there[at + 1]?.word === wanted[matched];
      if (word !== wanted[matched] && !isBroken) break;
      matched += 1;
      at += isBroken ? 2 : 1;
    }
    if (matched > best.matched) best = { matched, from, to: at };
  }
  // A passage may go on over the page's end; a few words by chance are no match.
  if (best.matched < Math.min(4, wanted.length)) return new Set();
  return new Set(there.slice(best.from, best.to).map(({ place }) => place));
}

