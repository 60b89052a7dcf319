// Buttons that change something; each says first what would happen. What may be done, and how, the dashboard's own process decides.
import { html, useEffect, useState } from "./html.mjs";
import { session, useAnswer } from "./api.mjs";
import { number, safe } from "./format.mjs";
import { Choice, JobLink, Refusal, Table } from "./parts.mjs";
import { to } from "./router.mjs";

const PATH = "actions.json";

/** What the reader may do with an object; nothing without the right to. @param {{kind: string, namespace?: string, name: string}} target */
export function Actions(target) {
  return session.action && session.acts && html`<${Buttons} key=${JSON.stringify(target)} target=${target} />`;
}

function Buttons({ target }) {
  const { data, again } = useAnswer(`${PATH}?${new URLSearchParams(target)}`, 10);
  const [chosen, setChosen] = useState(null);
  if (chosen) return html`<${Question} target=${target} action=${chosen} close=${() => { setChosen(null); again(); }} />`;
  return html`<span class="actions">${(data?.actions ?? []).map((each) => html`<button onClick=${() => setChosen(each)}>${each.title}</button>`)}</span>`;
}

function Question({ target, action, close }) {
  const asked = { ...target, verb: action.verb };
  const { data, error, again } = useAnswer(`${PATH}?${new URLSearchParams(asked)}`);
  const [typed, setTyped] = useState("");
  const [choice, setChoice] = useState("");
  const [body, setBody] = useState("");
  if (error) return html`<${Refusal} ...${error} retry=${close} />`;
  const submit = (event) => {
    event.preventDefault();
    setBody(JSON.stringify({ ...asked, uid: data.uid, state: data.state, choice }));
  };
  const choices = data?.choices;
  const ready = (!action.stops || typed === target.name) && (!choices || choice);
  return data && html`<form class="card-like confirm" aria-label=${action.title} onSubmit=${submit}>
    <p role="status"><strong>${action.title}: ${safe(target.name)}.</strong> ${safe(data.words)}
      ${data.whatIf && html` <a href=${`${to("what-if")}?${new URLSearchParams({ try: data.whatIf })}`}>What if?</a>`}</p>
    ${data.plan && html`<${Plan} plan=${data.plan} />`}
    ${body ? html`<${Done} body=${body} close=${close} retry=${() => { setBody(""); again(); }} />` : html`
      ${action.stops && html`<label>To confirm, type its name <input value=${typed} onInput=${(event) => setTyped(event.target.value)} /></label>`}
      ${choices && html`<${Choice} title="Class" value=${choice} options=${[["", choices.length ? "choose" : "there is none"], ...choices.map(({ name, value }) => [name, `${name} (${number(value)})`])]} onChoose=${setChoice} />`}
      <button class="main" disabled=${!ready}>${action.title}</button>`}
    <button type="button" onClick=${close}>Back</button></form>`;
}

/** What a drain would do with each job, as the server foresees it. @param {{plan: any}} props */
function Plan({ plan }) {
  const rows = plan.workloads.map((each) => ({ ...each, key: each.workload }));
  return rows.length > 0 && html`<${Table} caption="What happens to each job" rows=${rows} columns=${[
    { title: "Job", cell: (row) => html`<${JobLink} row=${row} />` }, { title: "GPUs", right: true, cell: (row) => number(row.gpus) },
    { title: "GPU-hours lost", right: true, cell: (row) => row.lostGpuHours.toFixed(2) }, { title: "Then", cell: (row) => safe(row.then) },
    { title: "Why", wide: true, cell: (row) => safe(row.why ?? "") },
  ]} />${plan.more > 0 && html`<p class="soft">${number(plan.more)} more are not shown.</p>`}`;
}

function Done({ body, close, retry }) {
  const { data, error } = useAnswer(PATH, 0, body, true);
  useEffect(() => { if (data) close(); }, [data]);
  return error && html`<${Refusal} ...${error} retry=${retry} />`;
}
