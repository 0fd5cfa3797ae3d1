// All words of the page come from one catalogue. The server chooses it by the language that was chosen here, else by the
// browser's; another language is one more file beside en.json.

let catalogue = {};
const CHOICE_S = 400 * 24 * 3600;

/** Loads the catalogue; before anything is shown, and when another language was chosen. */
export async function loadTexts() {
  const reply = await fetch("/web/texts.json");
  catalogue = await reply.json();
  const { documentElement: root } = document;
  root.lang = t("language");
  root.dir = t("language.direction");
  window.closeWord = t("close");
}

/** Returns the words of a key, with what stands in braces replaced. */
export function t(key, values = {}) {
  const text = catalogue[key];
  if (text === undefined) return key;
  return text.replace(/\{(\w+)\}/g, (whole, name) => values[name] ?? whole);
}

/** Returns the words of a number: the keys are `key.one` and `key.many`. */
export function tn(key, number, values = {}) {
  const { lang } = document.documentElement;
  const form = new Intl.PluralRules(lang).select(number) === "one" ? "one" : "many";
  return t(`${key}.${form}`, { n: new Intl.NumberFormat(lang).format(number), ...values });
}

/** Returns what left, in words. */
export function whatLeft(told) {
  return told === "no data left this machine" ? t("left.nothing") : told || "–";
}

/** Returns how people call a collection. */
export function titleOf({ name, title, sample }) {
  return sample ? t("library.sample") : title || name;
}

/** Returns whether the catalogue has words for a key. */
export function has(key) {
  return key in catalogue;
}

/** Returns the languages that the page has, each by its own name: [{code, name}]. */
export function languages() {
  return document.documentElement.dataset.languages.split(" ").map((code) => ({ code, name: nameOf(code) }));
}

function nameOf(code) {
  const name = new Intl.DisplayNames(code, { type: "language" }).of(code);
  return name[0].toLocaleUpperCase(code) + name.slice(1);
}

/** Chooses a language for this browser; the page is told by the event `language`. */
export async function chooseLanguage(code) {
  // The server reads it, so that the first words of the page are in this language too.
  document.cookie = `arrowhead_language=${code}; path=/; max-age=${CHOICE_S}; samesite=strict`;
  await loadTexts();
  window.dispatchEvent(new Event("language"));
}
