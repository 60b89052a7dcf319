// Who waits, whose quota is used by whom, what runs where, and what needs somebody.
import { html } from "../html.mjs";
import { Picture, stateOf } from "../draw/picture.mjs";
import { readFleet, standingsOf } from "../fleet.mjs";
import { ago, brief, clock, count, number, safe, startWords } from "../format.mjs";
import { Figure, JobLink, Look, Phase, QueueLink, Refusal, Table, Team, useNow, WorkerLink } from "../parts.mjs";
import { setQuery } from "../router.mjs";

const LATEST = 12;

/** @param {{store: import("../store.mjs").Store, query: URLSearchParams}} props */
export default function FleetPage({ store, query }) {
  const now = useNow();
  const fleet = readFleet(store);
  const asTable = query.get("as") === "table";
  const quotas = store.topic("quotas");
  // Until all of it is there, nobody can say that nobody waits.
  const drawn = findUnread([standingsOf(store), store.topic("workers")]) ?? quotas;
  // Who may see one namespace sees its jobs, and what is missing for the rest.
  if (quotas.refused) return html`<main id="main"><h1 class="hidden">Fleet</h1><${Lately} store=${store} now=${now} /><${Refusal} ...${quotas.refused} /></main>`;
  return html`<main id="main">
    <h1 class="hidden">Fleet</h1>
    <${Head} store=${store} now=${now} fleet=${fleet} />
    <section class="card-like" aria-label="The fleet">
      <div class="bar"><h2>Who waits, whose quota is used, what runs where</h2>
        <button onClick=${() => setQuery({ as: asTable ? "" : "table" })}>${asTable ? "picture" : "table"} <kbd>t</kbd></button></div>
      <${Look} topic=${drawn} empty="There is no ClusterQueue yet: kubectl apply -k config/samples makes some.">
        ${asTable ? html`<${AsTable} fleet=${fleet} />` : html`<${Picture} fleet=${fleet} />`}<//>
      <${Legend} />
    </section>
    <div class="columns">
      <${Needs} fleet=${fleet} topics=${[store.topic("workers"), quotas]} />
      <${Lately} store=${store} now=${now} />
    </div>
  </main>`;
}

function Head({ store, now, fleet }) {
  const topic = store.topic("totals");
  const total = topic.rows.get("fleet");
  if (topic.refused) return html`<${Refusal} ...${topic.refused} />`;
  if (!total) return html`<div class="figures loading" role="status"></div>`;
  const next = total.nextStart ? clock(total.nextStart, false) : "not known";
  const largest = fleet.jobs.filter((job) => job.position).sort((a, b) => b.gpus - a.gpus)[0];
  return html`<div class="figures">
    <${Figure} value=${`${number(total.used)} of ${number(total.gpus)}`} words=${`GPUs in use${total.borrowed ? `, ${total.borrowed} of them borrowed` : ""}`} />
    <${Figure} value=${number(total.free)} words="free" tone=${total.free && total.waiting ? "warn" : ""} />
    <${Figure} value=${count(total.waiting, "job")} words=${total.waiting ? `waiting for ${count(total.waitingGpus, "GPU")}, longest ${ago(total.oldest, now)}` : "waiting"} />
    ${largest && html`<${Figure} value=${count(largest.gpus, "GPU")} words=${html`largest gang that waits: <${JobLink} row=${largest} />, for ${ago(largest.created, now)}; start: ${startWords(largest.start, now) || "not known"}`} />`}
    <${Figure} value=${next} words="next start foreseen" />
  </div>`;
}

function Legend() {
  const entries = [["own", "own quota in use"], ["borrowed", "borrowed"], ["lent", "lent"], ["free", "free"]];
  return html`<p class="legend" aria-hidden="true">
    ${entries.map(([part, words]) => html`<span><svg width="16" height="16"><rect class=${`cell ${part} team-0`} x="1" y="1" width="14" height="14" rx="3" /></svg> ${words}</span>`)}
    <span class="soft">One square is one GPU; its colour is the team. Ribbons go from who lends to who borrows, pro rata.</span>
  </p>`;
}

