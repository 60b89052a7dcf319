// One job: its way, why it waits, who decided, its pods, log and events. Everything on one page.
import { html, useEffect, useRef, useState } from "../html.mjs";
import { Actions } from "../actions.mjs";
import { ask } from "../feed.mjs";
import { remotePath, session, useAnswer, useTopic } from "../api.mjs";
import { ago, brief, clock, duration, ENDED, number, PHASES, safe, startNotes, startWords } from "../format.mjs";
import { jobName, Phase, QueueLink, Refusal, Table, Team, useNow, WorkerLink } from "../parts.mjs";
import { to } from "../router.mjs";

const LINES = 5000;
const LINE = 8192;

/** @param {{parts: string[]}} props */
export default function JobPage({ parts }) {
  return html`<main id="main"><${JobView} key=${parts.join("/")} name=${parts.join("/")} panel=${false} /></main>`;
}

/** @param {{name: string, panel: boolean}} props `name` is `namespace/name` of the Workload. */
export function JobView({ name, panel }) {
  const now = useNow();
  const { refused, loaded, rows } = useTopic(`story:${name}`, name.split("/")[0]);
  if (refused) return html`<${Refusal} ...${refused} />`;
  const story = rows.get(name) ?? [...rows.values()][0];
  if (!story) return html`<div class="loading" role="status">${loaded ? `There is no job ${safe(name)}.` : ""}</div>`;
  const standing = { ...story.standing, key: name };
  const [namespace, workload] = name.split("/");
  return html`<article class="job">
    <header class="bar">
      ${panel ? html`<h2><a href=${to("jobs", namespace, workload)}>${safe(jobName(standing))}</a></h2>` : html`<h1>${safe(jobName(standing))}</h1>`}
      <${Phase} phase=${standing.phase} /> <span class="soft">${safe(standing.words)}</span>
      <span class="push"></span><${Actions} kind="workloads" namespace=${namespace} name=${workload} />
    </header>
    <${Facts} standing=${standing} now=${now} namespace=${namespace} />
    <${Way} spans=${story.spans ?? []} knownSince=${story.knownSince} now=${now} />
    <${Why} standing=${standing} explanation=${story.explanation} />
    <${Decision} decision=${story.decision} />
    ${standing.worker && html`<${Pods} key=${`pods on ${standing.worker}`} name=${name} panel=${panel} />`}
    ${!panel && (standing.worker || standing.offeredTo.length > 0) && html`<${Events} key=${`events on ${standing.worker}`} name=${name} />`}
    ${!panel && html`<${Conditions} conditions=${story.conditions ?? []} />`}
  </article>`;
}

function Facts({ standing, now, namespace }) {
  const facts = [
    ["Team", html`<${Team} team=${standing.team} />`], ["Queue", html`<${QueueLink} name=${standing.clusterQueue} />`],
    ["Namespace", safe(namespace)], ["GPUs", number(standing.gpus)], ["Priority", number(standing.priority)],
    ["Created", `${clock(standing.created)}, ${ago(standing.created, now)} ago`],
    standing.position && ["Place", `${standing.position} in its queue`],
    standing.worker && ["Worker", html`<${WorkerLink} name=${standing.worker} />`],
    standing.start && ["Start", safe([startWords(standing.start, now), startNotes(standing.start)].filter(Boolean).join(": "))],
  ].filter(Boolean);
  return html`<dl class="facts">${facts.map(([term, value]) => html`<div><dt>${term}</dt><dd>${value}</dd></div>`)}</dl>`;
}

/** The stages as bars on one scale of time. */
function Way({ spans, knownSince, now }) {
  if (!spans.length) return null;
  const begin = Date.parse(spans[0].from);
  const end = Math.max(begin + 1000, ...spans.map((span) => (span.to ? Date.parse(span.to) : now)));
  const percent = (time) => Math.max(0, Math.min(100, (100 * (time - begin)) / (end - begin)));
  return html`<section><h3>Way</h3><ol class="way">${spans.map((span, index) => {
    const from = Date.parse(span.from);
    const till = span.to ? Date.parse(span.to) : now;
    const [glyph, word, colour] = PHASES[span.stage] ?? ["?", span.stage, "held"];
    const left = percent(from);
    return html`<li key=${index}>
      <span class="stage"><span class=${`glyph is-${colour}`} aria-hidden="true">${glyph}</span> ${word}${span.worker ? html` <span class="soft">on ${safe(span.worker)}</span>` : ""}</span>
      <span class="track" aria-hidden="true"><span class=${`span is-${colour} ${span.to ? "" : "open"}`} style=${{ left: `${left}%`, width: `${Math.max(0.6, percent(till) - left)}%` }}></span></span>
      <span class="took">${duration((till - from) / 1000)}</span>
      <span class="soft at">${clock(span.from)} ${span.why ? html`<span title=${safe(span.why)}>${safe(brief(span.why))}</span>` : ""}</span>
    </li>`;
  })}</ol>
  ${knownSince && Date.parse(knownSince) > begin && html`<p class="soft">What was before ${clock(knownSince)} is read from the conditions: the manager started then.</p>`}</section>`;
}

