// What a change would make different: a form that writes the change, and the manager's answer to it.
import { html, useState } from "../html.mjs";
import { FLEET, useAnswer } from "../api.mjs";
import { readFleet } from "../fleet.mjs";
import { brief, count, isAccelerator, number, safe } from "../format.mjs";
import { Choice, Figure, JobLink, jobName, Look, Table } from "../parts.mjs";
import { setQuery } from "../router.mjs";

/** The changes of the form: words, and the line with its fields. */
const KINDS = {
  quota: ["Quota of a queue", "quota cq/{Queue} {Resource}={Quota}"],
  hold: ["Stop a queue", "hold cq/{Queue}"],
  drain: ["Drain a worker", "drain {Worker}"],
  add: ["Add a worker", "add {Name} {Flavor}={GPUs}"],
  priority: ["Priority of a job", "priority {Job}={Priority}"],
};
const FIRST = { Name: "new-worker", GPUs: "8", Priority: "1000" };
const EXAMPLES = ["quota cq/research nvidia.com/gpu=16", "borrowing-limit cq/research nvidia.com/gpu=4", "weight cq/research=2", "strategy cq/research=StrictFIFO", "cohort cq/research=pool",
  "resume cq/research", "hold lq/team/research", "cordon worker", "remove worker", "cancel team/job"];
const GOOD = ["starts now", "is not stopped", "waits less"];
const NEITHER = ["is new", "is gone"];
const sideOf = (row) => (GOOD.includes(row.effect) ? "good" : NEITHER.includes(row.effect) ? "" : "bad");

