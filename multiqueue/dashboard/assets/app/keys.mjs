// Keys. None fires in a field or with a modifier.
import { parseRoute, setQuery } from "./router.mjs";

export const PAGES = { f: "fleet", q: "queues", u: "quota", j: "jobs", c: "clusters", y: "fairness", s: "usage", h: "changes", w: "what-if" };
export const HELP = [
  ["/", "search"], ["g then f q u j c y s h w", "go to Fleet, Queues, Quota, Jobs, Clusters, Fairness, Usage, Changes, What if"],
  ["j k", "next and previous job, with its panel"], ["t", "picture or table"], ["p", "pause, and go on"],
  ["d", "light, dark, or as the system"], ["?", "these keys"], ["Esc", "close"],
];

/** @param {{onHelp: () => void, onPause: () => void, onTheme: () => void, onEscape: () => void}} actions */
export function listen(actions) {
  let going = false;
  const listener = (event) => {
    if (event.ctrlKey || event.metaKey || event.altKey) return;
    if (event.target.closest?.("input, select, textarea")) return;
    if (going && PAGES[event.key]) location.hash = `#/${PAGES[event.key]}`;
    else if (event.key === "/") { dispatchEvent(new Event("search-wanted")); event.preventDefault(); }
    else if (event.key === "?") actions.onHelp();
    else if (event.key === "p") actions.onPause();
    else if (event.key === "d") actions.onTheme();
    else if (event.key === "t") setQuery({ as: parseRoute(location.hash).query.get("as") ? "" : "table" });
    else if (event.key === "Escape") { actions.onEscape(); setQuery({ open: "" }); }
    going = event.key === "g";
  };
  addEventListener("keydown", listener);
  return () => removeEventListener("keydown", listener);
}
