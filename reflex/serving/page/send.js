// One request to the server: {reply, headers, elapsed}, {problem, body}, or {stopped}. Never raises.

import { parse, stringify } from "./json.js";
import { fromNetwork, fromReply } from "./problems.js";

export async function send(request, key, signal) {
  const sent = new Map(request);
  if (!sent.has("x_orders")) sent.set("x_orders", true); // each order's own answer, for the marks
  const headers = { "content-type": "application/json" };
  if (key) headers.authorization = `Bearer ${key}`;
  const started = performance.now();
  try {
    const options = { method: "POST", headers, body: stringify(sent), signal };
    const reply = await fetch("/v1/systemone", options);
    const body = await reply.text();
    const elapsed = performance.now() - started;
    if (reply.ok) return { reply: parse(body), headers: reply.headers, elapsed };
    return { problem: fromReply(reply.status, body, reply.headers.get("retry-after")), body };
  } catch (error) {
    return failed(error);
  }
}

function failed(error) {
  if (error.name === "AbortError") return { stopped: true };
  if (!(error instanceof TypeError)) {
    return { problem: { title: "The reply could not be read", text: error.message } };
  }
  if (!error.message.includes("header")) return { problem: fromNetwork(location.origin) };
  const text = "It holds characters that no header may hold.";
  return { problem: { title: "This API key cannot be sent", text, key: true } };
}