/** Phases with nothing to wait for: their reason is a notice. */
const HAS_STARTED = new Set(["Admitted", "Running"]);

function Why({ standing, explanation }) {
  if (!standing.why && !explanation) return null;
  const flavors = (explanation?.flavors ?? []).map((flavor) => ({ ...flavor, key: flavor.name + flavor.resource }));
  const title = ENDED.has(standing.phase) ? "How it ended" : HAS_STARTED.has(standing.phase) ? "Why it will be stopped" : "Why it waits";
  return html`<section><h3>${title}</h3>
    <p>${safe(brief(explanation?.why || standing.why))}</p>
    ${explanation?.preemption?.refusal && html`<p class="soft">Preemption: ${safe(explanation.preemption.refusal)}</p>`}
    ${(explanation?.takenBy ?? []).length > 0 && html`<p class="soft">Taken by ${safe(explanation.takenBy.join(", "))}</p>`}
    ${flavors.length > 0 && html`<${Table} caption="Quota in numbers" rows=${flavors} columns=${[
      { title: "Flavor", cell: (f) => safe(f.name) }, { title: "Resource", cell: (f) => safe(f.resource) },
      { title: "Asked", right: true, cell: (f) => safe(f.requested) }, { title: "Nominal", right: true, cell: (f) => safe(f.nominal) },
      { title: "Used", right: true, cell: (f) => safe(f.used) }, { title: "Free", right: true, cell: (f) => safe(f.free) },
      { title: "Can borrow", right: true, cell: (f) => safe(f.borrowable) }, { title: "Verdict", cell: (f) => safe(f.verdict) },
    ]} />`}
  </section>`;
}

function Decision({ decision }) {
  const verdicts = decision?.nomination?.verdicts;
  if (!verdicts?.length) return null;
  const names = verdicts.some((v) => v.terms?.length) ? verdicts.flatMap((v) => v.terms ?? []).map((term) => term.name) : [];
  const told = (verdict) => (verdict.terms ?? []).filter((term) => term.value && term.weight >= 30).map((term) => `${term.name} ${term.value}`).join(", ");
  return html`<section><h3>Who decided: ${safe(decision.dispatcher)}${decision.view?.now ? ` at ${clock(decision.view.now)}` : ""}</h3>
    <${Table} caption="Clusters that were looked at" rows=${verdicts.map((verdict) => ({ ...verdict, key: verdict.cluster }))} columns=${[
      { title: "Cluster", cell: (v) => html`<${WorkerLink} name=${v.cluster} />` },
      { title: "Offered", cell: (v) => (v.nominated ? "yes" : "no") },
      { title: "Tier", cell: (v) => safe(v.tier ?? "") },
      { title: "Score", right: true, cell: (v) => (v.score === undefined ? "" : number(v.score)) },
      ...(names.length ? [{ title: "Mostly for", cell: (v) => safe(told(v)) }] : []),
      { title: "Why", wide: true, cell: (v) => safe(v.reason ?? "") },
    ]} /></section>`;
}

/** What a worker did not answer; a job that has not reached it yet (409) is no error. */
function Unanswered({ title, error, again }) {
  return html`<section><h3>${title}</h3>${error.code === 409 ? html`<p class="empty">${safe(error.message)}</p>` : html`<${Refusal} ...${error} retry=${again} />`}</section>`;
}