function AsTable({ fleet }) {
  return html`<${Table} caption="Quota of GPUs by queue" rows=${fleet.queues} columns=${[
    { title: "Queue", cell: (q) => html`<${QueueLink} name=${q.name} />` },
    { title: "Nominal", right: true, cell: (q) => number(q.gpus.nominal) },
    { title: "Used", right: true, cell: (q) => number(q.gpus.used) },
    { title: "Borrowed", right: true, cell: (q) => number(q.gpus.borrowed) },
    { title: "Lent", right: true, cell: (q) => number(q.gpus.lent) },
    { title: "Free", right: true, cell: (q) => number(q.gpus.free) },
    { title: "Waiting", right: true, cell: (q) => `${number(q.pending)} (${count(q.pendingGpus, "GPU")})` },
  ]} />
  <${Table} caption="Who lends to whom" rows=${fleet.flows.map((flow) => ({ ...flow, key: flow.lender + flow.borrower }))} columns=${[
    { title: "Lends", cell: (f) => safe(f.lender.split(":").pop()) },
    { title: "Borrows", cell: (f) => safe(f.borrower.split(":").pop()) },
    { title: "GPUs", right: true, cell: (f) => number(f.amount) },
  ]} />
  <${Table} caption="Clusters" rows=${fleet.workers} columns=${[
    { title: "Cluster", cell: (w) => html`<${WorkerLink} name=${w.key} />` },
    { title: "State", cell: (w) => stateOf(w)[0] },
    { title: "GPUs", right: true, cell: (w) => number(w.gpus) },
    { title: "Used", right: true, cell: (w) => number(w.used) },
    { title: "Jobs", right: true, cell: (w) => number(w.running) },
  ]} />`;
}

/** What needs a person: workers and queues that do not do their work. */
export function findNeeds(fleet) {
  const workers = fleet.workers.flatMap((worker) => {
    const [state, tone] = stateOf(worker);
    const own = tone === "good" ? [] : [{ key: worker.key, kind: "worker", name: worker.key, what: state, why: worker.why || worker.trouble || worker.use?.message || worker.use?.reason || "" }];
    return [...own, ...(worker.warnings ?? []).map((warning, index) => ({ key: `${worker.key}${index}`, kind: "worker", name: worker.key, what: "warning", why: typeof warning === "string" ? warning : warning.message ?? "" }))];
  });
  const queues = fleet.queues.filter((queue) => !queue.active)
    .map((queue) => ({ key: queue.key, kind: "queue", name: queue.name, what: "admits nothing", why: queue.why }));
  return [...workers, ...queues];
}

/** The first topic whose rows have not come yet. */
function findUnread(topics) {
  return topics.find((topic) => !topic.loaded && !topic.refused);
}

function Needs({ fleet, topics }) {
  if (findUnread(topics)) return html`<section class="card-like"><h2>Needs somebody</h2><div class="loading"></div></section>`;
  const needs = findNeeds(fleet);
  return html`<section class="card-like"><h2>Needs somebody</h2>
    ${needs.length === 0 ? html`<p class="empty">Nothing.</p>` : html`<ul class="needs">${needs.map((need) => html`<li key=${need.key}>
      <span class="glyph is-failed" aria-hidden="true">!</span>
      ${need.kind === "worker" ? html`<${WorkerLink} name=${need.name} />` : html`<${QueueLink} name=${need.name} />`} <strong>${safe(need.what)}</strong>
      <div class="soft">${safe(need.why)}</div></li>`)}</ul>`}
  </section>`;
}

function Lately({ store, now }) {
  const topic = standingsOf(store);
  const rows = [...topic.rows.values()].sort((a, b) => (b.since ?? "").localeCompare(a.since ?? "")).slice(0, LATEST);
  return html`<section class="card-like"><h2>Lately</h2>
    <${Look} topic=${topic} empty="No jobs yet. multiqueue submit -f job.yaml submits one.">
      <ul class="lately">${rows.map((row) => html`<li key=${row.key}>
        <time title=${`${ago(row.since, now)} ago`}>${clock(row.since)}</time> <${Phase} phase=${row.phase} />
        <span><${JobLink} row=${row} /> <span class="soft">${count(row.gpus, "GPU")}</span> <${Team} team=${row.team} />
        ${row.worker && html` <span class="soft">on</span> <${WorkerLink} name=${row.worker} />`}
        ${row.why && html`<span class="soft why" title=${safe(row.why)}>${safe(brief(row.why))}</span>`}</span></li>`)}</ul><//>
  </section>`;
}
