// The address: `#/page/part/part?filter=value`. What is chosen is in it, so it can be sent to a colleague.
import { useEffect, useState } from "./html.mjs";

/** @returns {{page: string, parts: string[], query: URLSearchParams}} */
export function parseRoute(hash) {
  const [path, query = ""] = hash.replace(/^#\/?/, "").split("?");
  const [page = "", ...parts] = path.split("/").filter(Boolean).map(decode);
  return { page: page || "fleet", parts, query: new URLSearchParams(query) };
}

/** A part as it is meant; one that is wrongly encoded, as it stands. @param {string} part */
function decode(part) {
  try {
    return decodeURIComponent(part);
  } catch {
    return part;
  }
}

export function useRoute() {
  const [route, setRoute] = useState(parseRoute(location.hash));
  useEffect(() => {
    const listener = () => setRoute(parseRoute(location.hash));
    addEventListener("hashchange", listener);
    // The address may have changed since the first render.
    listener();
    return () => removeEventListener("hashchange", listener);
  }, []);
  return route;
}

/** An address of parts, each encoded. @param {...string} parts */
export function to(...parts) {
  return `#/${parts.map(encodeURIComponent).join("/")}`;
}

/** Change filters in the address without a new entry of the history. @param {Record<string, string>} changes */
export function setQuery(changes) {
  const { query } = parseRoute(location.hash);
  for (const [name, value] of Object.entries(changes)) {
    if (value) query.set(name, value);
    else query.delete(name);
  }
  const [path] = location.hash.split("?");
  const text = query.toString();
  history.replaceState(null, "", text ? `${path || "#/fleet"}?${text}` : path || "#/fleet");
  dispatchEvent(new HashChangeEvent("hashchange"));
}
