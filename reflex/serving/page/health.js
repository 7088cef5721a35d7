// The line that says what is served, asked until the server is ready.

import { h } from "./dom.js";

const WORDS = {
  loading: "loading the model …",
  failed: "the model could not be loaded",
  stopping: "stopping",
};

export async function startHealth(line, key) {
  for (;;) {
    const health = await ask();
    tell(line, health);
    if (health?.status === "ready") {
      needsKey(key);
      return;
    }
    await new Promise((resolve) => setTimeout(resolve, 1500));
  }
}

async function ask() {
  try {
    return await (await fetch("/health")).json();
  } catch {
    return null;
  }
}

function tell(line, health) {
  const status = health?.status ?? "gone";
  line.dataset.status = status;
  if (status === "ready") line.replaceChildren(h("strong", {}, health.model), h("span", {}, details(health)));
  else
    line.textContent = health
      ? `${WORDS[status] ?? status}${health.error ? `: ${health.error}` : ""}`
      : "no answer from the server";
  line.title = line.textContent;
}

function details(health) {
  const readouts = [...new Set(Object.values(health.readout ?? {}))].join(", ");
  const orders = health.orders?.permutations;
  return [
    health.run ? `run ${health.run.slice(0, 8)}` : null,
    readouts,
    orders ? `${orders} ${orders === 1 ? "order" : "orders"}` : null,
    health.calibration && health.calibration !== "none"
      ? `calibration ${health.calibration}`
      : "uncalibrated",
    `${health.dtype} on ${health.device}`,
  ]
    .filter(Boolean)
    .join(" · ");
}

async function needsKey(key) {
  try {
    const reply = await fetch("/v1/models");
    key.placeholder = reply.status === 401 || reply.status === 403 ? "required" : "none needed";
  } catch {
    // The line above tells.
  }
}
