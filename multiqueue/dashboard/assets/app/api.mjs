// Single questions to the API, and single topics, beside the feed of the fleet.
import { useEffect, useMemo, useState } from "./html.mjs";
import { ask, Feed, messageOf } from "./feed.mjs";
import { Store, useStore } from "./store.mjs";

export const FLEET = "apis/fleet.multiqueue.dev/v1alpha1";
/** What the page sends with each action and the logout (empty: nothing), whether it has actions, how often the reader logged in, and what to do if a login is needed. */
export const session = { action: "", acts: true, logins: 0, ended: null };
const REMOTE = "apis/remote.multiqueue.dev/v1alpha1";

/** The path of something of a job. @param {string} name `namespace/name` of its Workload. @param {string} what */
export function remotePath(name, what) {
  const [namespace, workload] = name.split("/").map(encodeURIComponent);
  return `${REMOTE}/namespaces/${namespace}/workloads/${workload}/${what}`;
}

/** POST JSON with what shows that this page sends it. @param {string} path @param {string} body @param {AbortSignal} [signal] */
export function send(path, body, signal) {
  return ask(path, { method: "POST", body, signal, headers: { "Content-Type": "application/json", "X-Multiqueue-Action": session.action } });
}

/** Ask once, and again every `seconds` and after a login; a question with a `body` is sent as POST, an `action` only once. @returns {{data: any, error: {code: number, message: string} | null, again: () => void}} */
export function useAnswer(path, seconds = 0, body = "", action = false) {
  const [answer, setAnswer] = useState({ data: null, error: null });
  const [round, setRound] = useState(0);
  useEffect(() => {
    const abort = new AbortController();
    let timer = 0;
    const load = async () => {
      try {
        const response = await (body ? send(path, body, abort.signal) : ask(path, { signal: abort.signal }));
        if (response.ok) setAnswer({ data: await response.json(), error: null });
        else if (response.status === 401 && session.ended) {
          session.ended();
          if (action) setAnswer({ data: null, error: { code: 401, message: "nothing was done, because the login had ended" } });
        } else setAnswer({ data: null, error: { code: response.status, message: await messageOf(response) } });
      } catch (error) {
        if (abort.signal.aborted) return;
        setAnswer((known) => ({ ...known, error: { code: 0, message: `the manager cannot be reached: ${error.message}` } }));
      }
      if (seconds) timer = setTimeout(load, seconds * 1000);
    };
    load();
    return () => { abort.abort(); clearTimeout(timer); };
  }, [path, body, round, action ? 0 : session.logins]);
  return { ...answer, again: () => setRound(round + 1) };
}

/** Follow one topic by a feed of its own. @param {string} topic @param {string} [namespace] That of the topic, if the reader need not see others. @returns {import("./store.mjs").Topic} */
export function useTopic(topic, namespace) {
  const store = useMemo(() => new Store(), [topic]);
  useEffect(() => {
    const where = namespace ? `/namespaces/${encodeURIComponent(namespace)}` : "";
    const url = `${FLEET}${where}/feeds?watch=1&interval=1s&topics=${encodeURIComponent(topic)}`;
    const feed = new Feed(store, () => url, {
      quiet: true,
      onRefused: ({ status, message }) => { if (status !== 401) store.take("hello", { refused: [{ topic, code: status, message }] }); return false; },
    });
    return () => feed.close();
  }, [store]);
  return useStore(store).topic(topic);
}
