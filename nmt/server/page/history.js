// Earlier translations, in the storage of this browser.

const NAME = "nmt-history";
const MAX = 50;
const list = document.querySelector("#history ol");

const read = () => JSON.parse(localStorage.getItem(NAME) ?? "[]");

// A text that continues the last one replaces it: each pause in typing would make an entry.
export function add(entry) {
  const [last, ...rest] = read();
  const kept = last && (entry.text.startsWith(last.text) || last.text.startsWith(entry.text)) ? rest : [last, ...rest];
  localStorage.setItem(NAME, JSON.stringify([entry, ...kept.filter(Boolean)].slice(0, MAX)));
}

export function show(restore) {
  list.replaceChildren(...read().map((entry) => {
    const button = document.createElement("button");
    button.type = "button";
    button.textContent = `${entry.source} → ${entry.target}: ${entry.text.slice(0, 80)} → ${entry.translation.slice(0, 80)}`;
    button.addEventListener("click", () => restore(entry));
    const item = document.createElement("li");
    item.append(button);
    return item;
  }));
}

document.getElementById("clear").addEventListener("click", () => {
  localStorage.removeItem(NAME);
  list.replaceChildren();
});
