// A panel of one instrument, made from what its server tells of it.

import { make, put, age, bytes } from "./dom.js";
import { Plot, Picture } from "./plot.js";
import { ask } from "./link.js";

export class Panel {
  constructor(agent, user, onClose) {
    this.agent = agent;
    this.user = user;
    this.values = new Map();
    this.known = new Set();
    this.facts = make("p", { class: "facts" });
    this.calls = make("ul", { class: "calls" });
    this.controls = make("div", { class: "controls" });
    this.topics = make("div", { class: "topics" });
    this.output = make("output", { class: "result", role: "status" });
    this.lock = make("button", {
      type: "button", role: "switch", "aria-checked": "false", class: "lock", disabled: !user.operates,
      title: user.operates ? "" : "this page only shows", onclick: () => this.turn(),
    }, "Take lock");
    const title = make("h3", { tabindex: "-1" }, agent);
    this.title = title;
    this.element = make("section", { class: "panel", "aria-label": `panel of ${agent}`, "data-panel": agent },
      make("header", {}, title, this.lock,
        make("button", { type: "button", class: "close", onclick: onClose, "aria-label": `close ${agent}` }, "Close")),
      this.facts, this.calls, this.controls, this.topics, this.output);
    this.element.addEventListener("keydown", (event) => {
      if (event.key === "Escape") onClose();
    });
    this.load("", this.controls);
  }

  async load(path, place) {
    const query = new URLSearchParams({ agent: this.agent, path });
    const panel = await ask(`/panel?${query}`);
    if (panel.error) {
      const again = make("button", { type: "button", onclick: () => this.load(path, place) }, "Ask again");
      place.replaceChildren(make("p", { class: "error" }, `its members are not known: ${panel.error} `), again);
      return;
    }
    const doc = panel.doc ? make("p", { class: "doc" }, panel.doc.split("\n\n")[0]) : null;
    place.replaceChildren(...[doc].filter(Boolean), ...panel.controls.map((each) => this.control(each)),
      ...(panel.keys ?? []).map((key) => this.folder({ path: key, name: key, type: "", doc: "" })));
    if (panel.more) place.append(make("p", {}, `and ${panel.more} more members`));
  }

  control(told) {
    if (told.kind === "folder") return this.folder(told);
    if (told.kind === "method") return this.method(told);
    return this.value(told);
  }

  folder(told) {
    const inside = make("div", {});
    const details = make("details", { class: "control" }, make("summary", {}, `${told.name} ${told.type}`), inside);
    details.addEventListener("toggle", () => {
      if (details.open && !inside.childElementCount) this.load(told.path, inside);
    });
    return details;
  }

  value(told) {
    const shown = make("span", { class: "value" }, told.kind === "signal" ? "" : "…");
    const error = make("span", { class: "error" });
    const head = make("div", { class: "head" }, make("span", { class: "label" }, told.name), shown, error);
    const box = make("div", { class: "control", "data-member": told.path }, head);
    this.explain(box, told);
    if (told.kind === "value" && told.writable) head.append(this.setter(told));
    this.values.set(told.path, { box, shown, error, unit: told.unit ?? "", plot: null, picture: null });
    return box;
  }

  explain(box, told) {
    if (told.doc) box.append(make("p", { class: "doc" }, told.doc.split("\n")[0]));
    if (told.declared) box.append(make("small", {}, told.declared));
  }

  setter(told) {
    const [low, high] = told.range ?? [null, null];
    const numeric = /^(int|float)$/.test(told.type) || told.range;
    const input = make("input", {
      "aria-label": `new value of ${told.name}`, placeholder: told.type || "value", required: true,
      ...(numeric ? { type: "number", step: "any", min: low, max: high } : { type: "text" }),
      disabled: !this.user.operates,
    });
    const bounds = told.range ? make("small", {}, `${low} to ${high}`) : null;
    const form = make("form", { class: "argument", onsubmit: (event) => {
      event.preventDefault();
      this.act({ do: "set", path: told.path, value: input.value }, `${told.name} = ${input.value}`);
    } }, input, make("span", {}, told.unit ?? ""), bounds,
      make("button", { type: "submit", disabled: !this.user.operates }, "Set"));
    return form;
  }

  method(told) {
    const inputs = (told.arguments ?? [{ name: "", type: "", default: null, choices: [] }]).map((each) => {
      const attributes = { "aria-label": `${each.name || "arguments"} of ${told.name}`, disabled: !this.user.operates };
      const field = each.choices.length
        ? make("select", attributes, ...each.choices.map((choice) => make("option", { value: choice }, choice)))
        : make("input", { ...attributes, placeholder: each.default ?? each.type });
      if (each.choices.length && each.default !== null) field.value = each.default;
      return { each, field };
    });
    const result = make("output", {});
    const button = make("button", { type: "submit", class: told.urgent ? "urgent" : "do",
      disabled: !this.user.operates && !told.urgent }, told.name);
    const form = make("form", { class: "head", onsubmit: async (event) => {
      event.preventDefault();
      put(result, told.urgent ? "sent" : "runs …");
      const answer = await this.act({ do: "call", path: told.path, urgent: told.urgent, ...given(inputs) }, told.name);
      put(result, answer.error ?? answer.result?.text ?? "done");
      result.className = answer.error ? "error" : "";
    } }, button, ...inputs.map(({ each, field }) => make("label", { class: "argument" }, each.name, field)));
    const box = make("div", { class: "control", "data-member": told.path }, form);
    this.explain(box, told);
    box.append(result);
    return box;
  }

