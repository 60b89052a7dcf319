// What a change would make different: a form that writes the change, and the manager's answer to it.
import { html, useState } from "../html.mjs";
import { FLEET, useAnswer } from "../api.mjs";
import { readFleet } from "../fleet.mjs";
import { brief, count, isAccelerator, number, safe } from "../format.mjs";
import { Figure, jobName, Look, Table } from "../parts.mjs";
import { setQuery, to } from "../router.mjs";

/** The changes of the form: words, and the line with its fields. */
const KINDS = {
  quota: ["Quota of a queue", "quota cq/{Queue} {Resource}={Quota}"],
  hold: ["Stop a queue", "hold cq/{Queue}"],
  drain: ["Drain a worker", "drain {Worker}"],
  add: ["Add a worker", "add {Name} {Flavor}={GPUs}"],
  priority: ["Priority of a job", "priority {Job}={Priority}"],
};
const FIRST = { Name: "new-worker", GPUs: "8", Priority: "1000" };
const EXAMPLES = ["quota cq/research nvidia.com/gpu=16", "borrowing-limit cq/research nvidia.com/gpu@a100=4", "weight cq/research=2", "strategy cq/research=StrictFIFO",
  "cohort cq/research=gpu-pool", "hold lq/team-a/research", "resume cq/research", "cordon worker-a100", "remove worker-a100", "cancel team-a/bert", "priority team-a/bert=1000"];
const GOOD = new Set(["starts now", "is not stopped", "waits less"]);
const BAD = new Set(["is stopped", "is stopped, starts again", "does not start now", "can never start", "waits longer"]);

/** @param {{store: import("../store.mjs").Store, query: URLSearchParams}} props */
export function WhatIfPage({ store, query }) {
  const asked = query.get("try") ?? "";
  const [text, setText] = useState(asked);
  const [round, setRound] = useState(0);
  const submit = (event) => {
    event.preventDefault();
    setQuery({ try: linesOf(text).join("\n") });
    setRound(round + 1);
  };
  return html`<main id="main"><div class="bar"><h1>What if</h1><span class="soft">The manager decides on a copy. Nothing is written.</span></div>
    <form class="card-like try" onSubmit=${submit}>
      <${Builder} fleet=${readFleet(store)} write=${setText} />
      <label class="lines">Changes, one a line<textarea rows=${Math.min(8, Math.max(2, text.split("\n").length))} spellcheck="false" value=${text}
        placeholder=${EXAMPLES[0]} onInput=${(event) => setText(event.target.value)}></textarea></label>
      <div class="bar"><button class="main" disabled=${!linesOf(text).length}>Try</button>
        <details><summary>All changes can be written, not only those above</summary><ul class="examples">${EXAMPLES.map((each) => html`<li>
          <button type="button" class="plain" onClick=${() => setText((known) => [...linesOf(known), each].join("\n"))}><code>${each}</code></button></li>`)}</ul></details></div>
    </form>
    ${asked ? html`<${Answer} key=${round} changes=${linesOf(asked)} />` : html`<p class="empty">Choose a change, or write one: who would start earlier, who later, who would be stopped?</p>`}</main>`;
}

/** Writes the line of one change from choices. */
function Builder({ fleet, write }) {
  const [kind, setKind] = useState("quota");
  const [given, setGiven] = useState({});
  const distinct = (values) => [...new Set(values)];
  const options = {
    Queue: fleet.queues.map((queue) => queue.name),
    Worker: fleet.workers.map((worker) => worker.key),
    Flavor: distinct(fleet.queues.flatMap((queue) => queue.quotas).filter((each) => isAccelerator(each.resource)).map((each) => each.flavor)),
    Job: fleet.jobs.map((job) => `${job.key.split("/")[0]}/${jobName(job)}`),
  };
  const value = (field) => {
    const known = given[field] ?? FIRST[field] ?? "";
    return options[field] && !options[field].includes(known) ? options[field][0] ?? "" : known;
  };
  const quotas = fleet.queues.find((queue) => queue.name === value("Queue"))?.quotas ?? [];
  const several = (one) => quotas.some((each) => each.resource === one.resource && each.flavor !== one.flavor);
  options.Resource = distinct([...quotas].sort((a, b) => isAccelerator(b.resource) - isAccelerator(a.resource)).map((each) => (several(each) ? `${each.resource}@${each.flavor}` : each.resource)));
  const fields = [...KINDS[kind][1].matchAll(/{(\w+)}/g)].map((found) => found[1]);
  const set = (field) => (event) => setGiven({ ...given, [field]: event.target.value });
  const add = () => write((known) => [...linesOf(known), KINDS[kind][1].replace(/{(\w+)}/g, (_, field) => value(field))].join("\n"));
  const select = (chosen, onChange, all) => html`<select value=${chosen} onChange=${onChange}>${all.map(([name, words]) => html`<option value=${name}>${safe(words)}</option>`)}</select>`;
  return html`<div class="filters"><label>Change ${select(kind, (event) => setKind(event.target.value), Object.entries(KINDS).map(([name, [words]]) => [name, words]))}</label>
    ${fields.map((field) => html`<label key=${field}>${field} ${options[field]
      ? select(value(field), set(field), options[field].map((each) => [each, each]))
      : html`<input type=${field === "Name" ? "text" : "number"} min="0" value=${value(field)} onInput=${set(field)} />`}</label>`)}
    <button type="button" disabled=${!fields.every(value)} onClick=${add}>Add</button></div>`;
}

