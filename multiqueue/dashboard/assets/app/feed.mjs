// One stream of Server-Sent Events, read with fetch: EventSource hides 401, 403 and 429.

const HIDDEN_MS = 60_000;
const FIRST_WAIT_MS = 1000;
const LONGEST_WAIT_MS = 30_000;
const SILENT_MS = 40_000;

/** An answer that ends the stream for good, or asks for a pause. */
class Refused extends Error {
  constructor(status, message, retryAfter) {
    super(message);
    this.status = status;
    this.retryAfter = retryAfter;
  }
}

export class Feed {
  /**
   * @param {import("./store.mjs").Store} store
   * @param {() => string} url The address of the stream; asked again for each connection.
   * @param {{onRefused?: (error: Refused) => boolean, quiet?: boolean}} options `onRefused` returns
   *   whether to try again at once; a quiet feed does not say how the connection is.
   */
  constructor(store, url, options = {}) {
    this.store = store;
    this.url = url;
    this.options = options;
    this.lastId = "";
    this.wait = FIRST_WAIT_MS;
    this.closed = false;
    this.abort = null;
    this.wake = () => {};
    this.onVisible = () => this.seen();
    this.onOnline = () => this.wake();
    document.addEventListener("visibilitychange", this.onVisible);
    addEventListener("online", this.onOnline);
    this.run();
  }

  close() {
    this.closed = true;
    document.removeEventListener("visibilitychange", this.onVisible);
    removeEventListener("online", this.onOnline);
    this.abort?.abort();
    this.wake();
  }

  seen() {
    clearTimeout(this.hiding);
    if (document.hidden) this.hiding = setTimeout(() => this.abort?.abort(), HIDDEN_MS);
    else this.wake();
  }

  async run() {
    while (!this.closed) {
      try {
        await this.readOnce();
        this.wait = FIRST_WAIT_MS;
      } catch (error) {
        if (this.closed) return;
        if (await this.handle(error)) continue;
      }
    }
  }

  /** @returns {Promise<boolean>} whether to go on */
  async handle(error) {
    if (error instanceof Refused && (error.status === 403 || error.status === 401)) {
      if (this.options.onRefused?.(error)) return true;
      this.say({ state: error.status === 401 ? "signed out" : "no right", text: error.message });
      await this.sleep(LONGEST_WAIT_MS);
      return true;
    }
    const asked = error instanceof Refused && error.retryAfter ? error.retryAfter * 1000 : 0;
    const pause = document.hidden ? LONGEST_WAIT_MS : Math.max(asked, Math.random() * this.wait);
    this.wait = Math.min(this.wait * 2, LONGEST_WAIT_MS);
    this.say({ state: "reconnecting", text: error.message, retryAt: Date.now() + pause });
    await this.sleep(pause);
    return true;
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
      if (parsed.code === "expired") throw new Refused(401, parsed.text, 0);
      return;
    }
    this.store.take(event, parsed);
    this.say({ state: "live", text: "", at: Date.now() });
  }
}

async function refusal(answer) {
  const wait = Number(answer.headers.get("Retry-After")) || 0;
  return new Refused(answer.status, await messageOf(answer), wait);
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
