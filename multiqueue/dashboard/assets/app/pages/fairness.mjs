// How the queues share: share, past usage, for how long a queue waited below its own quota.
import { html } from "../html.mjs";
import { duration, number, safe } from "../format.mjs";
import { Look, QueueLink, Table } from "../parts.mjs";

/** @param {{store: import("../store.mjs").Store}} props */
export default function FairnessPage({ store }) {
  const topic = store.topic("shares");
  const rows = [...topic.rows.values()].sort((a, b) => (a.rank ?? 1e9) - (b.rank ?? 1e9) || a.key.localeCompare(b.key));
  const fair = rows.some((row) => row.share !== null);
  return html`<main id="main"><div class="bar"><h1>Fairness</h1><span class="soft">${fair ? "who is served next has the lowest share" : "fair sharing is off: shares are not computed"}</span></div>
    <${Look} topic=${topic} empty="There is no ClusterQueue yet.">
    <${Table} caption="Shares" rows=${rows} columns=${[
      { title: "Queue", cell: (row) => html`<${QueueLink} name=${row.key} />` }, { title: "Cohort", cell: (row) => safe(row.cohort ?? "-") },
      ...(fair ? [
        { title: "Served", right: true, cell: (row) => (row.rank ? number(row.rank) : "-") },
        { title: "Weight", right: true, cell: (row) => number(row.weight) },
        { title: "Share", right: true, cell: (row) => (row.share === null ? "-" : number(row.share / 1000)) },
      ] : []),
      { title: "Waiting", right: true, cell: (row) => number(row.waiting) },
      { title: "Starved", right: true, cell: (row) => (row.starvedSeconds ? html`<strong>${duration(row.starvedSeconds)}</strong>` : "-") },
      { title: "GPUs in the last 24 h", wide: true, cell: (row) => html`<${Spark} minutes=${row.minutes ?? []} name=${row.key} />` },
    ]} /><//>
    <p class="soft">A queue is starved while its first job waits and it uses less than its own nominal quota.</p></main>`;
}

/** GPUs in use over time, as a small line. */
function Spark({ minutes, name }) {
  if (minutes.length < 2) return html`<span class="soft">not enough history yet</span>`;
  const most = Math.max(1, ...minutes.map((minute) => minute.gpus));
  const points = minutes.map((minute, index) => `${(index / (minutes.length - 1)) * 200},${26 - (minute.gpus / most) * 24}`).join(" ");
  return html`<svg class="spark" width="200" height="28" role="img" aria-label=${`${safe(name)} used up to ${most} GPUs`}><polyline points=${points} /></svg>`;
}
