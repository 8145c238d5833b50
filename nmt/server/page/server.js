// Requests to the server.

export class ServerError extends Error {}

export function key() {
  return document.getElementById("key").value;
}

async function answer(response) {
  const found = await response.json();
  if (!response.ok) throw new ServerError(found.error);
  return found;
}

export async function ask(path, values, signal) {
  const body = JSON.stringify({ ...values, api_key: key() });
  return answer(await fetch(path, { method: "POST", body, signal, headers: { "content-type": "application/json" } }));
}

export async function upload(file, values) {
  const form = new FormData();
  for (const [name, value] of Object.entries({ ...values, api_key: key() })) form.append(name, value);
  form.append("file", file);
  return answer(await fetch("translate_file", { method: "POST", body: form }));
}

// Opens a page of the server in a new tab, without the text in its address.
export function open(path, values) {
  const form = document.createElement("form");
  Object.assign(form, { method: "post", action: path, target: "_blank", hidden: true });
  for (const [name, value] of Object.entries({ ...values, api_key: key() })) {
    form.append(Object.assign(document.createElement("textarea"), { name, value }));
  }
  document.body.append(form);
  form.submit();
  form.remove();
}
