// Speaks to /v1: the key, errors with their remedy, streams.

import { t } from "./texts.js";

const SLOT = "arrowhead-key";
let key = sessionStorage.getItem(SLOT) || "";
const whenRefused = new Set();

/** An error of the server, or of the way to it; `code` is the server's, "offline" or "stopped". */
export class ApiError extends Error {
  constructor(message, { code = "", status = 0, retryAfter = 0, param = null } = {}) {
    super(message);
    Object.assign(this, { code, status, retryAfter, param });
  }
}

/** Holds a key in memory, and in this tab's session storage where `stays`. */
export function setKey(value, stays) {
  key = value;
  sessionStorage.removeItem(SLOT);
  if (stays && value) sessionStorage.setItem(SLOT, value);
}

/** Returns whether the key stays in this tab's session storage. */
export function keyStays() {
  return sessionStorage.getItem(SLOT) !== null;
}

export function hasKey() {
  return key !== "";
}

export function onRefused(listener) {
  whenRefused.add(listener);
}

/** Sends a request and returns the reply; raises ApiError for every status but those of success. */
export async function send(path, { method = "GET", body, headers = {}, signal, raw, keepalive = false } = {}) {
  const sent = { ...headers };
  if (/[^\x21-\x7e]/.test(key)) throw new ApiError(t("error.key_form"), { code: "invalid_api_key", status: 401 });
  if (key) sent.Authorization = `Bearer ${key}`;
  if (body !== undefined) sent["Content-Type"] = "application/json";
  let reply;
  try {
    reply = await fetch(path, { method, headers: sent, body: raw ?? (body === undefined ? undefined : JSON.stringify(body)), signal, keepalive, cache: "no-store" });
  } catch (error) {
    throw failed(error);
  }
  // The bell follows every job that this page begins.
  if (reply.ok && method !== "GET" && reply.headers.get("location")?.startsWith("/v1/jobs/")) window.dispatchEvent(new Event("work"));
  if (reply.ok) return reply;
  throw await refused(reply);
}

function failed(error) {
  if (error.name === "AbortError") return new ApiError(t("error.stopped"), { code: "stopped" });
  return new ApiError(t("error.offline"), { code: "offline" });
}

async function refused(reply) {
  let told = {};
  try {
    told = (await reply.json()).error || {};
  } catch {
    // a proxy's page, or nothing
  }
  const error = new ApiError(told.message || `${reply.status} ${reply.statusText}`, {
    code: told.code || "",
    status: reply.status,
    param: told.param,
    retryAfter: Number(reply.headers.get("retry-after")) || 0,
  });
  if (reply.status === 401) whenRefused.forEach((listener) => listener());
  return error;
}

export async function get(path, options) {
  return (await send(path, options)).json();
}

export async function post(path, body, options = {}) {
  return (await send(path, { method: "POST", body, ...options })).json();
}

/** Asks for the stream of a chat; with `kept`, a random id, the answer goes on when the page goes away. */
export function ask(body, signal, kept) {
  const headers = kept ? { "X-Keep-Answer": kept } : {};
  return send("/v1/chat/completions", { method: "POST", body: { ...body, stream: true }, headers, signal });
}

/** Asks for the stream of a kept answer again, from its beginning; null where it is not kept. */
export async function askAgain(kept, signal) {
  try {
    return await send(`/v1/answers/${kept}`, { signal });
  } catch (error) {
    if (error.status === 404) return null;
    throw error;
  }
}

/** Stops a kept answer, where it still runs; the page may be going away. */
export function stopKept(kept) {
  send(`/v1/answers/${kept}`, { method: "DELETE", keepalive: true }).catch(() => {});
}

/** Yields the objects of a chat's stream; raises ApiError where it breaks off or tells an error. */
export async function* chunksOf(reply) {
  const reader = reply.body.pipeThrough(new TextDecoderStream()).getReader();
  let rest = "";
  for (;;) {
    let piece;
    try {
      piece = await reader.read();
    } catch (error) {
      throw error.name === "AbortError" ? failed(error) : new ApiError(t("error.broke_off"), { code: "offline" });
    }
    if (piece.done) throw new ApiError(t("error.broke_off"), { code: "offline" });
    const lines = (rest + piece.value).split("\n");
    rest = lines.pop();
    for (const line of lines) {
      if (!line.startsWith("data: ")) continue;
      if (line === "data: [DONE]") return;
      const chunk = JSON.parse(line.slice(6));
      if (chunk.error) throw new ApiError(chunk.error.message, { code: chunk.error.code || "" });
      yield chunk;
    }
  }
}

/** Uploads a file; `progress` is told the share that is sent. Returns the job. */
export function upload(path, file, progress, signal) {
  return new Promise((resolve, reject) => {
    const request = new XMLHttpRequest();
    request.open("PUT", path);
    if (key) request.setRequestHeader("Authorization", `Bearer ${key}`);
    request.setRequestHeader("Content-Type", "application/octet-stream");
    request.upload.addEventListener("progress", (event) => event.lengthComputable && progress(event.loaded / event.total));
    request.addEventListener("load", () => {
      let told = {};
      try {
        told = JSON.parse(request.responseText);
      } catch {
        // told below by its status
      }
      if (request.status < 300) {
        window.dispatchEvent(new Event("work"));
        resolve(told);
      }
      else reject(new ApiError(told.error?.message || `${request.status} ${request.statusText}`, { code: told.error?.code || "", status: request.status }));
    });
    request.addEventListener("error", () => reject(new ApiError(t("error.offline"), { code: "offline" })));
    request.addEventListener("abort", () => reject(new ApiError(t("error.stopped"), { code: "stopped" })));
    signal?.addEventListener("abort", () => request.abort());
    request.send(file);
  });
}

// Rendering: texts asked for in the same moment go in one request; each within the server's bounds.

const MOST_TEXTS = 32;
const MOST_CHARACTERS = 60_000;
let waiting = [];

/** Returns the safe HTML of a Markdown text; raises ApiError. */
export function render(text) {
  return new Promise((resolve, reject) => {
    if (!waiting.length) setTimeout(flush, 0);
    waiting.push({ text, resolve, reject });
  });
}

async function flush() {
  const all = waiting;
  waiting = [];
  while (all.length) {
    const batch = [];
    let size = 0;
    while (all.length && batch.length < MOST_TEXTS && (!batch.length || size + all[0].text.length <= MOST_CHARACTERS)) {
      size += all[0].text.length;
      batch.push(all.shift());
    }
    try {
      const { data } = await post("/v1/render", { texts: batch.map((one) => one.text) });
      batch.forEach((one, place) => one.resolve(data[place].html));
    } catch (error) {
      batch.forEach((one) => one.reject(error));
    }
  }
}

/** Resolves with true when the server answers again, at `/ready` when its model is loaded; false when `signal` aborts. */
export async function reachable(signal, path = "/health") {
  while (!signal.aborted) {
    await new Promise((resolve) => setTimeout(resolve, 1500));
    try {
      await send(path, { signal });
      return true;
    } catch (error) {
      // A proxy says 502 to 504 while it is away, and the server 503 while its model loads.
      if (error.status < 500) return true;
    }
  }
  return false;
}
