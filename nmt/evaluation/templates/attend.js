// Draws attention maps of the data in the page. Text is set as textContent, so it is not parsed.
"use strict";
const sentences = JSON.parse(document.getElementById("data").textContent);
const KINDS = {
  encoder: "encoder self-attention",
  decoder: "masked decoder self-attention",
  cross: "cross-attention",
};
const state = { sentence: 0, kind: "cross", layer: -1, unit: "words", off: new Set(), row: 0 };

function element(name, text = "", attributes = {}) {
  const made = document.createElement(name);
  made.textContent = text;
  for (const [key, value] of Object.entries(attributes)) made.setAttribute(key, value);
  return made;
}

// A word is a piece that begins with U+2581 and the following pieces that do not.
function groups(pieces) {
  if (state.unit === "pieces") return pieces.map((_, index) => [index]);
  const found = [];
  pieces.forEach((piece, index) => {
    const begins = piece.startsWith("\u2581") || piece.startsWith("<s>") || piece === "</s>";
    if (begins || !found.length) found.push([index]);
    else found[found.length - 1].push(index);
  });
  return found;
}

function names(pieces) {
  return groups(pieces).map((group) => {
    const text = group.map((index) => pieces[index]).join("");
    return state.unit === "pieces" ? text : text.replaceAll("\u2581", " ").trim() || text;
  });
}

// Weights of words: sums over the pieces of a column's word, means over those of a row's word.
function grouped(weights, map) {
  return groups(map.rows).map((rows) =>
    groups(map.columns).map((columns) => {
      let sum = 0;
      for (const row of rows) for (const column of columns) sum += weights[row][column];
      return sum / rows.length;
    }),
  );
}

function mean(matrices) {
  return matrices[0].map((row, r) =>
    row.map((_, c) => matrices.reduce((sum, one) => sum + one[r][c], 0) / matrices.length),
  );
}

function chosenHeads(layer) {
  const on = layer.filter((_, index) => !state.off.has(index));
  return on.length ? on : layer;
}

function cell(weight, title) {
  const made = element("td", "", { title });
  made.style.setProperty("--w", `${Math.round(100 * weight)}%`);
  return made;
}

function map(weights, rows, columns, onRow) {
  const table = element("table", "", { class: "map" });
  const head = table.insertRow();
  head.append(element("th"));
  for (const name of columns) {
    const label = element("th", "", { scope: "col" });
    label.append(element("span", name, { dir: "auto" }));
    head.append(label);
  }
  weights.forEach((values, r) => {
    const line = table.insertRow();
    const label = element("th", rows[r], { scope: "row", dir: "auto" });
    line.append(label);
    values.forEach((weight, c) =>
      line.append(cell(weight, `${rows[r]} → ${columns[c]}: ${weight.toFixed(2)}`)),
    );
    if (onRow) {
      if (r === state.row) line.className = "chosen";
      line.addEventListener("mouseenter", () => onRow(r));
    }
  });
  return table;
}

function choice(id, options, value, onChange) {
  const field = document.getElementById(id);
  field.replaceChildren(field.querySelector("legend"));
  field.hidden = options.length < 2;
  for (const [key, title] of options) {
    const label = element("label");
    const input = element("input", "", { type: "radio", name: id });
    input.checked = key === value;
    input.addEventListener("change", () => onChange(key));
    label.append(input, ` ${title}`);
    field.append(label);
  }
}

function set(changes) {
  Object.assign(state, changes);
  draw();
}

function drawHeads(layer, current) {
  const heads = document.getElementById("heads");
  heads.replaceChildren();
  layer.forEach((head, index) => {
    const figure = element("figure", "", { class: state.off.has(index) ? "off" : "" });
    const label = element("label");
    const box = element("input", "", { type: "checkbox" });
    box.checked = !state.off.has(index);
    box.addEventListener("change", () => {
      if (box.checked) state.off.delete(index);
      else state.off.add(index);
      draw();
    });
    label.append(box, ` head ${index + 1}`);
    const table = element("table", "", { class: "map small", "aria-label": `head ${index + 1}` });
    for (const values of grouped(head.weights, current)) {
      const line = table.insertRow();
      for (const weight of values) line.append(cell(weight, weight.toFixed(2)));
    }
    const distance = head.distance === null ? "" : `, distance ${head.distance.toFixed(1)}`;
    figure.append(label, table, element("figcaption", `entropy ${head.entropy.toFixed(1)}${distance}`));
    heads.append(figure);
  });
}

function drawRow(weights, rows, columns) {
  state.row = Math.min(state.row, rows.length - 1);
  const above = document.getElementById("rows");
  const below = document.getElementById("columns");
  above.replaceChildren();
  below.replaceChildren();
  rows.forEach((name, r) => {
    const token = element("span", name, {
      class: r === state.row ? "token chosen" : "token", tabindex: 0, dir: "auto",
    });
    for (const event of ["mouseenter", "focus", "click"]) {
      token.addEventListener(event, () => r !== state.row && set({ row: r }));
    }
    above.append(token);
  });
  columns.forEach((name, c) => {
    const weight = weights[state.row][c];
    const token = element("span", name, {
      class: "token", title: weight.toFixed(2), dir: "auto",
    });
    token.style.setProperty("--w", `${Math.round(100 * weight)}%`);
    below.append(token);
  });
}

function draw() {
  const { kinds } = sentences[state.sentence];
  const current = kinds[state.kind];
  if (state.layer < 0 || state.layer >= current.layers.length) {
    state.layer = current.layers.length - 1;
  }
  const layer = current.layers[state.layer];
  choice("sentence", sentences.map((one, i) => [i, one.source]), state.sentence,
    (sentence) => set({ sentence, row: 0 }));
  choice("kind", Object.entries(KINDS).filter(([kind]) => kind in kinds), state.kind, (kind) => set({ kind, row: 0 }));
  choice("layer", current.layers.map((_, i) => [i, i + 1]), state.layer,
    (index) => set({ layer: index }));
  choice("unit", [["words", "words"], ["pieces", "pieces"]], state.unit,
    (unit) => set({ unit, row: 0 }));
  const rows = names(current.rows);
  const columns = names(current.columns);
  const averaged = (one) =>
    mean(chosenHeads(one).map((head) => grouped(head.weights, current)));
  const weights = averaged(layer);
  drawRow(weights, rows, columns);
  document.getElementById("mean").replaceChildren(
    map(weights, rows, columns, (row) => row !== state.row && set({ row })),
  );
  drawHeads(layer, current);
  document.getElementById("layers").replaceChildren(
    map(current.layers.map((one) => averaged(one)[state.row]),
      current.layers.map((_, i) => `layer ${i + 1}`), columns),
  );
}

draw();
