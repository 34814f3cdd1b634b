// The connection to the monitor: who one is, the lab as it changes, what is asked for.

export async function ask(path, body) {
  const options = body === undefined ? {} : {
    method: "POST", headers: { "content-type": "application/json" }, body: JSON.stringify(body),
  };
  let answer;
  try {
    answer = await fetch(path, { ...options, credentials: "same-origin" });
  } catch {
    return { error: "the monitor does not answer", status: 0 };
  }
  const told = await answer.json().catch(() => ({ error: `status ${answer.status}` }));
  return { ...told, status: answer.status };
}

export async function enter() {
  const token = new URLSearchParams(location.hash.slice(1)).get("token");
  if (token) {
    history.replaceState(null, "", location.pathname);
    await ask("/login", { token });
  }
  return ask("/session");
}

export class Events {
  constructor(onNews, onState, onEnd) {
    this.onNews = onNews;
    this.onState = onState;
    this.onEnd = onEnd;
    this.open = [];
    this.socket = null;
    this.heard = 0;
    this.begin();
    this.checking = setInterval(() => this.check(), 1000);
  }

  begin() {
    const socket = new WebSocket(`${location.protocol === "https:" ? "wss" : "ws"}://${location.host}/events`);
    this.socket = socket;
    this.first = true;
    socket.onopen = () => this.say();
    socket.onmessage = (event) => {
      this.heard = performance.now();
      this.onState(true);
      this.onNews(JSON.parse(event.data), this.first);
      this.first = false;
    };
    socket.onclose = () => {
      this.onState(false);
      setTimeout(() => this.again(), 1500);
    };
  }

  async again() {
    const session = await ask("/session");
    if (session.status !== 401) return this.begin();
    clearInterval(this.checking);  // the monitor does answer, and asks who one is
    this.onEnd();
  }

  check() {
    if (performance.now() - this.heard > 3000) this.onState(false);
  }

  say() {
    if (this.socket.readyState === WebSocket.OPEN) this.socket.send(JSON.stringify({ open: this.open }));
  }

  watch(names) {
    this.open = names;
    this.say();
  }
}
