// Light, dark, or as the system has it, and the language; kept in this browser.

import { announce, button, h } from "./dom.js";
import { chooseLanguage, languages, t } from "./texts.js";

const ORDER = ["", "light", "dark"];

/** Returns the button that goes through the themes. */
export function themeButton({ bare = true } = {}) {
  const name = () => t(`theme.${document.documentElement.dataset.theme || "auto"}`);
  const node = button(name(), { icon: "theme", bare });
  node.classList.add("theme");
  node.addEventListener("click", () => {
    const now = document.documentElement.dataset.theme || "";
    setTheme(ORDER[(ORDER.indexOf(now) + 1) % ORDER.length]);
    if (bare) {
      node.title = name();
      node.setAttribute("aria-label", name());
    } else node.querySelector("span").textContent = name();
    announce(name());
  });
  return node;
}

/** Sets a theme, "" for that of the system; the page itself reads it before its first paint. */
function setTheme(name) {
  if (name) document.documentElement.dataset.theme = name;
  else delete document.documentElement.dataset.theme;
  localStorage.setItem("theme", name);
}

/** Returns the choice among the languages that the page has. */
export function languageChoice() {
  const node = h("select", { class: "language", "aria-label": t("language.choose") }, languages().map(({ code, name }) => h("option", { value: code, lang: code }, name)));
  node.value = document.documentElement.lang;
  node.addEventListener("change", async () => {
    await chooseLanguage(node.value);
    // The header was made anew.
    if (document.activeElement === document.body) document.querySelector(".language")?.focus();
  });
  return node;
}
