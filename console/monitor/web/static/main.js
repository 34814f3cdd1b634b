// The page: troubles first, then agents, the panels that are open, the log.

import { make, put, age } from "./dom.js";
import { ask, enter, Events } from "./link.js";
import { Panel } from "./panel.js";
import { Table } from "./table.js";

const MOST_LINES = 300;
const MOST_OPEN = 12;
const LEVELS = { bad: "Broken", warn: "Look" };

const find = (name) => document.getElementById(name);
const panels = new Map();
let events = null;
let user = { user: "", operates: false };
let counts = { agents: 0, troubles: 0 };

function open(name) {
  if (!panels.has(name)) {
    if (panels.size >= MOST_OPEN) close(panels.keys().next().value);
    const panel = new Panel(name, user, () => close(name));
    panels.set(name, panel);
    find("panels").append(panel.element);
    events.watch([...panels.keys()]);
  }
  panels.get(name).title.focus();
}

function close(name) {
  panels.get(name)?.element.remove();
  panels.delete(name);
  events.watch([...panels.keys()]);
  const row = [...document.querySelectorAll("#agents tr[data-agent]")].find((each) => each.dataset.agent === name);
  row?.querySelector("button")?.focus();
}

function trouble(list) {
  counts.troubles = list.length;
  const items = list.map((each) => {
    const name = table.told.has(each.agent)
      ? make("button", { type: "button", onclick: () => open(each.agent) }, each.agent)
      : make("b", {}, each.agent);
    return make("li", { class: each.level, "data-agent": each.agent },
      make("span", { class: "level" }, LEVELS[each.level]), name, " ", each.words);
  });
  if (!items.length) items.push(make("li", { class: "none" }, "All is well."));
  const focused = document.activeElement?.closest("#troubles li")?.dataset.agent;
  find("troubles").replaceChildren(...items);
  if (focused) items.find((item) => item.dataset.agent === focused)?.querySelector("button")?.focus();
}

function log(lines) {
  const place = find("log");
  for (const line of lines) {
    const at = make("time", { datetime: new Date(line.at * 1000).toISOString() },
      new Date(line.at * 1000).toLocaleTimeString());
    place.prepend(make("li", { class: line.level }, at, `${line.agent} ${line.words}`));
  }
  while (place.children.length > MOST_LINES) place.lastChild.remove();
}

function processes(rows) {
  find("processes-part").hidden = !rows.length;
  find("processes").replaceChildren(...rows.map((row) => make("li", {},
    `${row.name} (${row.kind}) ${row.state} for ${age(row.since)}${row.does ? `: ${row.does}` : ""}`
      + (row.lag === undefined || row.lag === null ? "" : `, ${age(row.lag)} behind`))));
}

function news(message, first) {
  if (first) {
    table.clear();
    find("log").replaceChildren();
    for (const panel of panels.values()) panel.begin();
  }
  if (message.rows) table.take(message.rows);
  if (message.troubles) trouble(message.troubles);
  if (message.log) log(message.log);
  if (message.processes) processes(message.processes);
  for (const [name, panel] of panels) {
    if (message.details?.[name]) panel.detail(message.details[name], message.held ?? []);
    if (message.values?.[name]) panel.take(message.values[name]);
  }
  counts.agents = table.told.size;
}

function connected(yes) {
  const summary = find("summary");
  summary.classList.toggle("offline", !yes);
  const troubles = counts.troubles ? `${counts.troubles} in trouble` : "all is well";
  put(summary, yes ? `${counts.agents} agents, ${troubles}` : "the monitor does not answer: what stands here is old");
  document.title = yes ? `${counts.troubles ? `(${counts.troubles}) ` : ""}pzc monitor` : "(old) pzc monitor";
}

const table = new Table(find("agents"), open);
find("filter").addEventListener("input", (event) => table.filter(event.target.value));

function askToken() {
  find("login").hidden = false;
  put(find("summary"), "a token is needed");
  find("token").focus();
}

async function begin() {
  const session = await enter();
  if (session.status === 401) {
    askToken();
    return;
  }
  if (session.error) {
    put(find("summary"), session.error);
    setTimeout(begin, 2000);
    return;
  }
  user = session;
  find("login").hidden = true;
  put(find("who"), user.operates ? `${user.user}, operates` : `${user.user}, only looks`);
  events = new Events(news, connected, askToken);
}

find("login").addEventListener("submit", async (event) => {
  event.preventDefault();
  const answer = await ask("/login", { token: find("token").value });
  put(find("login-error"), answer.error ?? "");
  if (answer.error) return;
  if (events) location.reload();  // a session had ended
  else begin();
});

begin();
