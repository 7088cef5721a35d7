// The same request for a terminal and two languages. The API key is read from the environment, never written.

import { Num, stringify } from "./json.js";

const KEY = "REFLEX_API_KEY";
const CLASSES = { noul: "Noul", choice: "Choice", score: "Score" };

export const NOTES = {
  curl: `Reads the key from ${KEY}.`,
  python: `pip install typesafe-sdk · reads the key from ${KEY}.`,
  typescript: `No packages · Node 20, Deno or Bun · reads the key from ${KEY}.`,
};

// Raises Error for what is not a request yet.
export function snippet(language, request, origin) {
  const questions = request.get("questions");
  const whole =
    request.has("state") &&
    questions instanceof Map &&
    [...questions.values()].every((each) => each instanceof Map);
  if (!whole) throw new Error("This is not a whole request yet: it needs a state and questions.");
  return { curl, python, typescript }[language](request, origin);
}

// JSON has no raw line breaks inside its texts, so no line of it can end the here-document early.
function curl(request, origin) {
  return `curl -sS ${quoted(`${origin}/v1/systemone`)} \\
  -H 'content-type: application/json' \\
  -H "authorization: Bearer \${${KEY}:-none}" \\
  --data-binary @- <<'REQUEST'
${stringify(request)}
REQUEST
`;
}

const quoted = (text) => `'${text.replaceAll("'", `'\\''`)}'`;

function python(request, origin) {
  const questions = [...request.get("questions")];
  const used = [...new Set(questions.map(([, each]) => classOf(each)).filter(Boolean))];
  const model = request.get("model") ?? "jev-latest";
  const extra = new Map([...request].filter(([key]) => !["model", "state", "questions"].includes(key)));
  const asked = questions.map(([id, each]) => {
    if (!classOf(each)) return `            ${text(id)}: ${literal(each, "            ")},`;
    const given = [...each].filter(([key]) => key !== "type");
    const inner = given.map(
      ([key, value]) => `                ${key}=${literal(value, "                ")},`,
    );
    return `            ${text(id)}: ${classOf(each)}(\n${inner.join("\n")}\n            ),`;
  });
  const lines = [
    "import os",
    "",
    `from typesafe_sdk import ${[...used, "TypeSafeClient"].sort().join(", ")}`,
    "",
    `key = os.environ.get("${KEY}", "none")`,
    `with TypeSafeClient(base_url=${text(origin)}, api_key=key) as client:`,
    "    response = client.system_one(",
    `        state=${literal(request.get("state"), "        ")},`,
    "        questions={",
    ...asked,
    "        },",
    ...(model === "jev-latest" ? [] : [`        model=${literal(model, "        ")},`]),
    ...(extra.size ? [`        extra_body=${literal(extra, "        ")},`] : []),
    "    )",
    "",
    "for name, answer in response.answers.items():",
    "    print(name, answer)",
    "",
  ];
  return lines.join("\n");
}

// The SDK's class of a question, where it has one that takes all its fields.
const classOf = (each) =>
  [...each.keys()].every((key) => ["type", "instructions", "criteria"].includes(key))
    ? CLASSES[each.get("type")]
    : undefined;

// JSON's texts are Python's too; its words are not.
const text = (value) =>
  JSON.stringify(value)
    .replaceAll("\u2028", "\\u2028")
    .replaceAll("\u2029", "\\u2029")
    .replaceAll("\x7f", "\\x7f");

function literal(value, indent) {
  const word = new Map([
    [null, "None"],
    [true, "True"],
    [false, "False"],
  ]).get(value);
  if (word) return word;
  if (typeof value === "string") return text(value);
  if (value instanceof Num) return value.raw;
  const line = oneLine(value);
  if (indent.length + line.length <= 80) return line;
  const inner = `${indent}    `;
  if (value instanceof Map) {
    const parts = [...value].map(([key, v]) => `${inner}${text(key)}: ${literal(v, inner)},`);
    return `{\n${parts.join("\n")}\n${indent}}`;
  }
  return `[\n${value.map((v) => `${inner}${literal(v, inner)},`).join("\n")}\n${indent}]`;
}

function oneLine(value) {
  if (value instanceof Map) return `{${[...value].map(([k, v]) => `${text(k)}: ${oneLine(v)}`).join(", ")}}`;
  if (Array.isArray(value)) return `[${value.map(oneLine).join(", ")}]`;
  return literal(value, "");
}

function typescript(request, origin) {
  const json = stringify(request);
  return `const reply = await fetch(${JSON.stringify(`${origin}/v1/systemone`)}, {
  method: "POST",
  headers: {
    "content-type": "application/json",
    authorization: \`Bearer \${process.env.${KEY} ?? "none"}\`,
  },
  body: ${body(json)},
});
if (!reply.ok) throw new Error(\`\${reply.status}: \${await reply.text()}\`);
const { answers } = await reply.json();
console.log(JSON.stringify(answers, null, 2));
`;
}

// An object literal where it says the same; else the JSON as text (keys such as "10" would change places).
function body(json) {
  const plain = JSON.parse(json);
  const same = JSON.stringify(plain) === stripped(json) && !json.includes('"__proto__"');
  if (same) return `JSON.stringify(${json.replaceAll("\n", "\n  ")})`;
  return `// As text: an object would change the order of its keys or the digits of its numbers.\n    ${JSON.stringify(stripped(json))}`;
}

// Spaces outside of texts removed.
const stripped = (json) => json.replace(/"(?:[^"\\]|\\.)*"|\s+/g, (part) => (part[0] === '"' ? part : ""));
