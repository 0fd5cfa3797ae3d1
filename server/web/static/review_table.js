// The table of evidence of a review: sorted by a column, with columns that its reader adds, and exclusions by hand.

import { button, dialog, foreign, h, icon, onSubmit, outside, plain, scrolled } from "./dom.js";
import { t } from "./texts.js";

const FIXED = ["number", "title", "level"];
const CELLS = ["population", "design", "sample_size", "result", "risk_of_bias"];

/**
 * Returns the table. `review` has rows, columns and `isNew(uid)`; `acts`: addColumn({name, question}),
 * removeColumn(name), exclude(uid, reason).
 */
export function evidenceTable(review, acts) {
  const rows = review.rows.filter((row) => !row.excluded);
  const state = { by: "number", down: false };
  const own = review.columns.map((one) => one.name);
  // Only a model that writes fills all of them; a column without a value says nothing.
  const filled = CELLS.filter((name) => !own.includes(name) && rows.some((row) => row[name]?.value));
  const columns = [...FIXED, ...filled, ...own.map((name) => `:${name}`)];
  const cellOf = (row, column) => (column.startsWith(":") ? row.columns?.[column.slice(1)] : row[column]);
  const hasQuotes = rows.some((row) => columns.slice(FIXED.length).some((column) => quoteOf(cellOf(row, column))));
  const quotes = h("input", { type: "checkbox" });
  const body = h("tbody", {});
  const heads = columns.map((column) => {
    const name = column.startsWith(":") ? plain(column.slice(1)) : t(`evidence.${column === "title" ? "article" : column}`);
    const sort = h("button", { type: "button", class: "sort" }, name, icon("chevron"));
    sort.addEventListener("click", () => {
      state.down = state.by === column ? !state.down : false;
      state.by = column;
      draw();
    });
    const remove = column.startsWith(":") ? button(t("column.remove", { name }), { icon: "close", bare: true, kind: "quiet", onclick: () => acts.removeColumn(column.slice(1)) }) : null;
    return h("th", { scope: "col", "aria-sort": "none" }, h("span", { class: "head" }, sort, remove));
  });
  const table = h("table", { class: "evidence" }, h("thead", {}, h("tr", {}, heads, h("th", { scope: "col" }, h("span", { class: "unseen" }, t("exclude.title"))))), body);
  const draw = () => {
    heads.forEach((head, place) => head.setAttribute("aria-sort", columns[place] === state.by ? (state.down ? "descending" : "ascending") : "none"));
    const sorted = [...rows].sort((a, b) => compare(keyOf(a, state.by, cellOf), keyOf(b, state.by, cellOf)) * (state.down ? -1 : 1));
    body.replaceChildren(...sorted.map((row) => h("tr", {}, fixedCells(row, review), columns.slice(FIXED.length).map((column) => cell(cellOf(row, column), column.startsWith(":"))), h("td", {}, button(t("exclude.one", { title: plain(row.title || row.uid) }), { icon: "close", bare: true, kind: "quiet", onclick: () => askReason(row, acts) })))));
  };
  quotes.addEventListener("change", () => table.classList.toggle("with-quotes", quotes.checked));
  draw();
  return h(
    "section",
    { class: "form" },
    h("div", { class: "row" }, h("h2", {}, t("evidence.title")), h("span", { class: "grow" }), hasQuotes ? h("label", { class: "check" }, quotes, h("span", {}, t("evidence.quotes"))) : null, button(t("column.add"), { icon: "plus", onclick: () => askColumn(acts) })),
    scrolled(t("evidence.title"), table),
  );
}

function fixedCells(row, review) {
  const year = row.item?.issued?.["date-parts"]?.[0]?.[0];
  const journal = row.item?.["container-title"];
  const badges = [...(review.isNew(row.uid) ? [h("span", { class: "badge good" }, t("review.new_badge"))] : []), ...(row.notices || []).map((one) => h("span", { class: "badge bad" }, plain(one)))];
  return [
    h("td", {}, row.number ? h("span", { class: "number" }, String(row.number)) : h("span", { class: "muted small" }, t("evidence.uncited"))),
    h("td", { class: "evidence-title" }, outside(row.url, foreign(row.title || row.uid)), h("p", { class: "muted small" }, foreign([journal, year].filter(Boolean).join(", "))), badges),
    h("td", {}, foreign(row.level)),
  ];
}

/** Returns a cell; of an own column it says whether the article states nothing, or nobody has looked yet. */
function cell(found, isOwn) {
  const { value = "", quote = "" } = found || {};
  const shown = quoteOf(found);
  const nothing = h("span", { class: "muted small" }, !isOwn ? "–" : found ? t("column.unstated") : "…");
  return h("td", { title: plain(quote) }, value ? foreign(value) : nothing, shown ? h("p", { class: "quote" }, foreign(shown)) : null);
}

/** Returns the sentence that a cell was read from, where it says more than the cell. */
function quoteOf(found) {
  const { value = "", quote = "" } = found || {};
  return quote === value ? "" : quote;
}

function keyOf(row, column, cellOf) {
  if (column === "number") return row.number || Infinity;
  if (column === "sample_size") return Number((row.sample_size?.value || "").replace(/[, ]/g, "").match(/\d+/)?.[0] ?? -1);
  const found = cellOf(row, column);
  return typeof found === "string" ? found : found?.value || "";
}

const compare = (x, y) => (typeof x === "number" ? x - y || 0 : x.localeCompare(y, undefined, { numeric: true }));

function askColumn(acts) {
  const name = h("input", { type: "text", id: "c-name", required: true, maxlength: 60, dir: "auto", autocomplete: "off" });
  const question = h("input", { type: "text", id: "c-question", maxlength: 300, dir: "auto", autocomplete: "off", "aria-describedby": "c-about" });
  const about = h("p", { id: "c-about", class: "muted small" }, t("column.about"));
  asked(t("column.add"), [labelled("c-name", "column.name", name), labelled("c-question", "column.question", question, about)], () => acts.addColumn({ name: name.value, ...(question.value.trim() && { question: question.value }) }));
}

function askReason(row, acts) {
  const reason = h("input", { type: "text", id: "x-reason", required: true, maxlength: 500, dir: "auto", autocomplete: "off" });
  asked(t("exclude.title"), [foreign(row.title || row.uid, "p"), labelled("x-reason", "exclude.reason", reason)], () => acts.exclude(row.uid, reason.value));
}

/** Asks in a dialog; it stays open with the fault where `act` fails. */
function asked(title, fields, act) {
  const error = h("p", { class: "error-text", role: "alert" });
  const form = h("form", { class: "form" }, fields, error, h("div", { class: "row end" }, button(title, { kind: "primary", type: "submit" })));
  const node = dialog(title, form);
  onSubmit(form, () => act().then(() => node.close()), error);
  form.querySelector("input").focus();
}

function labelled(id, label, field, ...more) {
  return h("div", { class: "field" }, h("label", { for: id }, t(label)), field, more);
}