function Pods({ name, panel }) {
  const { data, error, again } = useAnswer(remotePath(name, "pods"), 5);
  const [chosen, setChosen] = useState("");
  if (error) return html`<${Unanswered} title="Pods" error=${error} again=${again} />`;
  const pods = (data?.items ?? []).map((pod) => ({ ...pod, key: pod.metadata.name }));
  const pod = chosen || pods[0]?.key;
  const begun = (pods.find((each) => each.key === pod)?.status?.phase ?? "Pending") !== "Pending";
  return html`<section><h3>Pods <span class="soft">${data ? number(pods.length) : ""}</span></h3>
    <${Table} caption="Pods" rows=${pods.slice(0, 200)} columns=${[
      { title: "Name", cell: (p) => html`<button class="plain" aria-pressed=${p.key === pod} onClick=${() => setChosen(p.key)}>${safe(p.key)}</button>` },
      { title: "Status", cell: (p) => safe(p.status?.phase ?? "") },
      { title: "Node", cell: (p) => safe(p.spec?.nodeName ?? "-") },
      { title: "Restarts", right: true, cell: (p) => number((p.status?.containerStatuses ?? []).reduce((sum, each) => sum + each.restartCount, 0)) },
    ]} />
    ${!panel && pod && (begun ? html`<${Log} key=${pod} name=${name} pod=${pod} />` : html`<p class="soft">Pod ${safe(pod)} has not begun; its log is shown when it has.</p>`)}</section>`;
}

/** The log of a pod, followed; the last 5,000 lines are kept. */
function Log({ name, pod }) {
  const [lines, setLines] = useState([]);
  const [problem, setProblem] = useState("");
  const box = useRef(null);
  useEffect(() => {
    const abort = new AbortController();
    setLines([]);
    followLog(`${remotePath(name, "log")}?pod=${encodeURIComponent(pod)}&follow=true&tailLines=500`, abort.signal,
      (more) => setLines((known) => [...known, ...more].slice(-LINES)))
      .catch((error) => { if (!abort.signal.aborted) setProblem(error.message); });
    return () => abort.abort();
  }, [name, pod, session.logins]);
  useEffect(() => { if (box.current) box.current.scrollTop = box.current.scrollHeight; }, [lines]);
  return html`<h3>Log <span class="soft">${safe(pod)}</span></h3>
    ${problem && html`<p class="soft">${safe(problem)}</p>`}
    <pre class="log" ref=${box} tabindex="0" aria-label="Log">${lines.map(safe).join("\n") || "nothing printed yet"}</pre>`;
}

async function followLog(path, signal, take) {
  const answer = await ask(path, { signal });
  if (!answer.ok || !answer.body) throw new Error((await answer.json().catch(() => ({}))).message ?? `${answer.status}`);
  const reader = answer.body.pipeThrough(new TextDecoderStream()).getReader();
  let rest = "";
  for (;;) {
    const { value, done } = await reader.read();
    if (done) return;
    const parts = (rest + value).split("\n");
    rest = (parts.pop() ?? "").slice(0, LINE);
    take(parts.map((line) => line.slice(0, LINE)));
  }
}

function Events({ name }) {
  const { data, error, again } = useAnswer(remotePath(name, "events"), 10);
  if (error) return html`<${Unanswered} title="Events" error=${error} again=${again} />`;
  const events = (data?.items ?? [])
    .map((event) => ({ ...event, key: event.metadata.uid ?? event.metadata.name, at: event.lastTimestamp ?? event.eventTime ?? event.metadata.creationTimestamp }))
    .sort((a, b) => (b.at ?? "").localeCompare(a.at ?? ""));
  return html`<section><h3>Events</h3>${data && !events.length ? html`<p class="empty">None are kept.</p>` : html`<${Table} caption="Events" rows=${events.slice(0, 100)} columns=${[
    { title: "Seen", cell: (e) => clock(e.at) },
    { title: "Cluster", cell: (e) => safe(e.metadata.annotations?.["multiqueue.dev/cluster"] ?? "manager") },
    { title: "Object", cell: (e) => safe(e.involvedObject?.kind ?? "") },
    { title: "Reason", cell: (e) => safe(e.reason) },
    { title: "Message", wide: true, cell: (e) => safe(e.message) },
  ]} />`}</section>`;
}

function Conditions({ conditions }) {
  return html`<section><h3>Conditions</h3><${Table} caption="Conditions" rows=${conditions.map((each) => ({ ...each, key: each.type }))} columns=${[
    { title: "Type", cell: (c) => safe(c.type) }, { title: "Status", cell: (c) => safe(c.status) },
    { title: "Since", cell: (c) => clock(c.lastTransitionTime) }, { title: "Reason", cell: (c) => safe(c.reason) },
    { title: "Message", wide: true, cell: (c) => safe(c.message) },
  ]} /></section>`;
}

