// Files on their way to the server, two at a time. They go on while other screens are shown, each of which may follow
// what becomes of them.

import { upload } from "./api.js";
import { bytes } from "./dom.js";
import { t } from "./texts.js";
import { leftOf } from "./work.js";

const AT_ONCE = 2;
const waiting = [];
const sending = new Set();

/** Returns how many files the server does not have yet. */
export function unsent() {
  return waiting.length + sending.size;
}

/** Sends a file to an address when its turn comes; `follow` gets the job and the item that shows it. */
export function sendLater(entry) {
  waiting.push(Object.assign(entry, { controller: new AbortController() }));
  entry.item.cancellable(async () => giveUp(entry));
  next();
}

function giveUp(entry) {
  entry.controller.abort();
  const place = waiting.indexOf(entry);
  if (place < 0) return;
  waiting.splice(place, 1);
  entry.item.fail(t("error.stopped"));
}

/** Returns the items of a namespace's files that the server does not have yet; from now on, `follow` gets their jobs. */
export function takeOver(namespace, follow) {
  const mine = [...sending, ...waiting].filter((entry) => entry.namespace === namespace);
  mine.forEach((entry) => Object.assign(entry, { follow }));
  return mine.map((entry) => entry.item);
}

/** Gives all files up that the server does not have yet. */
export function stopSending() {
  [...waiting, ...sending].forEach(giveUp);
}

function next() {
  while (sending.size < AT_ONCE && waiting.length) {
    const entry = waiting.shift();
    sending.add(entry);
    send(entry).finally(next);
  }
}

async function send(entry) {
  const { path, file, item, controller } = entry;
  const began = performance.now();
  try {
    const job = await upload(path, file, (share) => item.progress(share, sent(share, file.size, (performance.now() - began) / 1000)), controller.signal);
    sending.delete(entry);
    await entry.follow(job, item);
  } catch (error) {
    item.fail(error.message);
  } finally {
    sending.delete(entry);
  }
}

/** Returns how much of a file is sent, how fast, and the time left. */
function sent(share, size, seconds) {
  const words = t("add.sending", { n: Math.round(share * 100) });
  if (!share || seconds < 1) return words;
  return [words, t("add.speed", { n: bytes((share * size) / seconds) }), share < 1 ? leftOf((seconds * (1 - share)) / share) : ""].filter(Boolean).join(" · ");
}
