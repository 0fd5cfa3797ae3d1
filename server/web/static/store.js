// Where chats are kept: each person's apart, under the id of the key. "browser" is IndexedDB, "tab" the tab's session
// storage, "memory" the page itself; a browser that refuses IndexedDB gets memory.

// Of a server without keys; before chats stood under keys, of all servers.
const SHARED = "arrowhead";
const KEEP = "keep:";
const CHOICES = ["method", "theme"];

/** Keeps chats and turns in memory, with a `slot` also in the tab's session storage. */
class MemoryStore {
  constructor(slot = "") {
    this.slot = slot;
    this.lasts = slot !== "";
    this.chats = new Map();
    this.turns = new Map();
    const kept = slot ? Object.keys(sessionStorage).filter((key) => key.startsWith(slot)) : [];
    for (const one of kept.map((key) => JSON.parse(sessionStorage.getItem(key)))) this.take(one);
  }

  take(one) {
    if (one.place === undefined) this.chats.set(one.id, one);
    else this.turns.set(one.chat, Object.assign(this.turns.get(one.chat) || [], { [one.place]: one }));
  }

  async list(most) {
    return [...this.chats.values()].sort((a, b) => b.updated - a.updated).slice(0, most);
  }

  async get(id) {
    return this.chats.get(id);
  }

  async count(id) {
    return (this.turns.get(id) || []).length;
  }

  async read(id, from, to) {
    return (this.turns.get(id) || []).slice(from, to);
  }

  async putChat(chat) {
    this.take(chat);
    this.mirror(chat.id, chat);
  }

  async putTurn(turn) {
    if (!this.chats.has(turn.chat)) return;
    this.take(turn);
    this.mirror(`${turn.chat}/${turn.place}`, turn);
  }

  mirror(key, one) {
    if (!this.slot) return;
    try {
      sessionStorage.setItem(this.slot + key, JSON.stringify(one));
    } catch {
      // It holds some 5 MB: the record of an answer goes before its text.
      sessionStorage.setItem(this.slot + key, JSON.stringify({ ...one, trace: null }));
    }
  }

  async cut(id, from) {
    const turns = this.turns.get(id) || [];
    turns.slice(from).forEach((turn) => sessionStorage.removeItem(`${this.slot}${id}/${turn.place}`));
    this.turns.set(id, turns.slice(0, from));
  }

  async forget(id) {
    await this.cut(id, 0);
    this.chats.delete(id);
    this.turns.delete(id);
    if (this.slot) sessionStorage.removeItem(this.slot + id);
  }

  async clear() {
    for (const id of [...this.chats.keys()]) await this.forget(id);
  }

  async close() {}
}

/** Keeps chats and turns in IndexedDB, and tells other tabs of the same person what changed. */
class BrowserStore {
  constructor(name, db) {
    this.lasts = true;
    this.db = db;
    this.channel = new BroadcastChannel(name);
    this.channel.onmessage = ({ data }) => listeners.forEach((listener) => listener(data));
  }

  static open(name) {
    return new Promise((resolve) => {
      let request;
      try {
        request = indexedDB.open(name, 1);
      } catch {
        resolve(new MemoryStore());
        return;
      }
      request.onupgradeneeded = () => {
        request.result.createObjectStore("chats", { keyPath: "id" }).createIndex("updated", "updated");
        request.result.createObjectStore("turns", { keyPath: ["chat", "place"] });
      };
      request.onsuccess = () => {
        // Another tab has signed out.
        request.result.onversionchange = () => request.result.close();
        resolve(new BrowserStore(name, request.result));
      };
      request.onerror = () => resolve(new MemoryStore());
    });
  }

  at(name, mode = "readonly") {
    return this.db.transaction(name, mode).objectStore(name);
  }

  list(most) {
    const found = [];
    return new Promise((resolve, reject) => {
      const request = this.at("chats").index("updated").openCursor(null, "prev");
      request.onerror = () => reject(request.error);
      request.onsuccess = () => {
        const cursor = request.result;
        if (!cursor || found.length >= most) {
          resolve(found);
          return;
        }
        found.push(cursor.value);
        cursor.continue();
      };
    });
  }

  get(id) {
    return done(this.at("chats").get(id));
  }

  count(id) {
    return done(this.at("turns").count(range(id)));
  }

  async read(id, from, to) {
    return from < to ? done(this.at("turns").getAll(range(id, from, to))) : [];
  }

  async putChat(chat) {
    await done(this.at("chats", "readwrite").put(chat));
    this.tell({ chat: chat.id });
  }

