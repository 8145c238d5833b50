// Shows the description of the API.

function element(name, ...children) {
  const made = document.createElement(name);
  made.append(...children);
  return made;
}

function type(schema) {
  if (schema.anyOf) return schema.anyOf.map(type).join(" or ");
  if (schema.type === "array") return `list of ${type(schema.items)}`;
  return schema.enum ? schema.enum.join(" or ") : schema.format === "binary" ? "file" : schema.type;
}

const { paths } = await (await fetch("openapi.json")).json();
for (const [path, methods] of Object.entries(paths)) {
  const { summary, description, requestBody } = methods.post;
  const { schema } = Object.values(requestBody?.content ?? { none: { schema: { properties: {} } } })[0];
  const list = element("dl");
  for (const [name, one] of Object.entries(schema.properties)) {
    const value = schema.required?.includes(name) ? "required" : `default: ${JSON.stringify(one.default)}`;
    list.append(element("dt", element("code", name), ` (${type(one)}, ${value})`), element("dd", one.description));
  }
  const verbs = Object.keys(methods).join(", ").toUpperCase();
  document.getElementById("paths").append(element("h2", element("code", path), ` ${verbs}`), element("p", description ?? summary), list);
}
