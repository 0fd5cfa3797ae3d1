"use strict";
// Shows /openapi.json and sends requests to this server. Text is only ever set as text, never as markup.

let doc = null;
const [key, state, main] = ["key", "state", "operations"].map((id) => document.getElementById(id));
const LIMITS = {
  minimum: "≥ ", exclusiveMinimum: "> ", maximum: "≤ ", minLength: "length ≥ ", maxLength: "length ≤ ",
  minItems: "items ≥ ", maxItems: "items ≤ ", pattern: "matches ",
};

function make(tag, attributes = {}, ...children) {
  const node = document.createElement(tag);
  for (const [name, value] of Object.entries(attributes)) {
    if (name in node) node[name] = value;
    else node.setAttribute(name, value);
  }
  node.append(...children);
  return node;
}

// What stands between backticks is code.
function prose(text) {
  return text.split(/`+([^`]+)`+/).map((part, place) => (place % 2 ? make("code", {}, part) : part));
}

// Requests

function headers(type) {
  const found = type ? { "Content-Type": type } : {};
  const given = key.value.trim();
  if (/[^\x21-\xff]/.test(given)) throw new Error("No key has such characters.");
  if (given) found.Authorization = "Bearer " + given;
  return found;
}

// fetch, with an error that says what is the matter.
async function reach(url, options) {
  try {
    return await fetch(url, options);
  } catch (error) {
    throw error.name === "AbortError" ? error : new Error("The server cannot be reached.");
  }
}

// Numbers as the server wrote them, where the browser can: large ones would be rounded, 1.0 would become 1.
function exact(name, value, { source } = {}) {
  return String(value) === source || typeof value !== "number" || !JSON.rawJSON ? value : JSON.rawJSON(source);
}

async function receive(reply, out) {
  const text = document.createTextNode("");
  out.replaceChildren(text);
  out.hidden = false;
  const reader = reply.body.pipeThrough(new TextDecoderStream()).getReader();
  for (let part = await reader.read(); !part.done; part = await reader.read()) {
    const follows = out.scrollHeight - out.scrollTop - out.clientHeight < 8;
    text.appendData(part.value);
    if (follows) out.scrollTop = out.scrollHeight;
  }
  if (!(reply.headers.get("content-type") || "").includes("json")) return;
  text.data = JSON.stringify(JSON.parse(text.data, exact), null, 2);
  out.scrollTop = 0;
}

async function send(url, options, said, out) {
  const began = performance.now();
  out.hidden = true;
  said.textContent = "Waiting…";
  let head = "";
  try {
    const reply = await reach(url, options);
    const shown = ["x-request-id", "retry-after"].filter((name) => reply.headers.has(name));
    const told = shown.map((name) => `${name} ${reply.headers.get(name)}`);
    head = [`${reply.status} ${reply.statusText}`, ...told].join(", ");
    said.textContent = head + ", receiving…";
    await receive(reply, out);
    said.textContent = `${head}, ${((performance.now() - began) / 1000).toFixed(2)} s`;
  } catch (error) {
    const why = error.name === "AbortError" ? "Stopped." : (head && "The reply broke off: ") + error.message;
    said.textContent = [head, why].filter(Boolean).join(", ");
  }
}

// Schemas

function resolve(schema) {
  while (schema && schema.$ref) schema = doc.components.schemas[schema.$ref.split("/").pop()];
  return schema || {};
}

// One line about a schema: its type, its limits, what it may be.
function phrase(schema) {
  schema = resolve(schema);
  if (schema.const !== undefined) return JSON.stringify(schema.const);
  if (schema.enum) return schema.enum.map((value) => JSON.stringify(value)).join(" | ");
  if (schema.anyOf && !schema.type) return [...new Set(schema.anyOf.map(phrase))].join(" or ");
  const given = Object.keys(LIMITS).filter((name) => schema[name] !== undefined);
  const limits = given.map((name) => LIMITS[name] + (schema[name].rawJSON ?? schema[name]));
  const types = [schema.type || "anything"].flat();
  const type = schema.type === "array" ? "list of " + phrase(schema.items) : types.join(" or ");
  return limits.length ? `${type} (${limits.join(", ")})` : type;
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
  if (!whole) return make("p", {}, ...prose(resolve(schema).description || phrase(schema)));
  const inner = new Set(seen).add(whole);
  const list = make("ul");
  const unused = { "not served": [], "accepted, changes nothing": [] };
  for (const [name, property] of Object.entries(whole.properties)) {
    const about = property.description || "";
    const kind = Object.keys(unused).find((start) => about.startsWith(start));
    if (kind) unused[kind].push(name);
    else list.append(member(name, property, (whole.required || []).includes(name), inner));
  }
  const box = make("div", {}, make("p", {}, ...prose(whole.description || "")), list);
  for (const [kind, names] of Object.entries(unused)) {
    const told = kind === "not served" ? "Not served, accepted only as unused: " : "Accepted without effect: ";
    if (names.length) box.append(make("p", {}, make("small", {}, told + names.join(", "))));
  }
  return box;
}

function member(name, property, needed, seen) {
  const usual = property.default == null ? "" : "default " + JSON.stringify(property.default);
  const told = [phrase(property), needed ? "required" : "", usual];
  const item = make("li", {}, make("code", {}, name), " ", make("small", {}, told.filter(Boolean).join(", ")));
  if (property.description) item.append(make("p", {}, ...prose(property.description)));
  if (below(property, seen)) item.append(members(property, seen));
  return item;
}

// The document's example; of the served models the one that is best to begin with, where the body may name any.
function start(schema) {
  const wanted = [schema, ...(resolve(schema).anyOf || [])].map(resolve).find((one) => one.examples) || {};
  const text = { ...wanted.examples?.[0] };
  if (doc.models.includes(text.model) && !wanted.properties.model.const) text.model = doc.first;
  return JSON.stringify(text, null, 2);
}

// The page

function parameter(one) {
  const schema = resolve(one.schema);
  const attributes = { name: one.name, required: one.required };
  const number = schema.type === "number" ? { type: "number", step: "any" } : {};
  const input = schema.enum ? make("select", attributes, ...schema.enum.map((value) => make("option", {}, value)))
    : make("input", { ...attributes, ...number });
  input.dataset.where = one.in;
  if (one.name === "model") input.value = doc.first;
  const told = [schema.enum ? "" : phrase(schema), one.required ? "required" : "", schema.description].filter(Boolean);
  return [input, make("label", {}, one.name, " ", make("small", {}, told.join(", ")), make("br"), input)];
}

function address(path, inputs, told) {
  const query = new URLSearchParams();
  for (const { name, value, dataset } of inputs) {
    if (dataset.where === "path") path = path.replace(`{${name}}`, encodeURIComponent(value));
    else if (value && dataset.where === "header") told[name] = value;
    else if (value) query.set(name, value);
  }
  return path + ([...query].length ? "?" + query : "");
}

function bodyBox(type, schema, inputs) {
  if (type === "application/json") return make("textarea", { spellcheck: false, value: start(schema) });
  const box = make("input", { type: "file", required: true });
  const filename = inputs.find((input) => input.name === "filename");
  box.addEventListener("change", () => { if (filename && box.files[0]) filename.value = box.files[0].name; });
  return box;
}

function trial(verb, path, operation) {
  const parameters = (operation.parameters || []).map(parameter);
  const inputs = parameters.map(([input]) => input);
  const [type, body] = Object.entries(operation.requestBody?.content || {})[0] || [];
  const box = type && bodyBox(type, body.schema, inputs);
  const streams = "text/event-stream" in (operation.responses["200"]?.content || {});
  const stream = make("input", { type: "checkbox" });
  const button = make("button", {}, "Send");
  const said = make("span", { role: "status" });
  const out = make("pre", { hidden: true, tabIndex: 0, "aria-label": "Reply", role: "region" });
  const labels = [true, false].map((inPath) =>
    parameters.filter(([input]) => (input.dataset.where === "path") === inPath).map(([, label]) => label));
  if (box) labels.splice(1, 0, make("label", { class: "wide" }, "Body ", make("small", {}, type), make("br"), box));
  const form = make("form", {}, ...labels.flat());
  form.append(make("p", {}, button, " ", streams ? make("label", {}, stream, " as a stream") : "", said), out);
  const offer = (word) => Object.assign(button, { textContent: word, formNoValidate: word === "Stop" });
  let running = null;

  function options() {
    const text = stream.checked ? JSON.stringify({ ...JSON.parse(box.value), stream: true }) : box?.value;
    const content = !box ? undefined : type === "application/json" ? text : box.files[0];
    return { method: verb.toUpperCase(), headers: headers(type), body: content, signal: running.signal };
  }

  form.addEventListener("submit", async (event) => {
    event.preventDefault();
    if (running) { running.abort(); return; }
    running = new AbortController();
    offer("Stop");
    try {
      const wanted = options();
      await send(address(path, inputs, wanted.headers), wanted, said, out);
    } catch (error) {
      said.textContent = error.message;
    }
    running = null;
    offer("Send");
  });
  return form;
}

function details(verb, path, operation) {
  const box = make("div", {}, make("h4", {}, "Try it"), trial(verb, path, operation));
  for (const [type, body] of Object.entries(operation.requestBody?.content || {})) {
    box.append(make("h4", {}, "Body, " + type), members(body.schema));
  }
  const replies = make("ul");
  for (const [status, reply] of Object.entries(operation.responses)) {
    const item = make("li", {}, make("code", {}, status), " ", ...prose(reply.description));
    for (const [type, body] of Object.entries(status[0] === "2" ? reply.content : {})) {
      item.append(make("p", {}, make("small", {}, type)), members(body.schema));
    }
    replies.append(item);
  }
  box.append(make("h4", {}, "Replies"), replies);
  if (operation.description) box.prepend(make("p", {}, ...prose(operation.description)));
  return box;
}

function entry(verb, path, operation) {
  const name = make("span", { class: "verb " + verb }, verb.toUpperCase());
  const title = make("h3", {}, name, " ", make("code", {}, path));
  const node = make("details", {}, make("summary", {}, title, " ", make("small", {}, operation.summary)));
  node.addEventListener("toggle", () => {
    if (node.children.length === 1) node.append(details(verb, path, operation));
  });
  return node;
}

function show(found, models) {
  doc = found;
  doc.models = models;
  const example = doc.components.schemas.ChatRequest?.examples?.[0]?.model;
  doc.first = models.find((id) => id === example) || models[0] || "";
  document.getElementById("version").textContent = doc.info.version;
  document.getElementById("about").replaceChildren(...prose(doc.info.description));
  const operations = Object.entries(doc.paths).flatMap(([path, verbs]) =>
    Object.entries(verbs).map(([verb, operation]) => [verb, path, operation]));
  main.replaceChildren(...doc.tags.flatMap(({ name }) => [
    make("h2", {}, name),
    ...operations.filter(([, , operation]) => operation.tags[0] === name).map((one) => entry(...one)),
  ]));
}

async function load() {
  state.textContent = "Loading…";
  try {
    const reply = await reach("/openapi.json", { headers: headers() });
    if (reply.status === 401) {
      state.textContent = key.value ? "The server does not take this key." : "This server needs a key.";
      key.focus();
      key.select();
      return;
    }
    const found = JSON.parse(await reply.text(), exact);
    if (!reply.ok) throw new Error(`${reply.status}: ${found.error.message}`);
    const models = await reach("/v1/models", { headers: headers() });
    show(found, models.ok ? (await models.json()).data.map((one) => one.id) : []);
    state.textContent = found.security.some((one) => one.bearer) ? "Loaded." : "This server needs no key.";
  } catch (error) {
    state.textContent = error.message;
  }
}

document.getElementById("door").addEventListener("submit", (event) => { event.preventDefault(); load(); });
load();