  async putTurn(turn) {
    const both = this.db.transaction(["chats", "turns"], "readwrite");
    if (!(await done(both.objectStore("chats").count(turn.chat)))) return;
    await done(both.objectStore("turns").put(turn));
    this.tell({ chat: turn.chat, place: turn.place });
  }

  async cut(id, from) {
    await done(this.at("turns", "readwrite").delete(range(id, from)));
    this.tell({ chat: id, cut: true });
  }

  async forget(id) {
    await done(this.at("chats", "readwrite").delete(id));
    await this.cut(id, 0);
  }

  async clear() {
    const both = this.db.transaction(["chats", "turns"], "readwrite");
    both.objectStore("chats").clear();
    await done(both.objectStore("turns").clear());
    this.tell({ cut: true });
  }

  tell(change) {
    this.channel.postMessage(change);
  }

  async close() {
    this.channel.close();
    this.db.close();
  }
}

function done(request) {
  return new Promise((resolve, reject) => {
    request.onsuccess = () => resolve(request.result);
    request.onerror = () => reject(request.error);
  });
}

const range = (chat, from = 0, to = Infinity) => IDBKeyRange.bound([chat, from], [chat, to], false, true);
const nameOf = (owner) => (owner ? `${SHARED}:${owner}` : SHARED);
const slotOf = (owner) => `${SHARED}:${owner}:`;
const listeners = new Set();
let store = new MemoryStore();
let opened = { owner: "", place: "memory" };

/** Opens the chats of a person; `owner` is the key's id, "" on a server without keys. */
export async function openStore(owner, place) {
  await store.close();
  opened = { owner, place };
  store = place === "browser" ? await BrowserStore.open(nameOf(owner)) : new MemoryStore(place === "tab" ? slotOf(owner) : "");
  if (owner) removeShared();
}

/** Removes chats that stand under no key, as a server with keys must not show them to whoever comes. */
export function removeShared() {
  try {
    indexedDB.deleteDatabase(SHARED);
  } catch {
    // a browser that refuses IndexedDB has none
  }
}

/** Returns whether a person has chosen that this browser keeps the chats. */
export function isKept(owner) {
  return localStorage.getItem(KEEP + owner) !== null;
}

export function keepChats(owner) {
  localStorage.setItem(KEEP + owner, "1");
}

/** Returns where chats are kept now, as a key of the texts. */
export function placeName() {
  return `${opened.place}${opened.owner && opened.place === "browser" ? "_key" : ""}`;
}

/** Returns whether chats outlast a reload of the page. */
export function lasts() {
  return store.lasts;
}

/** Forgets the person who is leaving: what this tab holds, and with `all` what this browser keeps. */
export async function leaveStore(all) {
  const { owner, place } = opened;
  const left = store;
  // Answers that end from now on are written into nothing.
  store = new MemoryStore();
  // A tab that signed out before may have closed it.
  if (all || place !== "browser") await left.clear().catch(console.error);
  left.tell?.({ left: all });
  await left.close();
  sessionStorage.clear();
  localStorage.removeItem("method");
  if (!all) return;
  localStorage.removeItem(KEEP + owner);
  if (place === "browser") indexedDB.deleteDatabase(nameOf(owner));
}

/** Calls a listener with what another tab has changed: {chat, place}, {chat, cut} or {left}; returns how to stop. */
export function onChange(listener) {
  listeners.add(listener);
  return () => listeners.delete(listener);
}

/** Returns an id that no other chat has; pages over plain HTTP have no `randomUUID`. */
export function newId() {
  return crypto.randomUUID?.() ?? Array.from(crypto.getRandomValues(new Uint8Array(16)), (byte) => byte.toString(16).padStart(2, "0")).join("");
}

/** Returns chats, newest first, at most `most`. */
export const listChats = (most = 200) => store.list(most);
export const getChat = (id) => store.get(id);
/** Returns the number of turns of a chat. */
export const countTurns = (id) => store.count(id);
/** Returns the turns of a chat from place `from` up to `to`, without it. */
export const getTurns = (id, from = 0, to = Infinity) => store.read(id, from, to);
export const putChat = (chat) => store.putChat(chat);
/** Keeps a turn, unless its chat was forgotten meanwhile. */
export const putTurn = (turn) => store.putTurn(turn);
/** Removes the turns of a chat from place `from` on. */
export const cutTurns = (id, from) => store.cut(id, from);
export const forgetChat = (id) => store.forget(id);

/** Removes all chats of this person, and the choices of method and theme. */
export async function forgetAll() {
  CHOICES.forEach((name) => localStorage.removeItem(name));
  await store.clear();
}