  async act(asked, words) {
    const answer = await ask("/act", { agent: this.agent, ...asked });
    put(this.output, `${new Date().toLocaleTimeString()} ${words}: ${answer.error ?? "done"}`);
    this.output.classList.toggle("error", Boolean(answer.error));
    return answer;
  }

  turn() {
    const held = this.lock.getAttribute("aria-checked") === "true";
    return this.act(held ? { do: "unlock" } : { do: "lock", reason: "taken on the page" },
      held ? "give the lock back" : "take the lock");
  }

  detail(told, held) {
    const ours = held.includes(told.endpoint);
    this.lock.setAttribute("aria-checked", String(ours));
    put(this.lock, ours ? "Give lock back" : "Take lock");
    const facts = [
      [told.type, told.endpoint, told.host && `${told.host} ${told.pid}`].filter(Boolean).join(", "),
      told.state === "well" ? told.does : `does not answer: ${told.error ?? told.state}`,
      `lock ${told.holds || "free"}`,
    ];
    const refused = Object.entries(told.refused ?? {}).filter(([, count]) => count);
    if (refused.length) {
      facts.push(`refused in the last minute: ${refused.map(([reason, count]) => `${count} ${reason}`).join(", ")}`);
    }
    if (told.behind) facts.push(`${told.behind} notifications behind`);
    put(this.facts, facts.join(" · "));
    this.facts.classList.toggle("bad", told.state !== "well");
    this.running(told.running ?? []);
    const topics = new Map(Object.entries(told.topics ?? {}));
    for (const [name, topic] of topics) this.topic(name, topic);
    for (const [name, slot] of this.values) {  // a topic that has ended
      if (slot.box.parentNode === this.topics && !topics.has(name)) {
        slot.box.remove();
        this.values.delete(name);
      }
    }
  }

  running(calls) {
    while (this.calls.children.length > calls.length) this.calls.lastChild.remove();
    calls.forEach((call, at) => {
      let item = this.calls.children[at];
      if (!item) {
        const cancel = make("button", { type: "button", disabled: !this.user.operates }, "Cancel");
        cancel.addEventListener("click", async () => {
          const answer = await this.act({ do: "cancel", id: cancel.dataset.id }, "cancel");
          if (answer.result === 0) put(this.output, "that call was over already");
        });
        item = make("li", {}, make("span", {}), " ", cancel);
        this.calls.append(item);
      }
      put(item.firstChild, `${call.member} ${call.state} for ${age(call.since)}, of ${call.caller || call.agent.slice(0, 8)}`);
      item.lastChild.dataset.id = call.id;
    });
  }

  topic(name, told) {
    let slot = this.values.get(name);
    if (!slot) {
      this.topics.append(this.value({ name, path: name, kind: "signal", doc: "" }));
      slot = this.values.get(name);
    }
    if (!slot.about) {
      slot.about = make("p", { class: "doc about" });
      slot.box.append(slot.about);
    }
    const parts = [`${told.rate_hz.toFixed(1)}/s`, `${bytes(told.bytes_per_s)}/s`, `${told.published} published`];
    if (told.age_s !== null) parts.push(`${age(told.age_s)} ago`);
    if (told.dropped) parts.push(`${told.dropped} dropped`);
    if (told.gaps) parts.push(`${told.gaps} gaps`);
    if (told.readers.length) parts.push(`read by ${told.readers.join(", ")}`);
    put(slot.about, `topic: ${parts.join(", ")}`);
  }

  begin() {  // all points are told anew
    for (const slot of this.values.values()) slot.plot?.clear();
  }

  take(values) {
    for (const [name, told] of Object.entries(values)) {
      const slot = this.values.get(name);
      if (!slot) continue;
      put(slot.shown, told.number === null ? told.text : `${told.number} ${slot.unit}`.trim());
      put(slot.error, told.error ? `cannot be read: ${told.error}` : "");
      if (told.points?.length) {
        slot.plot ??= new Plot(name);
        slot.plot.add(told.points);
        if (slot.plot.varies && !slot.plot.canvas.isConnected) slot.box.append(slot.plot.canvas);
      }
      if (told.image) {
        if (!slot.picture) {
          slot.picture = new Picture(name);
          slot.box.append(slot.picture.canvas);
        }
        slot.picture.show(told.image);
      }
    }
  }
}

function given(inputs) {
  const args = [], kwargs = {};
  let gap = false;
  for (const { each, field } of inputs) {
    if (field.value === "") gap = true;
    else if (gap && each.name) kwargs[each.name] = field.value;
    else args.push(field.value);
  }
  return { args, kwargs };
}
