// Who reserved how much in a month, what ran of it, and what was lost. The gateway adds up; this page formats.
import { html } from "../html.mjs";
import { useAnswer } from "../api.mjs";
import { amountOfTime, isAccelerator, monthName, number, safe, timeUnit } from "../format.mjs";
import { Choice, Figure, Look, QueueLink, Table, Team, teamClass, WorkerLink } from "../parts.mjs";
import { setQuery } from "../router.mjs";

const BY = [["owner", "owner"], ["namespace", "namespace"], ["queue", "queue"], ["localqueue", "local queue"], ["cluster", "cluster"], ["flavor", "flavor"], ["cause", "why jobs were stopped"]];
const SHOWN = 5;

/** @param {{query: URLSearchParams}} props */
export default function UsagePage({ query }) {
  const asked = new URLSearchParams();
  for (const name of ["month", "by", "resource"]) if (query.get(name)) asked.set(name, query.get(name));
  const { data, error, again } = useAnswer(`usage.json?${asked}`, 60);
  const topic = { loaded: Boolean(data), refused: error && { ...error, retry: again }, rows: new Map((data?.rows ?? []).map((row, index) => [index, row])) };
  const by = query.get("by") || "owner";
  return html`<main id="main"><div class="bar"><h1>Usage</h1>
      <span class="soft">${data ? `${unitName(data)} in ${monthName(data.month)}` : ""}</span><span class="push"></span>
      <button onClick=${again}>Refresh</button>
      ${data?.rows.length > 0 && html`<a class="button" href=${`usage.csv?${asked}`} download>CSV</a>`}</div>
    <${Filters} data=${data} query=${query} by=${by} />
    ${data?.namespace && html`<p class="note">You may read namespace <strong>${safe(data.namespace)}</strong> only; usage elsewhere is not shown.</p>`}
    <${Look} topic=${topic} empty=${`Nothing was reserved in ${data ? monthName(data.month) : "this month"}. A job counts from when it gets quota; multiqueue submit -f job.yaml submits one.`}>
      ${data && html`<${Month} data=${data} by=${by} />`}<//>
    ${data && html`<p class="soft">${source(data)}</p>`}</main>`;
}

function Filters({ data, query, by }) {
  const select = (field, title, value, options) => html`<${Choice} title=${title} value=${value} options=${options} onChoose=${(chosen) => setQuery({ [field]: chosen })} />`;
  const month = query.get("month") ?? data?.month ?? "";
  const months = [...new Set([...(data?.months ?? []), ...(month ? [month] : [])])].sort().reverse();
  return html`<div class="filters" role="search">
    ${select("month", "Month", month, months.map((each) => [each, monthName(each)]))}
    ${select("by", "By", by, BY)}
    ${data?.resources.length > 1 && select("resource", "Resource", data.resource, data.resources.map((each) => [each, each]))}
  </div>`;
}

function Month({ data, by }) {
  const { total, rows, column } = data;
  const unit = timeUnit(total.reserved_s);
  const time = (seconds) => amountOfTime(seconds, unit);
  const share = (seconds) => (total.reserved_s ? `, ${Math.round((100 * seconds) / total.reserved_s)} %` : "");
  const words = `${isAccelerator(data.resource) ? "GPU" : data.resource} ${unit.words}`;
  const top = Math.max(1, ...rows.map((row) => row.reserved_s));
  const figure = (title, field) => ({ title, right: true, cell: (row) => (row[field] ? time(row[field]) : "-") });
  return html`<div class="figures">
      <${Figure} value=${time(total.reserved_s)} words=${`${words} reserved`} />
      <${Figure} value=${time(total.running_s)} words=${`running${share(total.running_s)}`} />
      <${Figure} value=${time(total.lost_s)} words="lost: jobs were stopped" tone=${total.lost_s ? "warn" : ""} />
      <${Figure} value=${time(total.failed_s)} words="failed by themselves" />
    </div>
    <section class="card-like"><h2>${words} by day</h2><${Days} data=${data} by=${by} unit=${unit} /></section>
    <section class="card-like"><${Table} caption="Usage" rows=${rows.map((row) => ({ ...row, key: row[column] }))} columns=${[
      { title: BY.find(([name]) => name === by)[1].replace(/^./, (c) => c.toUpperCase()), cell: (row) => html`<${Name} by=${by} value=${row[column]} />` },
      figure("Reserved", "reserved_s"), figure("Running", "running_s"), figure("Kept", "kept_s"), figure("Lost", "lost_s"), figure("Failed", "failed_s"),
      { title: "Ended", right: true, cell: (row) => number(row.holds) },
      { title: "Of all", wide: true, cell: (row) => html`<${Bar} row=${row} top=${top} colour=${colourOf(by, row[column], rows, column)} total=${total} />` },
    ]} />${data.more && html`<p class="soft">and ${number(data.more.rows)} more with ${time(data.more.reserved_s)} ${words}; the CSV has all</p>`}</section>`;
}

function Name({ by, value }) {
  if (!value) return html`<span class="soft">${by === "cause" ? "not stopped" : "none"}</span>`;
  if (by === "owner") return html`<${Team} team=${value} />`;
  if (by === "queue") return html`<${QueueLink} name=${value} />`;
  return by === "cluster" ? html`<${WorkerLink} name=${value} />` : safe(value);
}

