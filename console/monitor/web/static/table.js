// The table of agents: sorted, filtered, and changed in place.

import { make, put, age } from "./dom.js";

const COLUMNS = [
  ["agent", "Agent", ""], ["state", "State", ""], ["does", "Does", "does"], ["holds", "Lock", "holds"],
  ["calls", "Calls/s", "number optional"], ["topics", "Topics", "number optional"],
  ["rate", "Rate/s", "number"], ["dropped", "Dropped", "number"], ["refused", "Refused", "number optional"],
  ["behind", "Behind", "number optional"],
];

// What an agent that answers may be in is trouble all the same.
const STATES = {
  well: "answers", silent: "does not answer", gone: "is gone", new: "is new", bad: "is in trouble", warn: "look at it",
};
const WORST = ["bad", "warn", ""];

export class Table {
  constructor(table, onOpen) {
    this.head = table.querySelector("thead tr");
    this.body = table.querySelector("tbody");
    this.onOpen = onOpen;
    this.rows = new Map();
    this.told = new Map();
    this.wanted = "";
    this.order = "trouble";
    this.down = false;
    for (const [key, title, kind] of COLUMNS) {
      const button = make("button", { type: "button", onclick: () => this.sort(key) }, title);
      this.head.append(make("th", { scope: "col", class: kind, "data-key": key }, button));
    }
    this.mark();
  }

  sort(key) {
    this.down = this.order === key ? !this.down : false;
    this.order = key;
    this.mark();
    this.arrange();
  }

  mark() {
    for (const cell of this.head.children) {
      const own = cell.dataset.key === this.order;
      cell.setAttribute("aria-sort", own ? (this.down ? "descending" : "ascending") : "none");
    }
  }

  filter(text) {
    this.wanted = text.toLowerCase();
    this.arrange();
  }

  clear() {
    this.take(Object.fromEntries([...this.told.keys()].map((name) => [name, null])));
  }

  take(rows) {
    for (const [name, told] of Object.entries(rows)) {
      if (told === null) {
        this.told.delete(name);
        this.rows.get(name)?.remove();
        this.rows.delete(name);
        continue;
      }
      this.told.set(name, told);
      let row = this.rows.get(name);
      if (!row) {
        row = this.make(name);
        this.rows.set(name, row);
      }
      this.fill(row, told);
    }
    this.arrange();
  }

  make(name) {
    const row = make("tr", { "data-agent": name });
    for (const [key, , kind] of COLUMNS) {
      const cell = make("td", { class: kind });
      if (key === "agent") {
        cell.append(make("button", { type: "button", class: "name", onclick: () => this.onOpen(name) }, name));
      }
      row.append(cell);
    }
    return row;
  }

  fill(row, told) {
    COLUMNS.forEach(([key], at) => {
      const cell = row.children[at];
      if (key === "agent") return;
      if (key === "state") {
        const heard = told.heard_s;
        const state = told.state === "well" && told.trouble ? told.trouble : told.state;
        put(cell, told.state !== "well" && heard ? `${STATES[state]} (${age(heard)})` : STATES[state]);
        cell.className = state;
      } else {
        const text = key === "does" && told.error ? told.error : told[key] ?? "";
        put(cell, text);
        if ((key === "does" || key === "holds") && cell.title !== String(text)) cell.title = text;
      }
    });
  }

  arrange() {
    const shown = [...this.told.values()].filter((told) =>
      `${told.agent} ${told.state} ${told.trouble} ${told.holds ?? ""} ${told.type}`.toLowerCase().includes(this.wanted));
    const sign = this.down ? -1 : 1;
    if (this.order === "trouble") {
      shown.sort((one, other) => WORST.indexOf(one.trouble) - WORST.indexOf(other.trouble)
        || one.agent.localeCompare(other.agent));
    } else shown.sort((one, other) => {
      const a = one[this.order] ?? "", b = other[this.order] ?? "";
      const first = typeof a === "number" && typeof b === "number" ? a - b : String(a).localeCompare(String(b));
      return sign * first || one.agent.localeCompare(other.agent);
    });
    const wanted = shown.map((told) => this.rows.get(told.agent));
    const now = [...this.body.children];
    if (wanted.length === now.length && wanted.every((row, at) => row === now[at])) return;
    const focused = document.activeElement;
    this.body.replaceChildren(...wanted);
    if (focused && this.body.contains(focused)) focused.focus();
  }
}
