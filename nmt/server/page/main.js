// The page: translates while the user types, with one model or two side by side.

import * as history from "./history.js";
import { Result, close } from "./sentences.js";
import { ServerError, ask, upload } from "./server.js";
import { languageName, show, text } from "./texts.js";

const PAUSE = 250; // milliseconds without typing after which a text is translated
const RETRY = 3000; // milliseconds after which a server that did not answer is asked again
const PROGRESS = 700;

const get = (id) => document.getElementById(id);
const [input, source, target, model, other] = ["text", "source", "target", "model", "other"].map(get);
const [glossary, protect] = ["glossary", "protect"].map(get);
const results = [get("columns").querySelector(".result"), get("other-result")].map((one) => new Result(one, compare));
let settings = null;
let request = null;
let timer = 0;

function options(select, values, labels) {
  const before = select.value;
  select.replaceChildren(...values.map((value, i) => new Option(labels[i], value)));
  if (values.includes(before)) select.value = before;
}

function showSettings() {
  const models = settings.models;
  const targets = [...new Set(models.map((one) => one.target))];
  options(target, targets, targets.map(languageName));
  const sources = [...new Set(models.filter((one) => one.target === target.value).map((one) => one.source))];
  options(source, ["auto", ...sources], [text("auto"), ...sources.map(languageName)]);
  const fitting = models.filter((one) => one.target === target.value && ["auto", one.source].includes(source.value));
  const names = fitting.map((one) => one.name);
  options(model, names, names);
  options(other, ["", ...names], [text("none"), ...names]);
  get("model-label").hidden = get("other-label").hidden = names.length < 2;
  get("key-label").hidden = !settings.keyRequired;
  showCount();
}

function showCount() {
  get("count").textContent = text("count", [...input.value].length, settings?.charLimit ?? "");
}

function showDownload() {
  get("download").textContent = text("download", get("download").dataset.name ?? "");
}

function fail(message) {
  get("error").hidden = !message;
  get("error").textContent = message;
}

// What a request has besides its text; terms go as lines with a tab.
function requested(name) {
  const terms = glossary.value.split("\n").filter((line) => line.trim()).map((line) => line.replace(/\s*=\s*|$/, "\t"));
  return { source: source.value, target: target.value, model: name, protect: protect.checked, glossary: terms.join("\n") };
}

function compare() {
  const [first, second] = results;
  if (first.found && second.found) { first.compare(second); second.compare(first); }
  remember();
}

function remember() {
  const [first] = results;
  if (first.found) {
    history.add({ source: first.found.source, target: target.value, text: input.value, translation: first.text });
    history.show(restore);
  }
}

function restore(entry) {
  input.value = entry.text;
  target.value = entry.target;
  showSettings();
  source.value = entry.source;
  translate();
  input.focus();
}

async function translate() {
  clearTimeout(timer);
  request?.abort();
  close();
  const mine = request = new AbortController();
  const names = [model.value, ...(other.value ? [other.value] : [])];
  get("other-result").hidden = names.length < 2;
  if (!input.value.trim()) {
    results.forEach((one) => one.show(null));
    return fail("");
  }
  get("columns").classList.add("busy");
  get("status").textContent = text("translating");
  try {
    const directions = names.map(requested);
    const found = await Promise.all(directions.map((one) => ask("page/sentences", { ...one, q: input.value }, mine.signal)));
    results.forEach((one, i) => one.show(found[i] ?? null, directions[i] && { ...directions[i], source: found[i].source }));
    get("legend").hidden = !get("columns").querySelector(".certainty");
    fail("");
    compare();
    const isDetected = source.value === "auto" && source.options.length > 2;
    get("status").textContent = isDetected ? text("detected", languageName(found[0].source)) : text("done");
  } catch (error) {
    if (mine.signal.aborted) return;
    get("status").textContent = "";
    fail(error instanceof ServerError ? error.message : text("offline"));
    if (!(error instanceof ServerError)) timer = setTimeout(translate, RETRY);
  } finally {
    if (mine === request) get("columns").classList.remove("busy");
  }
}

async function translateFile() {
  const [file] = get("file").files;
  if (!file) return;
  const [bar, link] = [get("progress"), get("download")];
  link.hidden = true;
  bar.hidden = false;
  bar.value = 0;
  const progress = crypto.randomUUID?.() ?? String(Math.random());
  const watch = setInterval(async () => {
    try { bar.value = (await ask("page/progress", { progress })).progress; } catch { clearInterval(watch); }
  }, PROGRESS);
  get("status").textContent = text("uploading");
  try {
    const url = new URL((await upload(file, { ...requested(model.value), progress })).translatedFileUrl);
    const name = decodeURIComponent(url.pathname.split("/").at(-1));
    Object.assign(link, { href: url.pathname.slice(1), hidden: false });
    link.dataset.name = name;
    showDownload();
    get("status").textContent = text("done");
    fail("");
  } catch (error) {
    get("status").textContent = "";
    fail(error instanceof ServerError ? error.message : text("offline"));
  } finally {
    clearInterval(watch);
    bar.hidden = true;
  }
}

async function start() {
  const chosen = localStorage.getItem("nmt-interface") ?? navigator.language.slice(0, 2);
  get("interface").value = show(chosen);
  history.show(restore);
  try {
    settings = await (await fetch("frontend/settings")).json();
    fail("");
    showSettings();
    input.disabled = false;
  } catch {
    fail(text("offline"));
    setTimeout(start, RETRY);
  }
}

input.disabled = true;
glossary.value = localStorage.getItem("nmt-glossary") ?? "";
glossary.addEventListener("input", () => localStorage.setItem("nmt-glossary", glossary.value));
for (const typed of [input, glossary]) {
  typed.addEventListener("input", () => {
    showCount();
    clearTimeout(timer);
    timer = setTimeout(translate, PAUSE);
  });
}
for (const select of [source, target, model, other, protect]) {
  select.addEventListener("change", () => { showSettings(); translate(); });
}
get("key").addEventListener("change", translate);
get("file").addEventListener("change", translateFile);
get("interface").addEventListener("change", (event) => {
  localStorage.setItem("nmt-interface", show(event.target.value));
  if (settings) showSettings();
  showDownload();
  get("status").textContent = "";
  results.forEach((one) => one.draw());
});
get("settings").addEventListener("submit", (event) => event.preventDefault());
start();