/** The part of a row: reserved, and of that running. */
function Bar({ row, top, colour, total }) {
  const of = Math.round((100 * row.reserved_s) / Math.max(1, total.reserved_s));
  return html`<svg class=${`share ${colour}`} width="180" height="14" role="img" aria-label=${`${of} % of what was reserved`}>
    <rect class="held" width=${(140 * row.reserved_s) / top} height="14" rx="2" /><rect class="used" width=${(140 * row.running_s) / top} height="14" rx="2" />
    <text x=${(140 * row.reserved_s) / top + 5} y="11">${of} %</text></svg>`;
}

/** The colour of a value: teams keep theirs; of others the largest have one. */
function colourOf(by, value, rows, column) {
  if (by === "owner") return teamClass(value);
  const index = rows.findIndex((row) => row[column] === value);
  return index < SHOWN ? `team-${index}` : "team-other";
}

/** Days of the month: what was reserved, upwards, by the largest; what was lost, downwards. */
function Days({ data, by, unit }) {
  const { column, rows } = data;
  const names = rows.slice(0, SHOWN).map((row) => row[column]);
  const month = Array.from({ length: data.days }, (_, index) => ({ day: `${data.month}-${String(index + 1).padStart(2, "0")}`, held: new Map(), sum: 0, lost: 0 }));
  for (const row of data.byDay) {
    const day = month[Number(row.day.slice(8)) - 1];
    const name = names.includes(row[column]) ? row[column] : null;
    day.held.set(name, (day.held.get(name) ?? 0) + row.reserved_s);
    day.sum += row.reserved_s;
    day.lost += row.lost_s;
  }
  // A phone has room for the ten days up to the last that has something.
  const last = month.findLastIndex((day) => day.sum || day.lost) + 1;
  const days = matchMedia("(max-width: 720px)").matches ? month.slice(Math.max(0, last - 10), Math.max(10, last)) : month;
  const up = Math.max(...days.map((day) => day.sum), 1);
  const down = Math.max(...days.map((day) => day.lost), 0);
  const [left, wide, high] = [52, 34, 150];
  const scale = high / Math.max(up, down);
  const bottom = high + 8 + down * scale;
  const order = [...names, null];
  const words = (value) => (value === null ? "others" : value ? safe(value) : by === "cause" ? "not stopped" : "none");
  const time = (seconds) => amountOfTime(seconds, unit);
  const told = month.filter((day) => day.sum || day.lost).map((day) => `${Number(day.day.slice(8))}: ${time(day.sum)} reserved, ${time(day.lost)} lost`);
  const bar = (day, index) => {
    let at = high + 8;
    const x = left + index * wide;
    return html`<g><title>${`${day.day}: ${time(day.sum)} ${unit.words} reserved, ${time(day.lost)} lost`}</title>
      <rect class="day" x=${x} y="8" width=${wide - 3} height=${high} />
      ${order.filter((name) => day.held.get(name)).map((name) => {
        const height = day.held.get(name) * scale;
        at -= height;
        return html`<rect class=${`held ${name === null ? "team-other" : colourOf(by, name, rows, column)}`} x=${x} y=${at} width=${wide - 3} height=${height} />`;
      })}
      ${day.lost > 0 && html`<rect class="lost" x=${x} y=${high + 9} width=${wide - 3} height=${day.lost * scale} />`}
      ${(index === 0 || Number(day.day.slice(8)) % 5 === 0) && html`<text x=${x + (wide - 3) / 2} y=${bottom + 16} text-anchor="middle">${Number(day.day.slice(8))}</text>`}</g>`;
  };
  const shown = rows.length > SHOWN ? order : names;
  return html`<div class="scroll" tabindex="0" role="group" aria-label="Days of the month">
    <svg class="days" viewBox=${`0 0 ${left + days.length * wide} ${bottom + 22}`} role="img" aria-label=${`Reserved and lost by day. ${told.join("; ")}`}>
      <text x=${left - 8} y="16" text-anchor="end">${time(up)}</text><text x=${left - 8} y=${high + 8} text-anchor="end">0</text>
      ${days.map(bar)}
      <line x1=${left} x2=${left + days.length * wide - 3} y1=${high + 8.5} y2=${high + 8.5} /></svg></div>
    <p class="legend">${shown.map((name) => html`<span><i class=${`dot ${name === null ? "team-other" : colourOf(by, name, rows, column)}`}></i>${words(name)}</span>`)}
      ${down > 0 && html`<span><i class="dot lost"></i>lost, on the day when the job was stopped</span>`}</p>`;
}

function unitName(data) {
  if (!data.total) return "nothing";
  return `${safe(data.resource)}, time of each ${isAccelerator(data.resource) ? "device" : "core"},`;
}

function source(data) {
  const gap = data.gapSeconds ? ` No manager counted for ${number(Math.round(data.gapSeconds / 60))} minutes of the month.` : "";
  if (!data.through) return "There are no UsageReports yet: only Workloads that still exist count, each with its last reservation.";
  const until = data.through < data.to ? ` until ${data.through.slice(0, 10)} ${data.through.slice(11, 16)} UTC; after that, only Workloads that hold quota or have finished` : "";
  return `UsageReports count everything${until}. Days are those of UTC. multiqueue usage adds up the same rows.${gap}`;
}
