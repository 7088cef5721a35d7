// What went wrong, in words that say what to do. A problem is {title, text, path?, key?, retry?}.

import { parse } from "./json.js";

export function fromNetwork(origin) {
  return {
    title: "No answer",
    text: `Nothing answers at ${origin}. Is the server still running, and this machine still connected?`,
  };
}

export function fromReply(status, body, retryAfter) {
  const { text, path } = told(body);
  const wait = retryAfter ? ` Try again in ${retryAfter} s.` : " Try again in a moment.";
  const say = (title, more = "") => ({ title, text: `${text}${more}`, path });
  if (status === 401) return { ...say("The server needs an API key"), text: keyText(text), key: true };
  if (status === 403) return { ...say("This API key may not do that"), key: true };
  if (status === 404) return say("There is no such address on this server");
  if (status === 408) return say("The request arrived too slowly");
  if (status === 413)
    return say("Too long", ". Nothing is ever cut off; shorten the state or send it in parts.");
  if (status === 422) return say("The request cannot be answered as it stands");
  if (status === 429) return say("The server is busy", `.${wait}`);
  if (status === 503)
    return { ...say("Not available right now", `.${retryAfter ? wait : ""}`), retry: Boolean(retryAfter) };
  if (status >= 500) return say("The server failed", ". Its log has the details.");
  return say(`The server answered ${status}`);
}

const keyText = (text) =>
  text.startsWith("No API key")
    ? "Enter a key at the top of the page and run again."
    : `${upper(text)}. Check the key at the top of the page.`;

// Message and path of an error body: detail[] with loc and msg, detail.message, or plain text.
function told(body) {
  let value;
  try {
    value = parse(body);
  } catch {
    return { text: upper(body.trim().slice(0, 300)) || "The server gave no reason" };
  }
  const detail = value instanceof Map ? value.get("detail") : undefined;
  if (Array.isArray(detail) && detail.length) {
    const path = detail[0].get("loc") ?? [];
    return { text: upper(detail[0].get("msg") ?? ""), path };
  }
  if (detail instanceof Map) return { text: upper(detail.get("message") ?? "") };
  return { text: typeof detail === "string" ? upper(detail) : "The server gave no reason" };
}

const upper = (text) => text.charAt(0).toUpperCase() + text.slice(1);
