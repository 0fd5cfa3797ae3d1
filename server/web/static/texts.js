// All words of the page come from one catalogue, which the server chooses by the browser's language; another language is
// one more file beside en.json.

let catalogue = {};

/** Loads the catalogue; called once, before anything is shown. */
export async function loadTexts() {
  const reply = await fetch("/web/texts.json");
  catalogue = await reply.json();
}

/** Returns the words of a key, with what stands in braces replaced. */
export function t(key, values = {}) {
  const text = catalogue[key];
  if (text === undefined) return key;
  return text.replace(/\{(\w+)\}/g, (whole, name) => values[name] ?? whole);
}

/** Returns the words of a number: the keys are `key.one` and `key.many`. */
export function tn(key, number, values = {}) {
  return t(`${key}.${number === 1 ? "one" : "many"}`, { n: new Intl.NumberFormat(document.documentElement.lang).format(number), ...values });
}

/** Returns whether the catalogue has words for a key. */
export function has(key) {
  return key in catalogue;
}
