// One stream of Server-Sent Events, read with fetch: EventSource hides 401, 403 and 429.

const HIDDEN_MS = 60_000;
const FIRST_WAIT_MS = 1000;
const LONGEST_WAIT_MS = 30_000;
const SILENT_MS = 40_000;

export class Feed {
  /**
   * @param {import("./store.mjs").Store} store
   * @param {() => string} url The address of the stream; asked again for each connection.
   * @param {{onRefused?: (error: {status: number, message: string}) => boolean, quiet?: boolean}} options `onRefused` returns
   *   whether to try again at once; a quiet feed does not say how the connection is.
   */
  constructor(store, url, options = {}) {
    this.store = store;
    this.url = url;
    this.options = options;
    this.lastId = "";
    this.wait = FIRST_WAIT_MS;
    this.abort = null;
    this.wake = () => {};
    this.gone = new AbortController();
    const { signal } = this.gone;
    document.addEventListener("visibilitychange", () => this.seen(), { signal });
    addEventListener("online", () => this.wake(), { signal });
    // A login that has ended for a question has ended for the stream, too: it has to ask again.
    addEventListener("ended", () => this.abort?.abort(), { signal });
    this.run();
  }

  close() {
    this.gone.abort();
    this.abort?.abort();
    this.wake();
  }

  seen() {
    clearTimeout(this.hiding);
    if (document.hidden) this.hiding = setTimeout(() => this.abort?.abort(), HIDDEN_MS);
    else this.wake();
  }

  async run() {
    while (!this.gone.signal.aborted) {
      try {
        await this.readOnce();
        this.wait = FIRST_WAIT_MS;
      } catch (error) {
        if (!this.gone.signal.aborted) await this.handle(error);
      }
    }
  }

  async handle({ status, message, retryAfter = 0 }) {
    let pause = LONGEST_WAIT_MS;
    if (status === 403 || status === 401) {
      if (this.options.onRefused?.({ status, message })) return;
      this.say({ state: status === 401 ? "signed out" : "no right", text: message });
    } else {
      if (!document.hidden) pause = Math.max(retryAfter * 1000, Math.random() * this.wait);
      this.wait = Math.min(this.wait * 2, LONGEST_WAIT_MS);
      this.say({ state: "reconnecting", text: message, retryAt: Date.now() + pause });
    }
    await this.sleep(pause);
  }

  sleep(ms) {
    return new Promise((resolve) => {
      const timer = setTimeout(resolve, ms);
      this.wake = () => { clearTimeout(timer); resolve(undefined); };
    });
  }

  say(change) {
    if (!this.options.quiet) this.store.setLink(change);
  }

  async readOnce() {
    this.abort = new AbortController();
    const headers = { Accept: "text/event-stream" };
    if (this.lastId) headers["Last-Event-ID"] = this.lastId;
    const answer = await ask(this.url(), { headers, signal: this.abort.signal });
    if (!answer.ok || !answer.body) throw await refusal(answer);
    this.say({ state: "catching up", text: "" });
    const reader = answer.body.pipeThrough(new TextDecoderStream()).getReader();
    let rest = "";
    for (;;) {
      const alarm = setTimeout(() => this.abort?.abort(), SILENT_MS);
      const { value, done } = await reader.read().finally(() => clearTimeout(alarm));
      if (done) return;
      const blocks = (rest + value).split("\n\n");
      rest = blocks.pop() ?? "";
      for (const block of blocks) this.takeBlock(block);
    }
  }

  takeBlock(block) {
    let event = "";
    let data = "";
    for (const line of block.split("\n")) {
      if (line.startsWith("event:")) event = line.slice(6).trim();
      else if (line.startsWith("data:")) data += line.slice(5);
      else if (line.startsWith("id:")) this.lastId = line.slice(3).trim();
    }
    if (!event) return;
    const parsed = JSON.parse(data);
    if (event === "end") {
      // The next answer is 401, unless a proxy has renewed the login.
      if (parsed.code === "expired") this.say({ state: "renewing" });
      return;
    }
    this.store.take(event, parsed);
    this.say({ state: "live", text: "", at: Date.now() });
  }
}

/** An answer that ends the stream for good, or asks for a pause. */
async function refusal(answer) {
  return Object.assign(new Error(await messageOf(answer)), { status: answer.status, retryAfter: Number(answer.headers.get("Retry-After")) || 0 });
}

/** Ask our server. It never redirects: whoever does is a proxy that wants a login. @param {string} path Relative to the base of the page. @param {RequestInit} [options] */
export async function ask(path, options) {
  const answer = await fetch(path, { cache: "no-store", redirect: "manual", ...options });
  return answer.type === "opaqueredirect" ? new Response(null, { status: 401 }) : answer;
}

/** The words of an error of the API server. @param {Response} answer */
export async function messageOf(answer) {
  try {
    return (await answer.json()).message || `${answer.status}`;
  } catch {
    return `${answer.status} ${answer.statusText}`;
  }
}
