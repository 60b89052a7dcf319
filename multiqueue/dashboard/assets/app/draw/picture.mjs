// The picture of the fleet: lines, quota and clusters; jobs travel between them.
import { html, useLayoutEffect, useRef, useState } from "../html.mjs";
import { count, safe } from "../format.mjs";
import { jobName, teamClass } from "../parts.mjs";
import { to } from "../router.mjs";
import { CELL, layOut, sayMoved, Seats } from "./layout.mjs";

const MAX_MOVING = 400;
const WORDS = { own: "its own quota, in use", free: "free", lent: "lent to others", borrowed: "borrowed" };

/** @param {{fleet: any}} props */
export function Picture({ fleet }) {
  const [width, frame] = useWidth();
  const seats = useRef(null);
  seats.current ??= new Seats();
  const drawn = width ? layOut(fleet, width, seats.current) : null;
  return html`<div class="picture" ref=${frame}>
    <p class="hidden">${describe(fleet)}</p>
    ${drawn && html`<svg width=${width} height=${drawn.height} role="group" aria-label=${describe(fleet)}>
      <${Patterns} />
      <${Titles} drawn=${drawn} />
      ${drawn.ribbons.map((ribbon) => html`<${Ribbon} key=${ribbon.flow.lender + ribbon.flow.borrower} ribbon=${ribbon} teams=${fleet.teamOf} />`)}
      ${drawn.lines.map((row) => html`<${Line} key=${row.queue.key} row=${row} drawn=${drawn} team=${fleet.teamOf(row.queue.key)} />`)}
      ${drawn.clusters.map((card) => html`<${Card} key=${card.worker.key} card=${card} />`)}
      <g class=${drawn.squares.length > MAX_MOVING ? "squares still" : "squares"}>
        ${drawn.squares.map((square) => html`<${Square} key=${square.key} square=${square} />`)}
      </g>
    </svg>`}
    ${drawn && drawn.unit > 1 && html`<p class="soft">One square is ${drawn.unit} GPUs.</p>`}
  </div>`;
}

/** The picture in words, for those who do not see it. */
export function describe(fleet) {
  const name = (key) => key.split(":").pop();
  const flows = fleet.flows.map((flow) => `${name(flow.borrower)} borrows ${flow.amount} from ${name(flow.lender)}`);
  const lines = fleet.queues.map((queue) => `${queue.name} uses ${queue.gpus.used} of ${queue.gpus.nominal} GPUs`);
  const workers = fleet.workers.map((worker) => `${worker.key} has ${worker.used ?? "an unknown number"} of ${worker.gpus ?? "an unknown number of"} GPUs in use`);
  return [...lines, ...flows, ...workers].join("; ");
}

function Titles({ drawn }) {
  const { columns, narrow } = drawn;
  const first = drawn.clusters[0];
  return html`<g class="titles">
    <text x=${columns.line} y="12">${narrow ? "QUEUES" : "WAITING"}</text>
    ${!narrow && html`<text x=${columns.bar} y="12">QUOTA</text>`}
    ${first && html`<text x=${columns.cluster} y=${first.y - 14}>CLUSTERS</text>`}
  </g>`;
}

function Line({ row, drawn, team }) {
  const { queue, bar } = row;
  const { columns, narrow } = drawn;
  const colour = teamClass(team);
  const used = `${queue.gpus.used} of ${queue.gpus.nominal}`;
  const extra = safe(sayMoved(queue));
  const barTextY = row.y + 14;
  return html`<g>
    <a href=${to("queues", queue.name)}><text class="name" x=${columns.line} y=${barTextY}>${safe(queue.name)}</text></a>
    ${!narrow && html`<text class="soft" x=${columns.line + columns.lineWidth} y=${barTextY} text-anchor="end">
      ${row.waiting ? `${count(row.waiting, "job")}, ${count(row.waitingGpus, "GPU")}` : "nobody waits"}</text>`}
    ${row.rest.jobs > 0 && html`<text class="soft" x=${row.rest.x + 2} y=${row.lineY + 13}>+ ${count(row.rest.jobs, "job")}</text>`}
    <text class="soft" x=${columns.bar + columns.barWidth} y=${barTextY} text-anchor="end">${used}${extra}</text>
    ${!narrow && html`<path class="flow" d=${`M${columns.line + columns.lineWidth + 6} ${row.barY + CELL / 2} H${columns.bar - 8}`} marker-end="url(#tip)" />`}
    ${bar.cells.map((cell, index) => html`<rect key=${index} class=${`cell ${cell.part} ${colour}`} x=${cell.x} y=${row.barY} width=${cell.width} height=${CELL} rx="3">
      <title>${safe(queue.name)}: ${WORDS[cell.part]}</title></rect>`)}
  </g>`;
}

