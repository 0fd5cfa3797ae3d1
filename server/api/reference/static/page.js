"use strict";
// Shows /openapi.json with Swagger UI. The key stays in this page's memory and goes to this server alone.

const [key, state] = ["key", "state"].map((id) => document.getElementById(id));

function authorized(request) {
  const given = key.value.trim();
  if (given && new URL(request.url, location).origin === location.origin) {
    request.headers = { ...request.headers, Authorization: "Bearer " + given };
  }
  return request;
}

async function load() {
  state.textContent = "Loading…";
  try {
    const reply = await fetch("/openapi.json", authorized({ url: "/openapi.json" }));
    if (reply.status === 401) {
      state.textContent = key.value ? "The server does not take this key." : "This server needs a key.";
      key.focus();
      key.select();
      return;
    }
    const spec = await reply.json();
    if (!reply.ok) throw new Error(`${reply.status}: ${spec.error.message}`);
    SwaggerUIBundle({ spec, dom_id: "#operations", requestInterceptor: authorized, tryItOutEnabled: true, validatorUrl: null });
    state.textContent = spec.security.some((one) => one.bearer) ? "Loaded." : "This server needs no key.";
  } catch (error) {
    state.textContent = error.message;
  }
}

document.getElementById("door").addEventListener("submit", (event) => { event.preventDefault(); load(); });
load();