const linesOf = (text) => text.split("\n").map((line) => line.trim()).filter(Boolean);

function Answer({ changes }) {
  const { data, error, again } = useAnswer(`${FLEET}/whatifs`, 0, JSON.stringify({ spec: { changes } }));
  const status = data?.status;
  const rows = (status?.workloads ?? []).map((row) => ({ ...row, ...(row.after ?? row.before), key: (row.after ?? row.before).workload }));
  const others = Object.entries(status?.others ?? {});
  const topic = { loaded: Boolean(data), refused: error && { ...error, retry: again }, rows: new Map([...rows, ...others].map((row, index) => [index, row])) };
  return html`<div aria-live="polite">${status && html`<ul class="done">${status.changes.map((each) => html`<li>${safe(each)}</li>`)}</ul>`}
    ${[...(status?.notes ?? []), status?.problem].filter(Boolean).map((note) => html`<p class="note">${safe(note)}</p>`)}
    <${Look} topic=${topic} empty="Nothing would change: the same jobs start, stop and wait.">
      ${status && html`<${Result} status=${status} rows=${rows} others=${others} />`}<//>
    ${status && html`<p class="soft">Not foreseen: ${status.leftOut.join("; ")}. The same for a file: <code>multiqueue snapshot -o fleet.snapshot; multiqueue replay fleet.snapshot${changes.map((each) => ` --what-if "${safe(each)}"`).join("")}</code></p>`}</div>`;
}

function Result({ status, rows, others }) {
  const { sums } = status;
  const pair = (each) => (each.before === each.after ? number(each.after) : `${number(each.before)} → ${number(each.after)}`);
  const hidden = others.reduce((sum, [, value]) => sum + value, 0);
  return html`<div class="figures">
      <${Figure} value=${number(sums.starts)} words="start now that would wait" />
      <${Figure} value=${number(sums.longer)} words=${sums.never ? `wait longer, ${number(sums.never)} of them for ever` : "wait longer"} tone=${sums.longer ? "warn" : ""} />
      <${Figure} value=${number(sums.stopped)} words=${sums.stopped ? `stopped: ${number(Math.round(sums.gpuHoursLost * 10) / 10)} GPU hours at stake` : "stopped"} tone=${sums.stopped ? "warn" : ""} />
      <${Figure} value=${pair(sums.gpusIdle)} words="GPUs of quota without a job" />
      <${Figure} value=${pair(sums.gpusBorrowed)} words="GPUs borrowed" />
    </div>
    ${rows.length > 0 && html`<section class="card-like"><h2>GPUs that gain and lose, by queue</h2><${Sides} rows=${rows} /></section>
    <section class="card-like"><${Table} caption="Jobs that fare differently" rows=${rows} columns=${[
      { title: "Job", cell: (row) => html`<${Job} row=${row} />` }, { title: "Queue", cell: (row) => safe(row.clusterQueue) },
      { title: "GPUs", right: true, cell: (row) => number(row.gpus) },
      { title: "Effect", cell: (row) => html`<span class=${`state ${tone(row)}`}><span aria-hidden="true">${GOOD.has(row.effect) ? "▲" : BAD.has(row.effect) ? "▼" : "•"}</span> ${row.effect}</span>` },
      { title: "Before", cell: (row) => world(row.before) }, { title: "After", cell: (row) => world(row.after) },
      { title: "Why", wide: true, cell: (row) => safe(why(row)) },
    ]} />${status.more > 0 && html`<p class="soft">and ${count(status.more, "more job")}</p>`}</section>`}
    ${hidden > 0 && html`<p class="note">${count(hidden, "job")} of namespaces that you may not list: ${others.map(([effect, value]) => `${number(value)} ${value === 1 ? effect : effect.replace("starts", "start").replace(/^waits/, "wait").replace(/^is /, "are ")}`).join(", ")}.</p>`}
    ${status.gpusBeyondWorkers > 0 && html`<p class="note">Jobs with quota would ask for ${count(status.gpusBeyondWorkers, "GPU")} more than the workers have: they wait on a worker.</p>`}`;
}

