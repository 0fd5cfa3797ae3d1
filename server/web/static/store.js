// Chats are kept in this browser alone, in IndexedDB; in memory where the browser refuses it.

let opened = null;
const memory = { chats: new Map(), turns: new Map() };

function database() {
  opened ??= new Promise((resolve) => {
    let request;
    try {
      request = indexedDB.open("arrowhead", 1);
    } catch {
      resolve(null);
      return;
    }
    request.onupgradeneeded = () => {
      request.result.createObjectStore("chats", { keyPath: "id" }).createIndex("updated", "updated");
      request.result.createObjectStore("turns", { keyPath: ["chat", "place"] });
    };
    request.onsuccess = () => resolve(request.result);
    request.onerror = () => resolve(null);
  });
  return opened;
}

function done(request) {
  return new Promise((resolve, reject) => {
    request.onsuccess = () => resolve(request.result);
    request.onerror = () => reject(request.error);
  });
}

const all = (chat) => IDBKeyRange.bound([chat, 0], [chat, Infinity]);

/** Returns chats, newest first, at most `most`. */
export async function listChats(most = 200) {
  const db = await database();
  if (!db) return [...memory.chats.values()].sort((a, b) => b.updated - a.updated).slice(0, most);
  const found = [];
  return new Promise((resolve, reject) => {
    const request = db.transaction("chats").objectStore("chats").index("updated").openCursor(null, "prev");
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

export async function getChat(id) {
  const db = await database();
  if (!db) return memory.chats.get(id);
  return done(db.transaction("chats").objectStore("chats").get(id));
}

/** Returns the number of turns of a chat. */
export async function countTurns(id) {
  const db = await database();
  if (!db) return (memory.turns.get(id) || []).length;
  return done(db.transaction("turns").objectStore("turns").count(all(id)));
}

/** Returns the turns of a chat from place `from` up to `to`, without it. */
export async function getTurns(id, from = 0, to = Infinity) {
  const db = await database();
  if (!db) return (memory.turns.get(id) || []).slice(from, to);
  return done(db.transaction("turns").objectStore("turns").getAll(IDBKeyRange.bound([id, from], [id, to], false, true)));
}

export async function putChat(chat) {
  const db = await database();
  if (!db) memory.chats.set(chat.id, chat);
  else await done(db.transaction("chats", "readwrite").objectStore("chats").put(chat));
}

export async function putTurn(turn) {
  const db = await database();
  if (!db) {
    const turns = memory.turns.get(turn.chat) || [];
    turns[turn.place] = turn;
    memory.turns.set(turn.chat, turns);
  } else await done(db.transaction("turns", "readwrite").objectStore("turns").put(turn));
}

/** Removes the turns of a chat from place `from` on. */
export async function cutTurns(id, from) {
  const db = await database();
  if (!db) memory.turns.set(id, (memory.turns.get(id) || []).slice(0, from));
  else await done(db.transaction("turns", "readwrite").objectStore("turns").delete(IDBKeyRange.bound([id, from], [id, Infinity])));
}

export async function forgetChat(id) {
  const db = await database();
  memory.chats.delete(id);
  memory.turns.delete(id);
  if (!db) return;
  await done(db.transaction("turns", "readwrite").objectStore("turns").delete(all(id)));
  await done(db.transaction("chats", "readwrite").objectStore("chats").delete(id));
}

/** Removes all that this page keeps in the browser. */
export async function forgetAll() {
  const db = await database();
  memory.chats.clear();
  memory.turns.clear();
  localStorage.clear();
  if (!db) return;
  const transaction = db.transaction(["chats", "turns"], "readwrite");
  await done(transaction.objectStore("turns").clear());
  await done(transaction.objectStore("chats").clear());
}
