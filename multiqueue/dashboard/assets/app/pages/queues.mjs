// ClusterQueues in numbers; one queue: who waits, in which order and why.
import { html, useEffect, useMemo } from "../html.mjs";
import { Actions } from "../actions.mjs";
import { FLEET } from "../api.mjs";
import { sumGpus } from "../draw/layout.mjs";
import { Feed } from "../feed.mjs";
import { readFleet } from "../fleet.mjs";
import { ago, amount, brief, count, number, safe } from "../format.mjs";
import { Figure, Look, QueueLink, Refusal, Start, Table, useNow } from "../parts.mjs";
import { to } from "../router.mjs";
import { Store, useStore } from "../store.mjs";

/** @param {{store: Store, parts: string[]}} props */
export function QueuesPage({ store, parts }) {
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
      { title: "Parked", right: true, cell: (q) => number(q.inadmissible) },
      { title: "Running", right: true, cell: (q) => number(q.admitted) },
      { title: "GPUs used", right: true, cell: (q) => `${number(q.gpus.used)} of ${number(q.gpus.nominal)}` },
      { title: "Borrowed", right: true, cell: (q) => number(q.gpus.borrowed) },
      { title: "Lent", right: true, cell: (q) => number(q.gpus.lent) },
      { title: "Share", right: true, cell: (q) => (q.share === null ? "-" : number(q.share / 1000)) },
    ]} /><//></main>`;
}

function QueuePage({ store, name }) {
  const now = useNow();
  const topic = `line:${name}`;
  const line = useLine(topic);
  const quota = store.topic("quotas").rows.get(`clusterqueue:${name}`);
  const gpus = quota ? sumGpus(quota.quotas) : null;
  const checked = [...store.topic("calibrations").rows.values()].filter((row) => row.judged > 0);
  return html`<main id="main"><div class="bar"><h1>Queue ${safe(name)}</h1>
      ${quota && html`<span class="soft">${quota.cohort ? `in cohort ${safe(quota.cohort.split(":").pop())}` : "without a cohort"}</span>`}<span class="push"></span><${Actions} ...${targetOf(name)} /></div>
    ${quota && !quota.active && html`<div class="refusal" role="status"><strong>Admits nothing</strong><p>${safe(quota.why)}</p></div>`}
    ${gpus && html`<div class="figures">
      <${Figure} value=${`${number(gpus.used)} of ${number(gpus.nominal)}`} words="GPUs of its quota in use" />
      <${Figure} value=${number(gpus.borrowed)} words="borrowed from others" /><${Figure} value=${number(gpus.lent)} words="lent to others" />
      <${Figure} value=${count(quota.pending, "job")} words=${`wait for ${count(quota.pendingGpus, "GPU")}`} />
      ${quota.share !== null && html`<${Figure} value=${number(quota.share / 1000)} words=${`share at weight ${quota.weight}`} />`}</div>`}
    <section class="card-like"><h2>Who waits, in order</h2>
      <${Look} topic=${line.topic(topic)} empty="Nobody waits.">
      <${Table} caption="Who waits, in order" rows=${[...line.topic(topic).rows.values()]} columns=${[
        { title: "#", right: true, cell: (row) => number(row.position) },
        { title: "Job", cell: (row) => (row.workload ? html`<a href=${to("jobs", ...row.workload.split("/"))}>${safe(row.workload)}</a>` : html`<span class="soft">a job of another team</span>`) },
        { title: "GPUs", right: true, cell: (row) => number(row.gpus) },
        { title: "Priority", right: true, cell: (row) => number(row.priority) },
        { title: "Waited", right: true, cell: (row) => ago(row.created, now) },
        { title: "Start", cell: (row) => html`<${Start} row=${row} now=${now} />` },
        { title: "State", cell: (row) => (row.parked ? html`<span class="soft" title="Something has to change before it is tried again">parked</span>` : "") },
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
  const titles = [["nominal", "Nominal"], ["used", "Used"], ["free", "Free"], ["borrowed", "Borrowed"], ["lent", "Lent"], ["borrowable", "Can borrow"], ["borrowingLimit", "Borrowing limit"], ["lendingLimit", "Lending limit"]];
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

function useLine(topic) {
  const store = useMemo(() => new Store(), [topic]);
  useEffect(() => {
    const feed = new Feed(store, () => `${FLEET}/feeds?watch=1&interval=1s&topics=${encodeURIComponent(topic)}`, {
      quiet: true,
      onRefused: (error) => { store.take("hello", { refused: [{ topic, code: error.status, message: error.message }] }); return false; },
    });
    return () => feed.close();
  }, [store]);
  return useStore(store);
}