const tone = (row) => (GOOD.has(row.effect) ? "good" : BAD.has(row.effect) ? "bad" : "");

function Job({ row }) {
  const name = safe(row.job.split("/").pop());
  const [namespace, workload] = row.key.split("/");
  return row.before ? html`<a href=${to("jobs", namespace, workload)} title=${safe(row.key)}>${name}</a>` : html`<span title=${safe(row.key)}>${name}</span>`;
}

function world(side) {
  if (!side) return "-";
  if (side.fate === "waits" || side.fate === "stops") return side.position ? `waits, place ${number(side.position)}` : "waits";
  return `${side.fate === "restarts" ? "restarts" : "runs"}${side.flavors.length ? ` on ${safe(side.flavors.join(", "))}` : ""}${side.borrows ? ", borrowed" : ""}`;
}

function why(row) {
  const stop = row.after?.stoppedBy;
  if (stop && !row.before?.stoppedBy) return stop.workload ? `makes room for ${stop.workload}` : stop.message || stop.reason;
  return brief((row.after ?? row.before).why);
}

/** By queue: GPUs of jobs that gain to the right, of those that lose to the left. */
function Sides({ rows }) {
  const queues = new Map();
  for (const row of rows) {
    const sums = queues.get(row.clusterQueue) ?? { good: 0, bad: 0, jobs: [0, 0] };
    const side = GOOD.has(row.effect) ? "good" : BAD.has(row.effect) ? "bad" : "";
    if (side) {
      sums[side] += row.gpus;
      sums.jobs[side === "good" ? 0 : 1] += 1;
    }
    queues.set(row.clusterQueue, sums);
  }
  const found = [...queues].filter(([, sums]) => sums.jobs[0] || sums.jobs[1]).sort(([a], [b]) => a.localeCompare(b)).slice(0, 20);
  const most = Math.max(1, ...found.flatMap(([, sums]) => [sums.good, sums.bad]));
  const told = found.map(([name, sums]) => `${safe(name)}: ${count(sums.good, "GPU")} of ${count(sums.jobs[0], "job")} gain, ${count(sums.bad, "GPU")} of ${count(sums.jobs[1], "job")} lose`);
  const [middle, wide] = [330, 150];
  return html`<div class="scroll" tabindex="0" role="group" aria-label="GPUs by queue"><svg class="sides" viewBox=${`0 0 520 ${found.length * 26 + 6}`} role="img" aria-label=${told.join("; ")}>
    ${found.map(([name, sums], index) => html`<g transform=${`translate(0 ${index * 26 + 4})`}><title>${told[index]}</title>
      <text x="0" y="14">${safe(name.length > 18 ? `${name.slice(0, 17)}…` : name)}</text>
      ${sums.bad > 0 && html`<rect class="bad" x=${middle - (wide * sums.bad) / most} width=${(wide * sums.bad) / most} height="18" rx="2" /><text x=${middle - (wide * sums.bad) / most - 6} y="14" text-anchor="end">${number(sums.bad)}</text>`}
      ${sums.good > 0 && html`<rect class="good" x=${middle} width=${(wide * sums.good) / most} height="18" rx="2" /><text x=${middle + (wide * sums.good) / most + 6} y="14">${number(sums.good)}</text>`}</g>`)}
    <line x1=${middle} x2=${middle} y1="0" y2=${found.length * 26 + 6} /></svg></div>
    <p class="legend"><span><i class="dot lost"></i>stopped, or waits longer</span><span><i class="dot gained"></i>starts now, or waits less</span></p>`;
}