function Ribbon({ ribbon, teams }) {
  const { from, to: end, flow } = ribbon;
  const down = end.y > from.y;
  const y1 = down ? from.y + CELL : from.y;
  const y2 = down ? end.y : end.y + CELL;
  const middle = (y1 + y2) / 2;
  const d = `M${from.left} ${y1} C${from.left} ${middle} ${end.left} ${middle} ${end.left} ${y2} H${end.right} C${end.right} ${middle} ${from.right} ${middle} ${from.right} ${y1} Z`;
  const name = (key) => key.split(":").pop();
  return html`<path class=${`ribbon ${teamClass(teams(flow.borrower))}`} d=${d}>
    <title>${safe(name(flow.lender))} lends ${flow.amount} to ${safe(name(flow.borrower))} (shared out pro rata)</title></path>`;
}

function Card({ card }) {
  const { worker } = card;
  const [state, tone] = stateOf(worker);
  const flavors = [...new Set((worker.flavors ?? []).map((flavor) => flavor.flavor))].join(", ");
  return html`<g class=${tone === "bad" ? "card lost" : "card"}>
    <rect class="frame" x=${card.x} y=${card.y} width=${card.width} height=${card.height} rx="8" />
    <a href=${to("clusters", worker.key)}><text class="name" x=${card.x + 12} y=${card.y + 19}>${safe(worker.key)}</text></a>
    <text class=${`state ${tone}`} x=${card.x + card.width - 12} y=${card.y + 19} text-anchor="end">${state}</text>
    <text class="soft" x=${card.x + 12} y=${card.y + 36}>
      ${worker.gpus === null ? "GPUs are not known" : `${worker.used} of ${worker.gpus} ${safe(flavors)} in use`}${card.jobs ? `, ${count(card.jobs, "job")}` : ""}</text>
    ${card.places.map((place, index) => html`<rect key=${index} class=${place.extra ? "cell extra" : "cell free"} x=${place.x} y=${place.y} width=${CELL} height=${CELL} rx="3" />`)}
  </g>`;
}

function Square({ square }) {
  const { job } = square;
  const words = `${jobName(job)}: ${count(job.gpus, "GPU")}, ${job.words}`;
  const [namespace, name] = job.key.split("/");
  return html`<a href=${to("jobs", namespace, name)} tabindex="-1"><rect
    class=${`square ${teamClass(job.team)} ${square.waits ? "waits" : "runs"}`}
    style=${{ transform: `translate(${square.x}px, ${square.y}px)` }} width=${CELL} height=${CELL} rx="3"><title>${safe(words)}</title></rect></a>`;
}

/** The state of a worker in a word, and its tone. */
export function stateOf(worker) {
  if (!worker.connected) return ["out of reach", "bad"];
  const use = worker.use?.state ?? "InUse";
  if (use !== "InUse") return [use.toLowerCase(), "warn"];
  if (worker.health !== null && worker.health < 0.5) return ["unwell", "warn"];
  return ["healthy", "good"];
}

function Patterns() {
  return html`<defs>
    <marker id="tip" viewBox="0 0 8 8" refX="6" refY="4" markerWidth="7" markerHeight="7" orient="auto"><path class="tip" d="M0 0 L8 4 L0 8 z" /></marker>
  </defs>`;
}

function useWidth() {
  const [width, setWidth] = useState(0);
  const frame = useRef(null);
  useLayoutEffect(() => {
    const observer = new ResizeObserver(([entry]) => setWidth(Math.floor(entry.contentRect.width)));
    observer.observe(frame.current);
    return () => observer.disconnect();
  }, []);
  return [width, frame];
}

