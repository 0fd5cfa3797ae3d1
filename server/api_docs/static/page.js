"use strict";
// Shows /openapi.json and sends requests to this server. Text is only ever set as text, never as markup.

let doc = null;
const key = document.getElementById("key");
const state = document.getElementById("state");

function make(tag, attributes = {}, ...children) {
  const node = document.createElement(tag);
  for (const [name, value] of Object.entries(attributes)) {
    if (name === "class") node.className = value;
    else node[name] = value;
  }
  node.append(...children);
  return node;
}

function resolve(schema) {
  while (schema && schema.$ref) schema = doc.components.schemas[schema.$ref.split("/").pop()];
  return schema || {};
}

function headers(type) {
  const found = type ? { "Content-Type": type } : {};
  if (key.value) found.Authorization = "Bearer " + key.value;
  return found;
}

// One line about a schema: its type, its limits, what it may be.
function phrase(schema) {
  schema = resolve(schema);
  if (schema.const !== undefined) return JSON.stringify(schema.const);
  if (schema.enum) return schema.enum.map((value) => JSON.stringify(value)).join(" | ");
  if (schema.anyOf && !schema.type) return schema.anyOf.map(phrase).filter(Boolean).join(" or ");
  if (schema.type === "array") return "list of " + (phrase(schema.items) || "anything");
  let text = Array.isArray(schema.type) ? schema.type.join(" or ") : schema.type || "anything";
  const limits = [];
  for (const [name, sign] of [["minimum", "≥ "], ["exclusiveMinimum", "> "], ["maximum", "≤ "], ["minLength", "length ≥ "], ["maxLength", "length ≤ "], ["pattern", "matches "]]) {
    if (schema[name] !== undefined) limits.push(sign + schema[name]);
  }
  return limits.length ? text + " (" + limits.join(", ") + ")" : text;
}

// The objects below a schema, through lists and alternatives, so that their members can be shown too.
function below(schema, seen) {
  schema = resolve(schema);
  if (schema.properties) return seen.has(schema) ? null : schema;
  for (const part of [schema.items, ...(schema.anyOf || [])]) {
    const found = part && below(part, seen);
    if (found) return found;
  }
  return null;
}

function members(schema, seen = new Set()) {
  const whole = below(schema, seen);
  if (!whole) return document.createTextNode(phrase(schema));
  const inner = new Set(seen).add(whole);
  const table = make("table");
  const unused = [];
  for (const [name, property] of Object.entries(whole.properties)) {
    const about = property.description || resolve(property).description || "";
    if (about.startsWith("not served") || about.startsWith("accepted, changes")) { unused.push(name); continue; }
    const needed = (whole.required || []).includes(name);
    const told = make("td", {}, phrase(property), about ? make("div", {}, about) : "");
    if (below(property, inner)) told.append(members(property, inner));
    table.append(make("tr", {}, make("td", {}, make("code", {}, name), needed ? " *" : ""), told));
  }
  const box = make("div", {}, table);
  if (unused.length) box.append(make("p", {}, "Taken where they mean nothing: " + unused.join(", ")));
  return box;
}

function example(schema, seen = 0) {
  schema = resolve(schema);
  if (schema.default !== undefined && schema.default !== null) return schema.default;
  if (schema.const !== undefined) return schema.const;
  if (schema.enum) return schema.enum[0];
  if (schema.anyOf && !schema.type) return example(schema.anyOf[0], seen);
  if (schema.type === "array") return [example(schema.contains || schema.items, seen + 1)];
  if (schema.type === "object" && schema.properties && seen < 6) {
    const made = {};
    for (const name of schema.required || []) made[name] = example(schema.properties[name], seen + 1);
    return made;
  }
  return { string: "text", integer: 1, number: 1, boolean: false, object: {} }[schema.type] ?? null;
}

function start(path, body) {
  const text = example(body);
  if (path === "/v1/chat/completions") text.messages = [{ role: "user", content: "What is the official gene symbol of LMP10?" }];
  if (path === "/v1/search") text.query = "asthma";
  if (text.documents && text.documents[0].id) text.documents[0].text = "PSMB10 is a gene.";
  if (path === "/v1/responses") text.input = "What is the official gene symbol of LMP10?";
  if (path === "/tokenize") text.prompt = "PSMB10";
  if (/completions$|responses$|messages/.test(path) && doc.first) text.model = doc.first;
  return JSON.stringify(text, null, 2);
}

