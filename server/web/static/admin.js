// The administrator's screen: keys, what may leave, jobs of all keys, storage and models.

import { get, post, send } from "./api.js";
import { button, bytes, count, day, dialog, foreign, h, moment, onSubmit, plain, scrolled, toast } from "./dom.js";
import { session } from "./keys.js";
import { newKey } from "./setup.js";
import { card } from "./status.js";
import { has, t, tn, whatLeft } from "./texts.js";

const EVERY_MS = 10_000;
const KEYS = "/v1/admin/keys";
const MODES = ["off", "local-first", "ncbi"];
const RUNS = ["queued", "running"];

/** Shows the screen, and keeps it true until it is left. */
export function show(main) {
  const screen = new Administration(main);
  screen.load();
  const timer = setInterval(() => !document.hidden && screen.loadOverview(), EVERY_MS);
  return () => {
    screen.closed = true;
    clearInterval(timer);
  };
}

class Administration {
  constructor(main) {
    this.keys = h("section", { class: "card form", "aria-label": t("admin.keys") });
    this.cards = h("div", { class: "cards" });
    this.problem = h("p", { class: "error-text", role: "alert" });
    this.names = new Map();
    main.replaceChildren(h("div", { class: "page" }, h("div", { class: "card-head" }, h("h1", {}, t("nav.admin")), h("a", { href: "#/corpora" }, t("corpora.title"))), this.problem, this.keys, this.cards));
  }

  async load() {
    await this.loadKeys();
    await this.loadOverview();
  }

  async loadKeys() {
    await this.told(async () => {
      const { data } = await get(KEYS);
      this.names = new Map(data.map((one) => [one.id, one.name || t("admin.key.fixed")]));
      this.keys.replaceChildren(...this.keyParts(data));
    });
  }

  async loadOverview() {
    await this.told(async () => {
      const overview = await get("/v1/admin/overview");
      const written = JSON.stringify(overview);
      if (this.closed || written === this.written) return;
      this.written = written;
      this.overview = overview;
      this.cards.replaceChildren(...this.overviewCards(overview));
    });
  }

  /** Does what asks the server, and shows why it did not answer. */
  async told(work) {
    try {
      await work();
      this.problem.textContent = "";
    } catch (error) {
      this.problem.textContent = error.message;
    }
  }

  keyParts(keys) {
    const mayMake = session.permissions.needs_key;
    const head = h("div", { class: "card-head" }, h("h2", {}, t("admin.keys")), mayMake ? button(t("admin.key.new"), { icon: "plus", kind: "primary", onclick: () => this.edit(null) }) : null);
    if (!mayMake) return [head, h("p", { class: "muted" }, t("admin.keys.none"))];
    const active = keys.filter((one) => one.state === "active");
    const ended = keys.filter((one) => one.state !== "active");
    const columns = ["name", "may", "ends", "left"].map((name) => h("th", { scope: "col" }, t(`admin.keys.${name}`)));
    const table = h("table", {}, h("thead", {}, h("tr", {}, columns, h("th", { scope: "col" }, h("span", { class: "unseen" }, t("admin.keys.do"))))), h("tbody", {}, active.map((one) => this.row(one))));
    const past = ended.length ? h("details", {}, h("summary", { class: "muted small" }, tn("admin.keys.ended", ended.length)), h("ul", { class: "muted small" }, ended.map((one) => h("li", {}, foreign(`${one.name} (${one.id})`))))) : null;
    return [head, h("p", { class: "muted small" }, t("admin.keys.about")), scrolled(t("table.label"), table), past].filter(Boolean);
  }

  row(key) {
    const own = key.id === session.permissions.key_id;
    const name = h("td", {}, foreign(key.name || t("admin.key.fixed"), "strong"), own ? [" ", h("span", { class: "badge good" }, t("admin.key.yours"))] : null, h("span", { class: "muted small block" }, key.id));
    const label = (word) => ({ "aria-label": `${word}: ${plain(key.name)}` });
    const act = key.fixed
      ? []
      : [
          button(t("admin.key.change"), { kind: "quiet", onclick: () => this.edit(key), ...label(t("admin.key.change")) }),
          own ? null : button(t("admin.key.revoke"), { kind: "quiet", onclick: () => this.revoke(key), ...label(t("admin.key.revoke")) }),
        ];
    return h("tr", {}, name, h("td", {}, limitsOf(key)), h("td", {}, key.expires ? day(Date.parse(key.expires)) : t("admin.key.never")), h("td", {}, foreign(whatLeft(key.left))), h("td", {}, h("div", { class: "row" }, act)));
  }

