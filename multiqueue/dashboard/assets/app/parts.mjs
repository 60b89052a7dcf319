// What several pages show: phases, names, the five looks of an element.
import { html, useEffect, useState } from "./html.mjs";
import { PHASES, safe, startNotes, startWords } from "./format.mjs";
import { to } from "./router.mjs";

const TEAM_COLOURS = 6;
const teams = new Map(JSON.parse(localStorage.getItem("teams") || "[]"));

/** The class of a team's colour; a team keeps it. @param {string} team */
export function teamClass(team) {
  if (!teams.has(team)) {
    teams.set(team, teams.size);
    localStorage.setItem("teams", JSON.stringify([...teams].slice(0, 200)));
  }
  const index = teams.get(team);
  return index < TEAM_COLOURS ? `team-${index}` : "team-other";
}

/** @param {{phase: string}} props */
export function Phase({ phase }) {
  const [glyph, word, colour] = PHASES[phase] ?? ["?", phase, "held"];
  return html`<span class="phase"><span class=${`glyph is-${colour}`} aria-hidden="true">${glyph}</span> ${word}</span>`;
}

/** @param {{team: string}} props */
export function Team({ team }) {
  return html`<span class="team"><span class=${`dot ${teamClass(team)}`} aria-hidden="true"></span>${safe(team)}</span>`;
}

/** The name of a job with a link to its page. @param {{row: any}} props */
export function JobLink({ row }) {
  const [namespace, name] = row.key.split("/");
  return html`<a href=${to("jobs", namespace, name)} title=${safe(row.key)}>${safe(jobName(row))}</a>`;
}

export function jobName(row) {
  return (row.job || row.key).split("/").pop();
}

export function QueueLink({ name }) {
  return name ? html`<a href=${to("queues", name)}>${safe(name)}</a>` : "-";
}

export function WorkerLink({ name }) {
  return name ? html`<a href=${to("clusters", name)}>${safe(name)}</a>` : "-";
}

export function Start({ row, now }) {
  const words = startWords(row.start, now);
  return html`<span title=${safe(startNotes(row.start))} class=${words.startsWith("not known") ? "soft" : ""}>${words}</span>`;
}

/**
 * An element in one of its looks: loading, no right, error, empty, or its content.
 * @param {{topic: import("./store.mjs").Topic, empty: any, children: any}} props
 */
export function Look({ topic, empty, children }) {
  const slow = useSlow(!topic.loaded && !topic.refused);
  if (topic.refused) return html`<${Refusal} ...${topic.refused} />`;
  if (!topic.loaded) {
    return html`<div class="loading" role="status">${slow ? "still asking the manager" : ""}</div>`;
  }
  return topic.rows.size ? children : html`<p class="empty">${empty}</p>`;
}

/** Why something is not shown. @param {{code: number, message: string, retry?: () => void}} props */
export function Refusal({ code, message, retry }) {
  return html`<div class="refusal" role="status">
    <strong>${code === 403 ? "No right to see this" : code === 404 ? "Not there" : code === 422 ? "This cannot be tried" : code === 429 ? "Too much was asked" : `Error ${code}`}</strong>
    <p>${safe(message)}</p>
    ${code === 403 && html`<p class="soft">Whoever administers the cluster can grant it: give them this sentence.</p>`}
    ${retry && html`<button onClick=${retry}>Try again</button>`}
  </div>`;
}

function useSlow(waiting) {
  const [slow, setSlow] = useState(false);
  useEffect(() => {
    setSlow(false);
    if (!waiting) return undefined;
    const timer = setTimeout(() => setSlow(true), 5000);
    return () => clearTimeout(timer);
  }, [waiting]);
  return slow;
}

/** The time, once a second. */
export function useNow() {
  const [now, setNow] = useState(Date.now());
  useEffect(() => {
    const timer = setInterval(() => setNow(Date.now()), 1000);
    return () => clearInterval(timer);
  }, []);
  return now;
}

/** A table of few rows; on phones each is a card. @param {{caption: string, columns: any[], rows: any[]}} props */
export function Table({ caption, columns, rows }) {
  return html`<div class="scroll cards" tabindex="0" role="group" aria-label=${caption}><table>
    <caption class="hidden">${caption}</caption>
    <thead><tr>${columns.map((c) => html`<th scope="col" class=${c.right ? "right" : ""}>${c.title}</th>`)}</tr></thead>
    <tbody>${rows.map((row) => html`<tr key=${row.key}>
      ${columns.map((c) => html`<td class=${`${c.right ? "right" : ""} ${c.wide ? "wide" : ""}`} data-title=${c.title}>${c.cell(row)}</td>`)}
    </tr>`)}</tbody>
  </table></div>`;
}

/** One of several values. @param {{title: string, value: string, options: [string, string][], onChoose: (value: string) => void}} props */
export function Choice({ title, value, options, onChoose }) {
  return html`<label>${title} <select value=${value} onChange=${(event) => onChoose(event.target.value)}>
    ${options.map(([name, words]) => html`<option value=${name}>${safe(words)}</option>`)}</select></label>`;
}

/** A figure with its words. */
export function Figure({ value, words, tone = "" }) {
  return html`<div class=${`figure ${tone}`}><span class="value">${value}</span><span class="words">${words}</span></div>`;
}
