// What the feed said, by topic. Components subscribe; they are told once per animation frame.
import { useEffect, useState } from "./html.mjs";

/**
 * @typedef {object} Topic
 * @property {Map<string, any>} rows Rows by key: objects with the topic's columns.
 * @property {boolean} loaded Whether a whole snapshot has come.
 * @property {string} asOf When the manager said it.
 * @property {{code: number, message: string} | null} refused Why the reader may not see it.
 */

/** @returns {Topic} */
function emptyTopic() {
  return { rows: new Map(), loaded: false, asOf: "", refused: null };
}

export class Store {
  constructor() {
    /** @type {Map<string, Topic>} */
    this.topics = new Map();
    this.columns = new Map();
    this.parts = new Map();
    this.link = { state: "connecting", text: "", retryAt: 0, reader: "", program: "" };
    this.listeners = new Set();
    this.paused = false;
    this.scheduled = false;
  }

  /** @param {string} name @returns {Topic} */
  topic(name) {
    return this.topics.get(name) ?? emptyTopic();
  }

  /** Take one frame of the feed. @param {string} event @param {any} data */
  take(event, data) {
    if (event === "hello") this.takeHello(data);
    else if (event === "snapshot") this.takeSnapshot(data);
    else if (event === "change") this.takeChange(data);
    this.changed();
  }

  takeHello(data) {
    Object.assign(this.link, { reader: data.reader, program: data.program, leading: data.leading });
    for (const { topic, code, message } of data.refused) {
      this.topics.set(topic, { ...emptyTopic(), refused: { code, message } });
    }
  }

  takeSnapshot(data) {
    this.columns.set(data.topic, data.columns);
    const rows = data.part === 1 ? new Map() : this.parts.get(data.topic) ?? new Map();
    for (const row of data.rows) rows.set(String(row[0]), zip(data.columns, row));
    this.parts.set(data.topic, rows);
    if (data.part === data.parts) {
      this.topics.set(data.topic, { rows, loaded: true, asOf: data.asOf, refused: null });
      this.parts.delete(data.topic);
    }
  }

  takeChange(data) {
    const columns = this.columns.get(data.topic);
    const topic = this.topics.get(data.topic);
    if (!columns || !topic) return;
    // A line or a story comes as a whole with each change; it is empty once its object is gone.
    const rows = /^(line|story):/.test(data.topic) ? new Map() : topic.rows;
    for (const row of data.rows) rows.set(String(row[0]), { ...zip(columns, row), fresh: Date.now() });
    for (const key of data.gone) rows.delete(String(key));
    this.topics.set(data.topic, { ...topic, rows, asOf: data.asOf });
  }

  setLink(change) {
    Object.assign(this.link, change);
    this.changed();
  }

  setPaused(paused) {
    this.paused = paused;
    this.changed(true);
  }

  changed(force = false) {
    if (this.scheduled || (this.paused && !force)) return;
    this.scheduled = true;
    const tell = () => {
      this.scheduled = false;
      for (const listener of this.listeners) listener();
    };
    if (document.hidden) setTimeout(tell, 250);
    else requestAnimationFrame(tell);
  }
}

function zip(columns, row) {
  const object = {};
  columns.forEach((name, index) => { object[name] = row[index]; });
  return object;
}

/** Render again with every change of the store. @param {Store} store */
export function useStore(store) {
  const [, setTick] = useState(0);
  useEffect(() => {
    const listener = () => setTick((tick) => tick + 1);
    store.listeners.add(listener);
    listener();
    return () => { store.listeners.delete(listener); };
  }, [store]);
  return store;
}
