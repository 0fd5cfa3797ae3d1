// Runs questions: the request, its stream, and the record of the answer.

import { ask, askAgain, chunksOf, get, reachable, stopKept } from "./api.js";
import { announce, toast } from "./dom.js";
import { getTurns, lasts, newId, putTurn } from "./store.js";
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
    // The server goes on with the answer under this id when a page goes away that finds its question again.
    kept: lasts() ? newId() : null,
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

/** An answer that this tab waits for; it goes on while other screens are shown, each of which may bring its own view. */
class Run {
  constructor(turn, view, controller = new AbortController()) {
    Object.assign(this, { turn, view, controller });
    controller.signal.addEventListener("abort", () => turn.kept && stopKept(turn.kept));
    this.ended = new Promise((resolve) => {
      this.end = resolve;
    });
    running.set(keyOf(turn), this);
  }

  ask(messages) {
    return ask(bodyOf(this.turn, messages), this.controller.signal, this.turn.kept);
  }

  async work(asked) {
    await this.read(asked);
    await keep(this.turn);
    running.delete(keyOf(this.turn));
    this.end();
    if (this.turn.state === "done") window.dispatchEvent(new CustomEvent("answered", { detail: this.turn }));
  }

  async read(asked) {
    const { turn } = this;
    const began = performance.now();
    const clock = setInterval(() => {
      turn.seconds = (performance.now() - began) / 1000;
      this.view.tick();
    }, 100);
    let written = 0;
    try {
      for await (const chunk of chunksOf(await asked)) {
        take(turn, chunk);
        this.view.update();
        if (Date.now() - written < WRITTEN_MS) continue;
        written = Date.now();
        keep(turn);
      }
      await readTrace(turn);
      turn.state = "done";
    } catch (error) {
      turn.state = error.code === "stopped" ? "stopped" : "failed";
      turn.error = { message: error.message, code: error.code || "", retryAfter: error.retryAfter || 0 };
      if (!error.code && !error.status) console.error(error);
      // The record of what was stopped says what had left; the server writes it when it has noticed.
      if (turn.id && error.code !== "offline") {
        await new Promise((resolve) => setTimeout(resolve, NOTICED_MS));
        await readTrace(turn);
      }
    } finally {
      clearInterval(clock);
      turn.seconds = (performance.now() - began) / 1000;
    }
  }
}

const running = new Map();
// An answer is written down so often while it comes; where there are no locks, one that is silent for longer has no tab.
const WRITTEN_MS = 2000;
const SILENT_MS = 5000;
const NOTICED_MS = 300;
// A question that takes its page down is not asked for ever.
const MOST_TAKEN = 3;
const keyOf = ({ chat, place }) => `arrowhead:${chat}/${place}`;

/** Writes a turn down; before it is shown, as a page that goes away in mid-answer must have its question. */
async function keep(turn) {
  turn.written = Date.now();
  try {
    await putTurn(turn);
  } catch {
    toast(t("history.full"), "bad");
  }
}

/**
 * Keeps a question, shows it by `show`, whose view is told what changes (tick(), update()), and asks it. All of it is
 * under the turn's lock: another tab that sees the turn does not take it for one whose page went away. Returns the run,
 * whose `ended` never fails.
 */
export function begin(turn, messages, show) {
  return new Promise((resolve) => {
    const work = async () => {
      await keep(turn);
      const run = new Run(turn, show(turn));
      resolve(run);
      await run.work(run.ask(await messages(turn)));
    };
    if (navigator.locks) navigator.locks.request(keyOf(turn), work);
    else work();
  });
}

/** Returns the run of a turn that this tab waits for, if there is one. */
export function runOf(turn) {
  return running.get(keyOf(turn));
}

export function isRunning() {
  return running.size > 0;
}

/** Stops the answers of a chat, of all where none is named. */
export function stopRuns(chat) {
  for (const run of running.values()) if (!chat || run.turn.chat === chat) run.controller.abort();
}

/**
 * Goes on with a turn whose page went away in mid-answer, once no other tab waits for it: the server's answer is read
 * from its beginning where it is kept, else its record if it has ended; else it is asked again. Returns the run, null
 * where there is nothing left to wait for.
 */
export function takeUp(turn, messages, view, signal) {
  return new Promise((resolve) => {
    alone(turn, signal, async () => {
      const [now] = await getTurns(turn.chat, turn.place, turn.place + 1);
      if (now) Object.assign(turn, now);
      const controller = new AbortController();
      const kept = turn.state === "running" && turn.kept ? await askAgain(turn.kept, controller.signal) : null;
      if (!kept && (turn.state !== "running" || (await isEnded(turn)))) {
        resolve(null);
        return;
      }
      if (kept) empty(turn, turn.kept);
      const run = new Run(turn, view, controller);
      resolve(run);
      await run.work(kept ?? run.ask(await messages(turn)));
    }).catch(() => resolve(null));
  });
}

async function alone(turn, signal, work) {
  if (navigator.locks) return navigator.locks.request(keyOf(turn), { signal }, work);
  // Pages over plain HTTP have no locks.
  for (let now = turn; now?.state === "running" && Date.now() - now.written < SILENT_MS; ) {
    await new Promise((resolve) => setTimeout(resolve, WRITTEN_MS));
    if (signal.aborted) return null;
    [now] = await getTurns(turn.chat, turn.place, turn.place + 1);
  }
  return work();
}

/** Takes the record of a turn that ended unseen; else empties the turn, to be asked again. */
async function isEnded(turn) {
  const { taken = 0 } = turn;
  const trace = turn.id && (await recordOf(turn));
  if (trace && trace.error === null && trace.finish_reason !== "abort") {
    Object.assign(turn, { state: "done", content: trace.content, trace, references: trace.references, told: { ...trace, trace_id: turn.id } });
  } else if (taken >= MOST_TAKEN) {
    Object.assign(turn, { state: "failed", error: { message: t("error.broke_off"), code: "", retryAfter: 0 } });
  } else {
    empty(turn);
    turn.taken = taken + 1;
  }
  await keep(turn);
  return turn.state !== "running";
}

/** Takes out of a turn what had come of its answer, which stays where it is kept or gets a new place. */
function empty(turn, kept) {
  const { chat, place, question, model, method, options, created } = turn;
  const made = newTurn(chat, place, question, { id: model, method }, options);
  Object.assign(turn, made, { created, kept: kept ?? made.kept, id: undefined });
}

/** Tells screen readers how it ended, and everybody when a server that went away is back. */
export async function tell(turn) {
  announce(turn.state === "done" ? tn("live.ready", turn.references.length) : t(`live.${turn.state}`));
  if (turn.error?.code !== "offline") return;
  if (await reachable(AbortSignal.timeout(600_000), "/ready")) toast(t("away.back"), "good", 60_000);
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
  turn.trace = await recordOf(turn);
  if (turn.trace?.references.length) turn.references = turn.trace.references;
}

/** Returns the server's record of a turn, null where it keeps none, or the plain model answered. */
async function recordOf(turn) {
  try {
    return (await get(`/v1/traces/${encodeURIComponent(turn.told?.trace_id || turn.id)}`)).choices[0];
  } catch {
    return null;
  }
}