  /** Opens the form of a key, of a new one where it is null. */
  edit(key) {
    const form = new KeyForm(key, this.overview?.namespaces || []);
    const node = dialog(key ? t("admin.key.change") : t("admin.key.new"), form.node);
    const work = async () => {
      const made = await post(key ? `${KEYS}/${key.id}` : KEYS, form.body());
      node.close();
      if (made.secret) dialog(t("admin.key.made"), newKey(made));
      this.loadKeys();
    };
    onSubmit(form.node, work, form.error);
    form.name.focus();
  }

  revoke(key) {
    const go = button(t("admin.key.revoke"), { kind: "danger" });
    const node = dialog(t("admin.key.revoke"), h("div", { class: "form" }, h("p", {}, t("admin.key.revoke.about", { name: plain(key.name) })), h("div", { class: "row end" }, go)));
    go.addEventListener("click", async () => {
      try {
        await send(`${KEYS}/${key.id}`, { method: "DELETE" });
        this.loadKeys();
      } catch (error) {
        toast(error.message, "bad");
      }
      node.close();
    });
  }

  overviewCards({ egress, queue, jobs, storage, free_bytes: free, namespaces, models }) {
    const hosts = egress.hosts.map((one) => [t(`admin.host.${one.for}`), foreign(one.host)]);
    return [
      card(
        t("admin.egress"),
        [h("span", { class: egress.mode === "off" ? "badge good" : "badge warn" }, t(`egress.${egress.mode}`))],
        [
          [t("status.mode"), t(`egress.${egress.mode}.about`)],
          egress.mode === "off" ? null : [t("status.allows"), foreign(egress.allows.join(", "))],
          ...(hosts.length ? hosts : [[t("admin.hosts"), t("admin.hosts.none")]]),
          session.permissions.needs_key ? null : [t("admin.keys.left"), foreign(whatLeft(egress.left))],
        ],
        t("admin.egress.about"),
      ),
      card(t("admin.queue"), [], [[t("status.running"), count(queue.running)], [t("status.waiting"), count(queue.waiting)], ...jobs.filter((one) => RUNS.includes(one.state)).map((one) => this.job(one))], jobs.some((one) => RUNS.includes(one.state)) ? "" : t("admin.jobs.none")),
      card(t("admin.storage"), [], [...storage.map((one) => [t(`admin.storage.${one.name}`), bytes(one.bytes)]), [t("admin.storage.free"), bytes(free)]]),
      namespaces.length === 0 ? null : card(t("nav.library"), [], namespaces.map((one) => [foreign(one.title || one.name), `${t("status.size", { documents: count(one.documents || 0), bytes: bytes(one.bytes) })} · ${this.nameOf(one.key_id)}`])),
      card(t("admin.models"), [], models.map((one) => [t(`admin.model.${one.use}`), foreign([one.name || t("admin.model.shipped"), one.licence === "unknown" ? "" : one.licence].filter(Boolean).join(", "))])),
    ].filter(Boolean);
  }

  job(job) {
    const kind = has(`job.${job.kind}`) ? t(`job.${job.kind}`) : job.kind;
    const stop = button(t("admin.job.stop"), {
      kind: "quiet",
      disabled: job.cancelling,
      "aria-label": `${t("admin.job.stop")}: ${kind}, ${plain(job.namespace)}`,
      onclick: async () => {
        await this.told(() => send(`/v1/admin/jobs/${job.id}`, { method: "DELETE" }));
        this.loadOverview();
      },
    });
    return [kind, h("span", {}, foreign(job.namespace), ` · ${this.nameOf(job.key_id)} · ${moment(job.created * 1000)} `, stop)];
  }

  nameOf(id) {
    return this.names.get(id) || id || t("admin.key.operator");
  }
}

/** Returns what a key may do, in words. */
function limitsOf({ scopes, egress, fixed }) {
  if (fixed) return t("admin.may.all");
  const told = [
    scopes.may_administer ? t("admin.may.administer") : null,
    scopes.methods ? scopes.methods.map((one) => t(`method.${one}`)).join(", ") : t("admin.may.methods"),
    scopes.may_change ? null : t("admin.may.read"),
    scopes.namespaces ? (scopes.namespaces.length ? t("admin.may.namespaces", { names: scopes.namespaces.join(", ") }) : t("admin.reads.own")) : null,
    egress === session.permissions.egress ? null : t(`egress.${egress}`),
    scopes.requests_per_minute ? t("admin.may.rate", { n: count(scopes.requests_per_minute) }) : null,
    scopes.tokens_per_minute ? t("admin.may.tokens", { n: count(scopes.tokens_per_minute) }) : null,
  ];
  return told.filter(Boolean).join(" · ");
}

