// All jobs that the reader may see.
import { html, useLayoutEffect } from "../html.mjs";
import { standingsOf } from "../fleet.mjs";
import { ago, brief, count, HOLDS, number, PHASES, safe, WAITS } from "../format.mjs";
import { Grid, sorted } from "../grid.mjs";
import { Choice, JobLink, jobName, Look, Phase, QueueLink, Start, Team, useNow, WorkerLink } from "../parts.mjs";
import { setQuery } from "../router.mjs";
import { JobView } from "./job.mjs";

const ORDER = Object.keys(PHASES);
const BY = {
  phase: (row) => ORDER.indexOf(row.phase),
  job: (row) => jobName(row),
  start: (row) => row.start?.at ?? row.since,
};

/** @param {{store: import("../store.mjs").Store, query: URLSearchParams}} props */
export default function JobsPage({ store, query }) {
  const now = useNow();
  const topic = standingsOf(store);
  const all = [...topic.rows.values()];
  const sort = query.get("sort") ?? "-created";
  const rows = sorted(filter(all, query), sort, BY);
  const chosen = query.get("open") ?? "";
  useWalk(rows, chosen);
  return html`<main id="main" class=${chosen ? "with-panel" : ""}>
    <div class="bar"><h1>Jobs</h1><span class="soft">${sums(rows, all)}</span><span class="push"></span>
      <button onClick=${() => download(rows)}>CSV</button></div>
    <${Filters} all=${all} query=${query} />
    <${Look} topic=${topic} empty="No jobs in a queue here. multiqueue submit -f job.yaml submits one.">
      <div class="split">
        <${Grid} label="Jobs" rows=${rows} sort=${sort} onSort=${(key) => setQuery({ sort: key })} chosen=${chosen}
          onChoose=${(key) => setQuery({ open: key === chosen ? "" : key })} columns=${columns(now)} />
        ${chosen && html`<aside aria-label="The chosen job"><div class="bar"><span class="push"></span>
          <button aria-label="Close" onClick=${() => setQuery({ open: "" })}>✕</button></div>
          <${JobView} key=${chosen} name=${chosen} panel=${true} /></aside>`}
      </div><//>
  </main>`;
}

/** The columns of tables of jobs. @param {number} now */
export function columns(now) {
  return [
    { title: "Job", sort: "job", cell: (row) => html`<${JobLink} row=${row} />` },
    { title: "Team", sort: "team", cell: (row) => html`<${Team} team=${row.team} />` },
    { title: "Queue", sort: "clusterQueue", cell: (row) => html`<${QueueLink} name=${row.clusterQueue} />` },
    { title: "GPUs", sort: "gpus", right: true, cell: (row) => number(row.gpus) },
    { title: "Phase", sort: "phase", cell: (row) => html`<${Phase} phase=${row.phase} />` },
    { title: "Place", sort: "position", right: true, cell: (row) => (row.position ? number(row.position) : "") },
    { title: "Worker", sort: "worker", cell: (row) => html`<${WorkerLink} name=${row.worker} />` },
    { title: "Start, or since", sort: "start", cell: (row) => (row.start ? html`<${Start} row=${row} now=${now} />` : `since ${ago(row.since, now)}`) },
    { title: "Why", wide: true, cell: (row) => html`<span title=${safe(row.why)}>${safe(brief(row.why))}</span>` },
  ];
}

function filter(all, query) {
  const phase = query.get("phase");
  const text = (query.get("q") ?? "").toLowerCase();
  return all.filter((row) => (!phase || row.phase === phase)
    && ["team", "clusterQueue", "worker"].every((field) => !query.get(field) || row[field] === query.get(field))
    && (!text || row.key.toLowerCase().includes(text) || jobName(row).toLowerCase().startsWith(text)));
}

function Filters({ all, query }) {
  const values = (field) => [...new Set(all.map((row) => row[field]).filter(Boolean))].sort();
  const select = (field, title, options, name = (value) => value) => html`<${Choice} title=${title} value=${query.get(field) ?? ""}
    options=${[["", "all"], ...options.map((value) => [value, name(value)])]} onChoose=${(chosen) => setQuery({ [field]: chosen })} />`;
  const counts = new Map();
  for (const row of all) counts.set(row.phase, (counts.get(row.phase) ?? 0) + 1);
  return html`<div class="filters" role="search">
    <label>Name <input type="search" value=${query.get("q") ?? ""} onInput=${(event) => setQuery({ q: event.target.value })} /></label>
    ${select("phase", "Phase", ORDER.filter((each) => counts.has(each)), (each) => `${PHASES[each][1]} (${counts.get(each)})`)}
    ${select("team", "Team", values("team"))}${select("clusterQueue", "Queue", values("clusterQueue"))}${select("worker", "Worker", values("worker"))}
  </div>`;
}

function sums(rows, all) {
  const gpus = (phases) => rows.reduce((sum, row) => sum + (phases.has(row.phase) ? row.gpus : 0), 0);
  const of = rows.length === all.length ? "" : ` of ${number(all.length)}`;
  return `${count(rows.length, "job")}${of}: ${count(gpus(HOLDS), "GPU")} held, ${count(gpus(WAITS), "GPU")} waited for`;
}

/** j and k, or the arrows, walk through the rows that are shown, as soon as they are. */
function useWalk(rows, chosen) {
  useLayoutEffect(() => {
    const listener = (event) => {
      const step = { j: 1, ArrowDown: 1, k: -1, ArrowUp: -1 }[event.key];
      if (!step || event.ctrlKey || event.metaKey || event.altKey || event.target.closest("input, select, textarea")) return;
      if (!chosen && event.key.startsWith("Arrow")) return;
      const index = rows.findIndex((row) => row.key === chosen);
      const next = rows[Math.min(rows.length - 1, Math.max(0, index + step))];
      if (next) { setQuery({ open: next.key }); event.preventDefault(); }
    };
    addEventListener("keydown", listener);
    return () => removeEventListener("keydown", listener);
  });
}

function download(rows) {
  const fields = ["key", "job", "team", "clusterQueue", "gpus", "phase", "position", "worker", "created", "since", "code", "why"];
  const quote = (value) => `"${safe(value ?? "").replace(/"/g, '""').replace(/^([=+@-])/, "'$1")}"`;
  const text = [fields.join(","), ...rows.map((row) => fields.map((field) => quote(row[field])).join(","))].join("\n");
  const link = document.createElement("a");
  link.href = URL.createObjectURL(new Blob([text], { type: "text/csv" }));
  link.download = "jobs.csv";
  link.click();
  URL.revokeObjectURL(link.href);
}

