// The state of the server: model, what left, queue, namespaces, gateway, audit log, and what this key may do.

import { get } from "./api.js";
import { bytes, count, foreign, h, icon, moment, outside } from "./dom.js";
import { loadReady, session } from "./keys.js";
import { t, titleOf, whatLeft } from "./texts.js";
import { languageChoice, themeButton } from "./theme.js";

const EVERY_MS = 5000;

/** Shows the status, and keeps it true until the screen is left. */
export function show(main) {
  const cards = h("div", { class: "cards" });
  const problem = h("p", { class: "error-text", role: "alert" });
  main.replaceChildren(h("div", { class: "page" }, h("h1", {}, t("nav.status")), problem, cards));
  const facts = { version: null, namespaces: [], status: null };
  let closed = false;
  const draw = () => !closed && cards.replaceChildren(...all(facts));
  const refresh = async () => {
    try {
      await loadReady();
      problem.textContent = "";
      draw();
    } catch (error) {
      problem.textContent = error.message;
    }
  };
  const load = async (path, name, pick) => {
    try {
      facts[name] = pick(await get(path));
      draw();
    } catch (error) {
      problem.textContent = error.message;
    }
  };
  draw();
  // The state comes last: these requests are in flight themselves.
  const loading = [load("/version", "version", (found) => found), load("/v1/namespaces", "namespaces", (found) => found.data), load("/v1/status", "status", (found) => found)];
  Promise.all(loading).then(refresh);
  const timer = setInterval(() => !document.hidden && refresh(), EVERY_MS);
  return () => {
    closed = true;
    clearInterval(timer);
  };
}

function all({ version, namespaces, status }) {
  const ready = session.ready || {};
  const mine = session.permissions;
  const up = ready.status === "ready";
  return [
    card(
      t("status.model"),
      [h("span", { class: up ? "badge good" : "badge warn" }, up ? t("status.ready") : foreign(ready.status || "–"))],
      [
        [t("status.name"), foreign(ready.model || session.models[0]?.base || "–")],
        [t("status.licence"), foreign(session.models[0]?.licence || "–")],
        [t("status.engine"), foreign(version?.engine || "–")],
        [t("status.version"), version ? foreign(`${version.version}${version.commit ? ` (${version.commit.slice(0, 8)})` : ""}`) : "–"],
        [t("status.since"), ready.since ? moment(ready.since * 1000) : "–"],
        [t("status.restarts"), count(ready.restarts || 0)],
        ready.reason ? [t("status.reason"), foreign(ready.reason)] : null,
      ],
    ),
    card(
      t("status.privacy"),
      [h("span", { class: ready.egress === "off" ? "badge good" : "badge warn" }, t(`egress.${ready.egress || mine.egress}`))],
      [
        [t("status.mode"), t(`egress.${ready.egress || mine.egress}.about`)],
        [t("status.left"), foreign(whatLeft(ready.left))],
        ready.egress === "off" ? null : [t("status.allows"), foreign((ready.egress_allows || []).join(", "))],
        [t("status.audit"), status ? auditText(status.audit) : "–"],
      ],
    ),
    card(t("status.queue"), [], [[t("status.running"), count(ready.in_flight || 0)], [t("status.waiting"), count(ready.waiting || 0)]]),
    card(
      t("status.key"),
      [],
      [
        [t("status.key_id"), mine.needs_key ? foreign(mine.key_id || "–", "code") : t("status.no_key")],
        [t("status.methods"), mine.methods.map((one) => t(`method.${one}`)).join(", ")],
        [t("status.may_change"), mine.may_change_namespaces ? t("yes") : t("no")],
      ],
    ),
    card(
      t("nav.library"),
      [],
      namespaces.length
        ? namespaces.map((one) => [h("a", { href: `#/library/${encodeURIComponent(one.name)}` }, foreign(titleOf(one))), one.damage ? foreign(one.damage) : t("status.size", { documents: count(one.documents || 0), bytes: bytes(one.bytes || 0) })])
        : [[t("status.none"), h("a", { href: "#/library" }, t("library.create"))]],
    ),
    card(t("status.gateway"), [], status ? Object.entries(status.gateway).map(([name, number]) => [foreign(name), count(number)]) : [["–", ""]], t("status.gateway.about")),
    card(
      t("status.tables"),
      [],
      status
        ? status.gateway_tables.map((one) => [
            foreign(one.name),
            foreign(t("status.table", { entries: count(one.entries), source: one.source, date: one.date, licence: one.licence })),
          ])
        : [["–", ""]],
      t("status.tables.about"),
    ),
    h("div", { class: "row wide-cell" }, languageChoice(), themeButton({ bare: false }), mine.may_administer ? h("a", { class: "button quiet", href: "#/admin" }, icon("key"), h("span", {}, t("nav.admin"))) : null, outside(`${location.origin}/docs`, h("span", { class: "button quiet" }, icon("info"), h("span", {}, t("status.api"))))),
  ];
}

function auditText({ recording, bytes: size, last }) {
  if (!recording) return t("status.audit.off");
  return t("status.audit.on", { bytes: bytes(size), last: last ? moment(last * 1000) : "–" });
}

/** Returns a card of facts: [[name, value]]. */
export function card(title, badges, rows, about = "") {
  return h(
    "section",
    { class: "card status-card" },
    h("div", { class: "card-head" }, h("h2", {}, title), badges),
    about ? h("p", { class: "muted small" }, about) : null,
    h("dl", { class: "facts-list" }, rows.filter(Boolean).map(([name, value]) => [h("dt", {}, name), h("dd", {}, value)])),
  );
}