class KeyForm {
  constructor(key, namespaces) {
    this.key = key;
    const scopes = key?.scopes || {};
    this.name = h("input", { type: "text", id: "key-name", required: true, maxlength: 64, dir: "auto", autocomplete: "off", value: key?.name || "" });
    this.ends = h("input", { type: "date", id: "key-ends", value: key?.expires?.slice(0, 10) || "" });
    this.rate = h("input", { type: "number", id: "key-rate", min: 1, placeholder: t("admin.key.no_limit"), value: scopes.requests_per_minute ?? "" });
    this.tokens = h("input", { type: "number", id: "key-tokens", min: 1, placeholder: t("admin.key.no_limit"), value: scopes.tokens_per_minute ?? "" });
    this.mayChange = check(t("status.may_change"), scopes.may_change ?? true);
    this.mayAdminister = check(t("admin.may.administer"), scopes.may_administer ?? false);
    this.egress = this.egressChoice(scopes.egress);
    this.methods = this.methodChoice(scopes.methods);
    this.reads = this.namespaceChoice(scopes.namespaces, namespaces);
    this.error = h("p", { class: "error-text", role: "alert" });
    const limits = [
      h("div", { class: "fields" }, field("key-rate", "admin.key.rate", this.rate), field("key-tokens", "admin.key.tokens", this.tokens)),
      field("key-egress", "admin.egress", this.egress),
      field("key-reads", "admin.key.reads", this.reads.select),
      this.reads.some,
      h("fieldset", {}, h("legend", {}, t("status.methods")), this.methods.map((one) => one.node)),
      this.mayChange.node,
      this.mayAdminister.node,
    ];
    this.node = h(
      "form",
      { class: "form" },
      h("div", { class: "fields" }, field("key-name", "admin.key.name", this.name), field("key-ends", "admin.key.ends", this.ends)),
      h("details", { open: Boolean(key) }, h("summary", {}, t("admin.key.limits")), h("div", { class: "form" }, limits)),
      this.error,
      h("div", { class: "row end" }, button(key ? t("admin.key.save") : t("admin.key.make"), { kind: "primary", type: "submit" })),
    );
  }

  egressChoice(chosen) {
    const server = session.permissions.egress;
    const modes = MODES.slice(0, MODES.indexOf(server) + 1);
    const node = h("select", { id: "key-egress" }, h("option", { value: "" }, t("admin.egress.server")), [...new Set([...modes, chosen].filter(Boolean))].map((mode) => h("option", { value: mode }, t(`egress.${mode}.about`))));
    node.value = chosen || "";
    return node;
  }

  methodChoice(chosen) {
    const known = session.permissions.methods.filter((one) => one !== "auto");
    return [...new Set([...known, ...(chosen || [])])].map((name) => ({ name, ...check(t(`method.${name}`), !chosen || chosen.includes(name)) }));
  }

  namespaceChoice(chosen, namespaces) {
    const select = h("select", { id: "key-reads" }, ["all", "own", "some"].map((one) => h("option", { value: one }, t(`admin.reads.${one}`))));
    select.value = !chosen ? "all" : chosen.length ? "some" : "own";
    const titles = new Map([...namespaces.map((one) => [one.name, one.title || one.name]), ...(chosen || []).map((name) => [name, name])]);
    const boxes = [...titles].map(([name, title]) => ({ name, ...check(title, chosen?.includes(name) ?? false) }));
    const some = h("fieldset", {}, h("legend", { class: "unseen" }, t("admin.reads.some")), boxes.map((one) => one.node));
    const fit = () => {
      some.hidden = select.value !== "some";
    };
    select.addEventListener("change", fit);
    fit();
    return { select, some, boxes };
  }

  body() {
    const methods = this.methods.filter((one) => one.box.checked).map((one) => one.name);
    const some = this.reads.boxes.filter((one) => one.box.checked).map((one) => one.name);
    const scopes = {
      methods: methods.length === this.methods.length ? null : methods,
      egress: this.egress.value || null,
      requests_per_minute: number(this.rate),
      tokens_per_minute: number(this.tokens),
      namespaces: { all: null, own: [], some }[this.reads.select.value],
      may_change: this.mayChange.box.checked,
      may_administer: this.mayAdminister.box.checked,
    };
    // A day that was not changed keeps its time.
    const ends = this.ends.value === (this.key?.expires?.slice(0, 10) || "") ? {} : { expires: this.ends.value || null };
    return { name: this.name.value, scopes, ...ends };
  }
}

function number(node) {
  return node.value === "" ? null : Number(node.value);
}

function field(id, key, node) {
  return h("div", { class: "field" }, h("label", { for: id }, t(key)), node);
}

function check(label, isChecked) {
  const box = h("input", { type: "checkbox", checked: isChecked });
  return { box, node: h("label", { class: "check" }, box, foreign(label)) };
}
