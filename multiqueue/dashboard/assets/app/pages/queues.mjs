// ClusterQueues in numbers; one queue: who waits, in which order and why.
import { html } from "../html.mjs";
import { Actions } from "../actions.mjs";
import { useTopic } from "../api.mjs";
import { sumGpus } from "../draw/layout.mjs";
import { readFleet } from "../fleet.mjs";
import { ago, amount, brief, count, number, safe } from "../format.mjs";
import { Figure, JobLink, Look, QueueLink, Refusal, Start, Table, useNow } from "../parts.mjs";

/** @param {{store: import("../store.mjs").Store, parts: string[]}} props */
export default function QueuesPage({ store, parts }) {
  return parts.length ? html`<${QueuePage} key=${parts.join("/")} store=${store} name=${parts.join("/")} />` : html`<${AllQueues} store=${store} />`;
}

function AllQueues({ store }) {
  const fleet = readFleet(store);
  return html`<main id="main"><h1>Queues</h1>
    <${Look} topic=${store.topic("quotas")} empty="There is no ClusterQueue yet: kubectl apply -k config/samples makes some.">
    <${Table} caption="Queues" rows=${fleet.queues} columns=${[
      { title: "Queue", cell: (q) => html`<${QueueLink} name=${q.name} />` },
      { title: "Cohort", cell: (q) => safe((q.cohort ?? "-").split(":").pop()) },
      { title: "State", cell: (q) => (q.active ? "active" : html`<strong title=${safe(q.why)}>admits nothing</strong>`) },
      { title: "Waiting", right: true, cell: (q) => number(q.pending) },
      { title: "Admitted", right: true, cell: (q) => number(q.admitted) },
      { title: "GPUs used", right: true, cell: (q) => `${number(q.gpus.used)} of ${number(q.gpus.nominal)}` },
      { title: "Borrowed", right: true, cell: (q) => number(q.gpus.borrowed) },
      { title: "Lent", right: true, cell: (q) => number(q.gpus.lent) },
      { title: "Share", right: true, cell: (q) => (q.share === null ? "-" : number(q.share / 1000)) },
    ]} /><//></main>`;
}

function QueuePage({ store, name }) {
  const now = useNow();
  const line = useTopic(`line:${name}`);
  const quota = store.topic("quotas").rows.get(`clusterqueue:${name}`);
  const gpus = quota ? sumGpus(quota.quotas) : null;
  const waiting = [...line.rows.values()].map((row) => ({ ...row, key: row.workload ?? `#${row.position}` }));
  const checked = [...store.topic("calibrations").rows.values()].filter((row) => row.judged > 0);
  return html`<main id="main"><div class="bar"><h1>Queue ${safe(name)}</h1>
      ${quota && html`<span class="soft">${quota.cohort ? `in cohort ${safe(quota.cohort.split(":").pop())}` : "without a cohort"}</span>`}<span class="push"></span><${Actions} ...${targetOf(name)} /></div>
    ${quota && !quota.active && html`<div class="refusal" role="status"><strong>Admits nothing</strong><p>${safe(quota.why)}</p></div>`}
    ${gpus && html`<div class="figures">
      <${Figure} value=${`${number(gpus.used)} of ${number(gpus.nominal)}`} words="GPUs of its quota in use" />
      <${Figure} value=${number(gpus.borrowed)} words="borrowed from others" /><${Figure} value=${number(gpus.lent)} words="lent to others" />
      <${Figure} value=${count(quota.pending, "job")} words=${`waiting for ${count(quota.pendingGpus, "GPU")}`} />
      ${quota.share !== null && html`<${Figure} value=${number(quota.share / 1000)} words=${`share at weight ${quota.weight}`} />`}</div>`}
    <section class="card-like"><h2>Who waits, in order</h2>
      <${Look} topic=${line} empty="Nobody waits.">
      <${Table} caption="Who waits, in order" rows=${waiting} columns=${[
        { title: "#", right: true, cell: (row) => number(row.position) },
        { title: "Job", cell: (row) => (row.workload ? html`<${JobLink} row=${row} />` : html`<span class="soft">a job of another team</span>`) },
        { title: "GPUs", right: true, cell: (row) => number(row.gpus) },
        { title: "Priority", right: true, cell: (row) => number(row.priority) },
        { title: "Waited", right: true, cell: (row) => ago(row.created, now) },
        { title: "Start", cell: (row) => html`<${Start} row=${row} now=${now} />` },
        ...(waiting.some((row) => row.parked) ? [{ title: "State", cell: (row) => (row.parked ? html`<span class="soft" title="Something has to change before it is tried again">parked</span>` : "") }] : []),
        { title: "Why", wide: true, cell: (row) => html`<span title=${safe(row.why ?? "")}>${safe(brief(row.why ?? ""))}</span>` },
      ]} /><//>
      ${checked.length > 0 && html`<p class="soft" id="calibration">How starts were estimated: ${safe(checked.map((row) => row.words).join("; "))}.</p>`}</section>
    ${quota && html`<section class="card-like"><h2>Quota</h2><${QuotaTable} quota=${quota} /></section>`}
    ${!quota && store.topic("quotas").refused && html`<${Refusal} ...${store.topic("quotas").refused} />`}
  </main>`;
}

/** The quota of a queue or cohort by flavor and resource. @param {{quota: any}} props */
export function QuotaTable({ quota }) {
  const rows = quota.quotas.map((each) => ({ ...each, key: each.flavor + each.resource }));
  const cell = (field) => (row) => amount(row.resource, row[field]);
  const titles = [["nominal", "Nominal"], ["used", "Used"], ["free", "Free"], ["borrowed", "Borrowed"], ["lent", "Lent"], ["borrowable", "Can borrow"],
    ...[["borrowingLimit", "Borrowing limit"], ["lendingLimit", "Lending limit"]].filter(([field]) => rows.some((row) => row[field] !== null))];
  return html`<${Table} caption="Quota by flavor and resource" rows=${rows} columns=${[
    { title: "Flavor", cell: (row) => safe(row.flavor) }, { title: "Resource", cell: (row) => safe(row.resource) },
    ...titles.map(([field, title]) => ({ title, right: true, cell: cell(field) })),
  ]} />`;
}

/** A LocalQueue has its namespace before its name. */
function targetOf(name) {
  const [namespace, local] = name.split("/");
  return local ? { kind: "localqueues", namespace, name: local } : { kind: "clusterqueues", name };
}
