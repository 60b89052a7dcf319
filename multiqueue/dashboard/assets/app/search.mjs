// Search by prefix over what the reader sees: jobs, queues, teams, workers.
import { html, useEffect, useRef, useState } from "./html.mjs";
import { readFleet } from "./fleet.mjs";
import { safe } from "./format.mjs";
import { jobName } from "./parts.mjs";
import { to } from "./router.mjs";

const MOST = 20;

/** @param {any} fleet @param {string} text @returns {{kind: string, name: string, href: string}[]} */
export function find(fleet, text) {
  const wanted = text.trim().toLowerCase();
  if (!wanted) return [];
  const fits = (name) => name.toLowerCase().startsWith(wanted);
  const found = [
    ...fleet.workers.filter((w) => fits(w.key)).map((w) => ({ kind: "cluster", name: w.key, href: to("clusters", w.key) })),
    ...fleet.queues.filter((q) => fits(q.name)).map((q) => ({ kind: "queue", name: q.name, href: to("queues", q.name) })),
    ...[...new Set(fleet.all.map((row) => row.team))].filter((team) => team && fits(team)).map((team) => ({ kind: "team", name: team, href: `#/jobs?team=${encodeURIComponent(team)}` })),
    ...fleet.all.filter((row) => fits(jobName(row)) || fits(row.key.split("/")[1])).map((row) => ({ kind: "job", name: jobName(row), href: to("jobs", ...row.key.split("/")) })),
  ];
  return found.slice(0, MOST);
}

/** @param {{store: import("./store.mjs").Store}} props */
export function Search({ store }) {
  const [text, setText] = useState("");
  const [open, setOpen] = useState(false);
  const box = useRef(null);
  useEffect(() => {
    const focus = () => box.current?.focus();
    addEventListener("search-wanted", focus);
    return () => removeEventListener("search-wanted", focus);
  }, []);
  const found = open ? find(readFleet(store), text) : [];
  const leave = () => { setText(""); setOpen(false); box.current?.blur(); };
  const keys = (event) => {
    if (event.key === "Escape") leave();
    if (event.key === "Enter" && found[0]) { location.hash = found[0].href; leave(); }
  };
  return html`<div class="search">
    <input ref=${box} type="search" placeholder="/ search" aria-label="Search jobs, queues, teams, clusters" value=${text}
      onInput=${(event) => { setText(event.target.value); setOpen(true); }} onFocus=${() => setOpen(true)} onKeyDown=${keys} onBlur=${() => setTimeout(() => setOpen(false), 200)} />
    ${open && text && html`<ul class="results" aria-label="Results">
      ${found.length === 0 && html`<li class="soft">nothing found</li>`}
      ${found.map((each) => html`<li key=${each.href}><a href=${each.href} onClick=${leave}><span class="soft">${each.kind}</span> ${safe(each.name)}</a></li>`)}</ul>`}
  </div>`;
}