async function send(verb, path, fields, body, type, out) {
  let url = path;
  const query = new URLSearchParams();
  const told = headers(body === null ? null : type);
  for (const field of fields) {
    if (field.dataset.where === "header") { if (field.value) told[field.name] = field.value; }
    else if (field.dataset.where === "path") url = url.replace("{" + field.name + "}", encodeURIComponent(field.value));
    else if (field.value) query.set(field.name, field.value);
  }
  if ([...query].length) url += "?" + query;
  out.textContent = "…";
  try {
    const reply = await fetch(url, { method: verb.toUpperCase(), headers: told, body });
    out.textContent = reply.status + " " + (reply.headers.get("x-request-id") || "") + "\n";
    const json = (reply.headers.get("content-type") || "").includes("json");
    if (json) { out.textContent += JSON.stringify(await reply.json(), null, 2); return; }
    const reader = reply.body.pipeThrough(new TextDecoderStream()).getReader();
    for (let part = await reader.read(); !part.done; part = await reader.read()) out.textContent += part.value;
  } catch (error) {
    out.textContent = String(error);
  }
}

function trial(verb, path, operation) {
  const fields = (operation.parameters || []).map((one) => {
    const input = make("input", { name: one.name, placeholder: phrase(one.schema) });
    input.dataset.where = one.in;
    return input;
  });
  const content = operation.requestBody && operation.requestBody.content;
  const type = content && Object.keys(content)[0];
  const json = type === "application/json";
  const box = !content ? null : json ? make("textarea", { spellcheck: false }) : make("input", { type: "file" });
  const out = make("pre", { hidden: true });
  const button = make("button", { type: "button" }, "Send");
  button.addEventListener("click", () => {
    out.hidden = false;
    const body = !box ? null : json ? box.value : box.files[0] || "";
    send(verb, path, fields, body, type, out);
  });
  const form = make("div", {}, ...fields.map((one) => make("label", { class: "place" }, one.name + " ", one)));
  if (box) form.append(box);
  if (json) box.value = start(path, content[type].schema);
  form.append(make("p", {}, button), out);
  return form;
}

function shown(verb, path, operation) {
  const entry = make("details", {}, make("summary", {},
    make("span", { class: "verb " + verb }, verb.toUpperCase()), make("code", {}, path), " " + operation.summary));
  entry.addEventListener("toggle", () => {
    if (!entry.open || entry.dataset.full) return;
    entry.dataset.full = "1";
    const content = operation.requestBody && operation.requestBody.content;
    if (content) for (const [type, body] of Object.entries(content)) {
      entry.append(make("h4", {}, "Body, " + type), members(body.schema));
    }
    const replies = make("table");
    for (const [status, reply] of Object.entries(operation.responses)) {
      const told = make("td", {}, reply.description);
      for (const [type, body] of Object.entries(reply.content || {})) {
        if (status[0] === "2") told.append(make("div", {}, make("code", {}, type)), members(body.schema));
      }
      replies.append(make("tr", {}, make("td", {}, status), told));
    }
    entry.append(make("h4", {}, "Replies"), replies, make("h4", {}, "Try it"), trial(verb, path, operation));
  });
  return entry;
}

async function load() {
  state.textContent = "…";
  const reply = await fetch("/openapi.json", { headers: headers() });
  if (!reply.ok) { state.textContent = reply.status === 401 ? "This server needs a key." : "Error " + reply.status; return; }
  doc = await reply.json();
  const models = await fetch("/v1/models", { headers: headers() });
  const ids = models.ok ? (await models.json()).data.map((one) => one.id) : [];
  doc.first = ids.find((id) => id.endsWith(":genegpt")) || ids[0];
  state.textContent = "";
  document.getElementById("version").textContent = doc.info.version;
  document.getElementById("about").textContent = doc.info.description;
  const main = document.getElementById("operations");
  main.replaceChildren();
  for (const tag of doc.tags) {
    main.append(make("h2", {}, tag.name));
    for (const [path, verbs] of Object.entries(doc.paths)) {
      for (const [verb, operation] of Object.entries(verbs)) {
        if (operation.tags[0] === tag.name) main.append(shown(verb, path, operation));
      }
    }
  }
}

document.getElementById("load").addEventListener("click", load);
key.addEventListener("keydown", (event) => { if (event.key === "Enter") load(); });
load();
