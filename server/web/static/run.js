// Runs one question: the request, its stream, and the record of the answer.

import { get, reachable, stream } from "./api.js";
import { announce, toast } from "./dom.js";
import { t, tn } from "./texts.js";

/** Returns a turn that was not asked yet. */
export function newTurn(chat, place, question, model, options) {
  return {
    chat,
    place,
    question,
    model: model.id,
    method: model.method,
    options: { ...options },
    created: Date.now(),
    state: "running",
    content: "",
    thinking: "",
    steps: [],
    references: [],
    told: null,
    trace: null,
    error: null,
    seconds: 0,
  };
}

/** Asks, and takes the stream into the turn; `view` is told what changes: tick(), update(). Raises nothing. */
export async function runTurn(turn, messages, signal, view) {
  const began = performance.now();
  const clock = setInterval(() => {
    turn.seconds = (performance.now() - began) / 1000;
    view.tick();
  }, 100);
  try {
    for await (const chunk of stream(bodyOf(turn, messages), signal)) {
      take(turn, chunk);
      view.update();
    }
    await readTrace(turn);
    turn.state = "done";
  } catch (error) {
    turn.state = error.code === "stopped" ? "stopped" : "failed";
    turn.error = { message: error.message, code: error.code || "", retryAfter: error.retryAfter || 0 };
    if (!error.code && !error.status) console.error(error);
  } finally {
    clearInterval(clock);
    turn.seconds = (performance.now() - began) / 1000;
  }
}

/** Tells screen readers how it ended, and everybody when a server that went away is back. */
export async function tell(turn) {
  announce(turn.state === "done" ? tn("live.ready", turn.references.length) : t(`live.${turn.state}`));
  if (turn.error?.code !== "offline") return;
  if (await reachable(AbortSignal.timeout(600_000)).catch(() => false)) toast(t("away.back"), "good");
}

function bodyOf(turn, messages) {
  const body = { model: turn.model, messages };
  if (turn.method !== "direct") body.arrowhead = { events: true, ...turn.options };
  return body;
}

const CALL_LINE = /^\[(https?:\/\/[^\]\s]+)\]-> ?(.*)$/;

/** Takes one chunk of the stream into the turn. */
function take(turn, chunk) {
  const delta = chunk.choices?.[0]?.delta || {};
  turn.id = chunk.id;
  if (delta.content) turn.content += delta.content;
  if (delta.arrowhead) turn.told = delta.arrowhead;
  if (chunk.event?.type === "status") takeStatus(turn, chunk.event.data);
  if (chunk.event?.type === "source") takeSource(turn, chunk.event.data);
  if (delta.reasoning) takeReasoning(turn, delta.reasoning);
}

function takeStatus(turn, { description, done }) {
  if (done) return;
  const last = turn.steps.at(-1);
  const [asked, reply] = description.split(" → ");
  if (reply !== undefined && last?.text === asked && last.reply === null) last.reply = reply;
  else turn.steps.push({ text: asked, reply: reply ?? null, url: "" });
}

function takeReasoning(turn, text) {
  const line = text.replace(/\n$/, "");
  const call = CALL_LINE.exec(line);
  const last = turn.steps.at(-1);
  if (call && last) last.url = call[1];
  else if (!turn.steps.some((step) => step.text === line)) turn.thinking += text;
}

function takeSource(turn, { source, document: texts }) {
  turn.references.push({ number: turn.references.length + 1, title: source.name, url: source.url || "", text: texts?.[0] || "" });
}

/** Reads the record of the answer: calls with addresses and times, references with numbers, the transcript. */
async function readTrace(turn) {
  try {
    const trace = await get(`/v1/traces/${encodeURIComponent(turn.told?.trace_id || turn.id)}`);
    turn.trace = trace.choices[0];
    if (turn.trace.references.length) turn.references = turn.trace.references;
  } catch {
    // The server keeps no records, or the plain model answered: the stream's own words stay.
  }
}