/** @param {{store: import("../store.mjs").Store, query: URLSearchParams}} props */
export default function WhatIfPage({ store, query }) {
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
  const first = { ...FIRST };
  const options = {
    Queue: fleet.queues.map((queue) => queue.name),
    Worker: fleet.workers.map((worker) => worker.key),
    Flavor: distinct(fleet.queues.flatMap((queue) => queue.quotas).filter((each) => isAccelerator(each.resource)).map((each) => each.flavor)),
    Job: fleet.jobs.slice(0, 500).map((job) => `${job.key.split("/")[0]}/${jobName(job)}`),
  };
  const value = (field) => {
    const known = given[field] ?? first[field] ?? "";
    return options[field] && !options[field].includes(known) ? options[field][0] ?? "" : known;
  };
  const quotas = fleet.queues.find((queue) => queue.name === value("Queue"))?.quotas ?? [];
  const several = (one) => quotas.some((each) => each.resource === one.resource && each.flavor !== one.flavor);
  options.Resource = distinct([...quotas].sort((a, b) => isAccelerator(b.resource) - isAccelerator(a.resource)).map((each) => (several(each) ? `${each.resource}@${each.flavor}` : each.resource)));
  const now = quotas.find((each) => isAccelerator(each.resource) && [each.resource, `${each.resource}@${each.flavor}`].includes(value("Resource")));
  first.Quota = now && String(now.nominal);
  const fields = [...KINDS[kind][1].matchAll(/{(\w+)}/g)].map((found) => found[1]);
  const set = (field) => (chosen) => setGiven({ ...given, [field]: chosen });
  const add = () => write((known) => [...linesOf(known), KINDS[kind][1].replace(/{(\w+)}/g, (_, field) => value(field))].join("\n"));
  return html`<div class="filters"><${Choice} title="Change" value=${kind} options=${Object.entries(KINDS).map(([name, [words]]) => [name, words])} onChoose=${setKind} />
    ${fields.map((field) => (options[field]
      ? html`<${Choice} key=${field} title=${field} value=${value(field)} options=${options[field].map((each) => [each, each])} onChoose=${set(field)} />`
      : html`<label key=${field}>${field} <input type=${field === "Name" ? "text" : "number"} min="0" value=${value(field)} onInput=${(event) => set(field)(event.target.value)} /></label>`))}
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
  const pair = ({ before, after }) => (before === after ? number(after) : `${number(before)} → ${number(after)}`);
  const hidden = others.reduce((sum, [, value]) => sum + value, 0);
  const hasWhy = rows.some(why);
  return html`<div class="figures">
      <${Figure} value=${number(sums.starts)} words="start now, and would wait" />
      <${Figure} value=${number(sums.longer)} words=${`wait longer${sums.never ? `, ${number(sums.never)} for ever` : ""}`} tone=${sums.longer ? "warn" : ""} />
      <${Figure} value=${number(sums.stopped)} words=${`stopped${sums.stopped ? `, ${number(Math.round(sums.gpuHoursLost * 10) / 10)} GPU hours at stake` : ""}`} tone=${sums.stopped ? "warn" : ""} />
      <${Figure} value=${pair(sums.gpusIdle)} words="GPUs of quota without a job" />
      <${Figure} value=${pair(sums.gpusBorrowed)} words="GPUs borrowed" />
    </div>
    ${rows.length > 0 && html`<section class="card-like"><h2>GPUs that gain and lose, by queue</h2><${Sides} rows=${rows} /></section>
    <section class="card-like"><${Table} caption="Jobs that fare differently" rows=${rows} columns=${[
      { title: "Job", cell: (row) => (row.before ? html`<${JobLink} row=${row} />` : safe(jobName(row))) }, { title: "Queue", cell: (row) => safe(row.clusterQueue) },
      { title: "GPUs", right: true, cell: (row) => number(row.gpus) },
      { title: "Effect", cell: (row) => html`<span class=${`state ${sideOf(row)}`}><span aria-hidden="true">${{ good: "▲", bad: "▼" }[sideOf(row)] ?? "•"}</span> ${row.effect}</span>` },
      { title: "Before", cell: (row) => world(row.before) }, { title: "After", cell: (row) => world(row.after) },
      ...(hasWhy ? [{ title: "Why", wide: true, cell: why }] : []),
    ]} />${status.more > 0 && html`<p class="soft">and ${count(status.more, "more job")}</p>`}</section>`}
    ${hidden > 0 && html`<p class="note">Also ${count(hidden, "job")} of namespaces that you may not list: ${others.map(([effect, value]) => `${effect} ${number(value)}`).join(", ")}.</p>`}
    ${status.gpusBeyondWorkers > 0 && html`<p class="note">Jobs with quota ask for ${count(status.gpusBeyondWorkers, "GPU")} more than the workers have: they wait on a worker.</p>`}`;
}

function world(side) {
  if (!side) return "-";
  const flavors = side.flavors.length ? ` on ${safe(side.flavors.join(", "))}` : "";
  return `${{ keeps: "runs", starts: "starts" }[side.fate] ?? side.fate}${side.position ? `, place ${number(side.position)}` : flavors}${side.borrows ? ", borrowed" : ""}`;
}

function why(row) {
  const stop = row.after?.stoppedBy;
  if (stop && !row.before?.stoppedBy) return safe(stop.workload ? `makes room for ${stop.workload}` : stop.message || stop.reason);
  return safe(brief((row.after ?? row.before).why));
}

/** By queue: GPUs of jobs that gain to the right, of those that lose to the left. */
function Sides({ rows }) {
  const queues = new Map();
  for (const row of rows.filter(sideOf)) {
    const sums = queues.get(row.clusterQueue) ?? { good: 0, bad: 0 };
    sums[sideOf(row)] += row.gpus;
    queues.set(row.clusterQueue, sums);
  }
  const found = [...queues].sort().slice(0, 20);
  const most = Math.max(1, ...found.flatMap(([, sums]) => [sums.good, sums.bad]));
  const told = found.map(([name, sums]) => `${safe(name)}: ${count(sums.good, "GPU")} gain, ${count(sums.bad, "GPU")} lose`);
  const kinds = [["bad", "stopped, or waits longer"], ["good", "starts now, or waits less"]].filter(([side]) => found.some(([, sums]) => sums[side]));
  const longest = Math.min(240, (innerWidth - 240) / 2);
  const middle = kinds[0]?.[0] === "bad" ? 130 + longest : 110;
  const bar = (side, value) => {
    const wide = (longest * value) / most;
    const left = side === "bad" ? middle - wide : middle;
    return value > 0 && html`<rect class=${side} x=${left} width=${wide} height="18" rx="2" /><text x=${side === "bad" ? left - 6 : left + wide + 6} y="14" text-anchor=${side === "bad" ? "end" : "start"}>${number(value)}</text>`;
  };
  const high = found.length * 26 + 6;
  return html`<div class="scroll" tabindex="0" role="group" aria-label="GPUs by queue"><svg class="sides" width=${middle + longest + 40} height=${high} role="img" aria-label=${told.join("; ")}>
    ${found.map(([name, sums], index) => html`<g transform=${`translate(0 ${index * 26 + 4})`}><title>${told[index]}</title>
      <text y="14">${safe(name.length > 15 ? `${name.slice(0, 14)}…` : name)}</text>${bar("bad", sums.bad)}${bar("good", sums.good)}</g>`)}
    <line x1=${middle} x2=${middle} y1="0" y2=${high} /></svg></div>
    <p class="legend">${kinds.map(([side, words]) => html`<span><i class=${`dot ${side === "bad" ? "lost" : "gained"}`}></i>${words}</span>`)}</p>`;
}
