// A translation on the page: sentences of words, their alignment, alternatives and other words.

import { ask, open } from "./server.js";
import { text } from "./texts.js";

function element(name, properties = {}, ...children) {
  const made = Object.assign(document.createElement(name), properties);
  made.append(...children);
  return made;
}

const wordsOf = (line) => line.split(/\s+/).filter(Boolean);

// The words of a line that are in no longest common subsequence with another line.
export function differing(line, other) {
  const [a, b] = [wordsOf(line), wordsOf(other)];
  const lengths = Array.from({ length: a.length + 1 }, () => new Array(b.length + 1).fill(0));
  for (let i = a.length - 1; i >= 0; i--) {
    for (let j = b.length - 1; j >= 0; j--) {
      lengths[i][j] = a[i] === b[j] ? lengths[i + 1][j + 1] + 1 : Math.max(lengths[i + 1][j], lengths[i][j + 1]);
    }
  }
  const found = new Set(a.keys());
  for (let i = 0, j = 0; i < a.length && j < b.length;) {
    if (a[i] === b[j]) { found.delete(i); i++; j++; }
    else if (lengths[i + 1][j] >= lengths[i][j + 1]) i++;
    else j++;
  }
  return found;
}

const [UNSURE, DOUBTFUL] = [0.8, 0.5]; // probabilities below which a word is marked

const dialog = document.getElementById("choices");
let chosen = null;

export class Result {
  constructor(section, changed) {
    this.section = section;
    this.list = section.querySelector(".sentences");
    this.copy = section.querySelector(".copy");
    this.changed = changed;
    this.copy.addEventListener("click", async () => {
      await navigator.clipboard.writeText(this.text);
      document.getElementById("status").textContent = text("copied");
    });
    this.list.addEventListener("keydown", (event) => this.move(event));
    this.show(null);
  }

  // `direction` has what a request needs besides its text.
  show(found, direction) {
    this.found = found;
    this.direction = direction;
    this.other = null;
    this.draw();
  }

  get text() {
    const { separators, sentences } = this.found;
    return separators[0] + sentences.map((one, i) => one.translations[0].text + separators[i + 1]).join("");
  }

  // Marks what differs from another result.
  compare(other) {
    this.other = other;
    this.draw();
  }

  draw() {
    this.copy.hidden = !this.found || !navigator.clipboard; // which only safe addresses have
    this.section.querySelector("small").textContent = this.found ? this.found.model : "";
    this.shown = this.found ? this.found.sentences.filter((one) => one.source) : [];
    this.list.replaceChildren(...this.shown.map((one) => this.sentence(one)));
  }

  sentence(one) {
    const [best, ...others] = one.translations;
    const source = element("p", { className: "source", lang: this.found.source }, text("sentence"), " ");
    const marks = wordsOf(one.source).map((word) => element("span", {}, word));
    for (const mark of marks) source.append(mark, " ");
    const line = element("p", { className: "words", lang: this.direction.target });
    const index = this.found.sentences.indexOf(one);
    const differs = this.other ? differing(best.text, this.other.found.sentences[index]?.translations[0].text ?? "") : new Set();
    const words = wordsOf(best.text);
    // Spans that were inserted and texts without blanks between words have other numbers of words.
    const certainty = best.word_confidence.length === words.length ? best.word_confidence : [];
    words.forEach((word, i) => {
      const button = element("button", { type: "button", tabIndex: i ? -1 : 0 }, word);
      button.ariaHasPopup = "dialog";
      button.classList.toggle("differs", differs.has(i));
      if (i in certainty) {
        button.title = text("certainty", Math.round(100 * certainty[i]));
        button.classList.toggle("unsure", certainty[i] < UNSURE);
        button.classList.toggle("doubtful", certainty[i] < DOUBTFUL);
      }
      const linked = (best.alignment ?? []).filter(([, target]) => target === i).map(([from]) => marks[from]);
      const light = (is) => () => linked.forEach((mark) => mark?.classList.toggle("linked", is));
      for (const name of ["mouseenter", "focus"]) button.addEventListener(name, light(true));
      for (const name of ["mouseleave", "blur"]) button.addEventListener(name, light(false));
      button.addEventListener("click", () => openChoices(this, one, i, button));
      line.append(button, " ");
    });
    const attention = element("button", { type: "button", className: "link" }, text("attention"));
    attention.addEventListener("click", () => open("page/attention", { ...this.direction, q: one.source, translation: best.text }));
    const block = element("div", { className: "sentence" }, line, source);
    if (best.confidence !== null) {
      const values = [100 * best.confidence, best.expected_chrf].map(Math.round);
      block.append(element("p", { className: "faint certainty" }, text("confidence", ...values)));
    }
    for (const note of best.notes) block.append(element("p", { className: "faint" }, note));
    if (others.length) {
      const list = element("ul", {}, ...others.map((other) => {
        const button = element("button", { type: "button", lang: this.direction.target }, ...marked(other.text, best.text));
        button.addEventListener("click", () => this.replace(one, other));
        return element("li", {}, button);
      }));
      block.append(element("details", {}, element("summary", {}, `${text("alternatives")} (${others.length})`), list));
    }
    block.append(attention);
    return block;
  }

