// Worker clusters: what they have, what runs there, how they do.
import { html } from "../html.mjs";
import { Actions } from "../actions.mjs";
import { stateOf } from "../draw/picture.mjs";
import { readFleet, standingsOf } from "../fleet.mjs";
import { ago, HOLDS, number, safe } from "../format.mjs";
import { Figure, Look, Table, useNow, WorkerLink } from "../parts.mjs";
import { columns } from "./jobs.mjs";

/** @param {{store: import("../store.mjs").Store, parts: string[]}} props */
export default function ClustersPage({ store, parts }) {
  const now = useNow();
  const fleet = readFleet(store);
  if (parts.length) return html`<${ClusterPage} store=${store} name=${parts[0]} fleet=${fleet} now=${now} />`;
  return html`<main id="main"><h1>Clusters</h1>
    <${Look} topic=${store.topic("workers")} empty="No workers are registered: multiqueue clusters bootstrap NAME registers one.">
    <${Table} caption="Clusters" rows=${fleet.workers} columns=${[
      { title: "Cluster", cell: (w) => html`<${WorkerLink} name=${w.key} />` },
      { title: "State", cell: (w) => html`<${State} worker=${w} />` },
      { title: "For", right: true, cell: (w) => ago(w.since, now) },
      { title: "GPUs", right: true, cell: (w) => number(w.gpus) },
      { title: "Used", right: true, cell: (w) => number(w.used) },
      { title: "Free", right: true, cell: (w) => number(w.free) },
      { title: "Runs", right: true, cell: (w) => number(w.running) },
      { title: "Offered", right: true, cell: (w) => number(w.waiting) },
      { title: "Why", wide: true, cell: (w) => safe(w.why || w.trouble || w.use?.message || "") },
    ]} /><//></main>`;
}

function State({ worker }) {
  const [words, tone] = stateOf(worker);
  return html`<span class=${`state ${tone}`}>${words}</span>`;
}

function ClusterPage({ store, name, fleet, now }) {
  const worker = fleet.workers.find((each) => each.key === name);
  const there = fleet.jobs.filter((job) => job.worker === name && HOLDS.has(job.phase));
  const offered = fleet.jobs.filter((job) => !job.worker && (job.offeredTo ?? []).includes(name));
  return html`<main id="main"><div class="bar"><h1>Cluster ${safe(name)}</h1>${worker && html`<${State} worker=${worker} />
      <span class="push"></span><${Actions} kind="multikueueclusters" name=${name} />`}</div>
    <${Look} topic=${store.topic("workers")} empty="No workers are registered.">
    ${!worker ? html`<p class="empty">There is no worker of this name.</p>` : html`
      ${(worker.why || worker.trouble || worker.use?.message) && html`<div class="refusal" role="status"><p>${safe(worker.why || worker.trouble || worker.use.message)}</p></div>`}
      <div class="figures">
        <${Figure} value=${`${number(worker.used)} of ${number(worker.gpus)}`} words="GPUs in use" />
        <${Figure} value=${number(worker.free)} words="free: the largest job that fits now" />
        <${Figure} value=${worker.health === null ? "-" : `${Math.round(worker.health * 100)} %`} words="health" />
        <${Figure} value=${ago(worker.since, now)} words=${worker.connected ? "connected" : "out of reach"} />
      </div>
      <section class="card-like"><h2>Runs here</h2>${there.length ? html`<${Table} caption="Jobs that run here" rows=${there} columns=${columns(now).filter((c) => c.title !== "Worker" && c.title !== "Place")} />` : html`<p class="empty">Nothing of this manager.</p>`}</section>
      <section class="card-like"><h2>Offered to it</h2>${offered.length ? html`<${Table} caption="Jobs offered to it" rows=${offered} columns=${columns(now).filter((c) => c.title !== "Worker")} />` : html`<p class="empty">No job is offered to it now.</p>`}</section>
      <section class="card-like"><h2>Flavors</h2><${Table} caption="Flavors" rows=${(worker.flavors ?? []).map((f) => ({ ...f, key: f.flavor + f.resource }))} columns=${[
        { title: "Flavor", cell: (f) => safe(f.flavor) }, { title: "Resource", cell: (f) => safe(f.resource) },
        { title: "Total", right: true, cell: (f) => number(f.total) }, { title: "Used", right: true, cell: (f) => number(f.used) }, { title: "Free", right: true, cell: (f) => number(f.free) },
      ]} /></section>`}<//>
    ${standingsOf(store).refused && html`<p class="soft">Jobs of others are not shown: ${safe(standingsOf(store).refused.message)}</p>`}
  </main>`;
}