  // Puts a translation in the first place; the others remain as alternatives.
  replace(sentence, translation) {
    const others = sentence.translations.filter((one) => one.text !== translation.text);
    sentence.translations = [translation, ...others];
    this.draw();
    this.changed();
  }

  move(event) {
    const step = { ArrowRight: 1, ArrowLeft: -1 }[event.key];
    if (!step || !event.target.closest(".words")) return;
    const words = [...this.list.querySelectorAll(".words button")];
    const next = words[words.indexOf(event.target) + step];
    if (!next) return;
    event.preventDefault();
    event.target.tabIndex = -1;
    next.tabIndex = 0;
    next.focus();
  }
}

function marked(line, other) {
  const differs = differing(line, other);
  return wordsOf(line).flatMap((word, i) => [differs.has(i) ? element("mark", {}, word) : word, " "]);
}

async function translationsWith(prefix) {
  const { result, sentence } = chosen;
  return (await ask("page/choices", { ...result.direction, q: sentence.source, prefix })).translations;
}

async function openChoices(result, sentence, index, button) {
  const words = wordsOf(sentence.translations[0].text);
  const mine = { result, sentence, button, index, prefix: words.slice(0, index).join(" ") };
  chosen = mine;
  const list = dialog.querySelector("ul");
  list.replaceChildren(element("li", {}, text("translating")));
  const box = button.getBoundingClientRect();
  dialog.hidden = false;
  dialog.style.top = `${box.bottom + scrollY + 4}px`;
  dialog.style.left = `${Math.max(16, Math.min(box.left, innerWidth - dialog.offsetWidth - 16)) + scrollX}px`;
  dialog.querySelector("#own").value = "";
  dialog.querySelector("#close").focus();
  try {
    const found = await translationsWith(mine.prefix);
    if (chosen !== mine) return;
    const best = sentence.translations[0].text;
    const items = found.filter((one) => one.text !== best).map((one) => {
      const choice = element("button", { type: "button", lang: result.direction.target }, ...marked(one.text, best));
      choice.addEventListener("click", () => choose(one));
      return element("li", {}, choice);
    });
    list.replaceChildren(...(items.length ? items : [element("li", {}, text("nothing"))]));
    list.querySelector("button")?.focus();
  } catch (error) {
    if (chosen === mine) list.replaceChildren(element("li", {}, error.message));
  }
}

function choose(translation) {
  const { result, sentence, index } = chosen;
  close();
  result.replace(sentence, translation);
  const line = result.list.querySelectorAll(".words")[result.shown.indexOf(sentence)];
  line.querySelectorAll("button")[index]?.focus();
}

export function close() {
  dialog.hidden = true;
  chosen?.button.focus();
  chosen = null;
}

dialog.querySelector("form").addEventListener("submit", async (event) => {
  event.preventDefault();
  const { prefix } = chosen;
  const own = dialog.querySelector("#own").value.trim();
  if (!own) return;
  try {
    const [best] = await translationsWith(`${prefix} ${own}`.trim());
    if (best) choose(best);
  } catch (error) {
    dialog.querySelector("ul").replaceChildren(element("li", {}, error.message));
  }
});
dialog.querySelector("#close").addEventListener("click", close);
document.addEventListener("keydown", (event) => { if (event.key === "Escape" && chosen) close(); });
document.addEventListener("pointerdown", (event) => {
  if (chosen && !dialog.contains(event.target)) close();
});
