// Where everything of the picture stands: who waits, whose quota is used by whom, what runs where. Pure.
// One square is one GPU, or `unit` GPUs where there are too many. The same square stands for a GPU of a
// job in its line and on its worker, so that a job can be seen to travel.
import { ENDED, HOLDS, isAccelerator } from "../format.mjs";

export const CELL = 16;
export const STEP = CELL + 3;
const MAX_SQUARES = 600;
const MAX_QUEUES = 60;
/** Characters beside the bar of a queue. */
const MAX_WORDS = 32;

/** GPUs of a ClusterQueue or Cohort in all its flavors. @param {any[]} quotas */
export function sumGpus(quotas) {
  const sum = { nominal: 0, used: 0, borrowed: 0, lent: 0, free: 0 };
  for (const quota of quotas) {
    if (!isAccelerator(quota.resource)) continue;
    for (const field of Object.keys(sum)) sum[field] += quota[field] ?? 0;
  }
  return sum;
}

/** What a queue borrows and lends: by flavor if it has several and that is short, because it may do both. @param {any} queue */
export function sayMoved({ quotas, gpus }) {
  const own = quotas.filter((q) => isAccelerator(q.resource));
  const amounts = (field) => own.filter((q) => q[field]).map((q) => q[field] + (own[1] ? ` ${q.flavor}` : "")).join(" and ");
  const say = (told) => (gpus.borrowed ? `, borrows ${told("borrowed")}` : "") + (gpus.lent ? `, lends ${told("lent")}` : "");
  const words = say(amounts);
  return words.length > MAX_WORDS ? say((field) => gpus[field]) : words;
}

/** Who lends how many GPUs to whom, over all flavors. @param {any[]} rows Rows of the topic `quotas`. */
export function sumFlows(rows) {
  const sums = new Map();
  for (const row of rows) {
    for (const flow of row.flows ?? []) {
      if (!isAccelerator(flow.resource)) continue;
      const key = `${flow.lender}>${flow.borrower}`;
      const known = sums.get(key) ?? { lender: flow.lender, borrower: flow.borrower, amount: 0 };
      sums.set(key, { ...known, amount: known.amount + flow.amount });
    }
  }
  return [...sums.values()].filter((flow) => flow.amount > 0);
}

/** Keeps the cells of each worker's jobs in place while others come and go. */
export class Seats {
  constructor() { this.byWorker = new Map(); }

  /** @param {string} worker @param {any[]} jobs Those that hold GPUs there. @param {number} unit @returns {string[]} The key of the job in each cell; "" for none. */
  seat(worker, jobs, unit) {
    const present = new Set(jobs.map((job) => job.key));
    const cells = (this.byWorker.get(worker) ?? []).map((key) => (present.has(key) ? key : ""));
    for (const job of jobs) {
      let missing = Math.ceil(job.gpus / unit) - cells.filter((key) => key === job.key).length;
      for (let at = 0; missing > 0; at += 1) {
        if (at >= cells.length) cells.push("");
        if (!cells[at]) { cells[at] = job.key; missing -= 1; }
      }
    }
    while (cells.length && !cells[cells.length - 1]) cells.pop();
    this.byWorker.set(worker, cells);
    return cells;
  }
}

/**
 * @param {{queues: any[], flows: any[], workers: any[], jobs: any[]}} fleet
 * @param {number} width In pixels.
 * @param {Seats} seats
 */
export function layOut(fleet, width, seats) {
  const narrow = width < 720;
  const gpus = fleet.workers.reduce((sum, worker) => sum + (worker.gpus ?? 0), 0);
  const unit = gpus > 4 * MAX_SQUARES ? 64 : gpus > MAX_SQUARES ? 8 : 1;
  const columns = narrow
    ? { line: 0, lineWidth: width, bar: 0, barWidth: width, cluster: 0, clusterWidth: width }
    : { line: 0, lineWidth: width * 0.34, bar: width * 0.39, barWidth: width * 0.25, cluster: width * 0.69, clusterWidth: width * 0.31 };
  const squares = [];
  const lines = layLines(fleet, columns, narrow, unit, squares);
  const clusters = layClusters(fleet, columns, narrow ? lines.height : 0, unit, seats, squares);
  const ribbons = narrow ? [] : layRibbons(fleet.flows, lines.bars);
  return { narrow, unit, columns, lines: lines.rows, ribbons, clusters: clusters.cards, squares, height: Math.max(lines.height, clusters.height) };
}

function layLines(fleet, columns, narrow, unit, squares) {
  const rows = [];
  const bars = new Map();
  let y = 26;
  for (const queue of fleet.queues.slice(0, MAX_QUEUES)) {
    const waiting = fleet.jobs
      .filter((job) => job.clusterQueue === queue.name && !HOLDS.has(job.phase) && !ENDED.has(job.phase))
      .sort((a, b) => (a.position ?? 1e9) - (b.position ?? 1e9) || a.created.localeCompare(b.created));
    const barY = y + 22;
    const lineY = narrow ? y + 48 : barY;
    const rest = putInLine(waiting, columns.line, lineY, columns.lineWidth - 70, unit, squares);
    const bar = layBar(queue, columns.bar, barY, columns.barWidth, unit);
    bars.set(queue.key, { ...bar, y: barY });
    rows.push({ queue, y, barY, lineY, waiting: waiting.length, waitingGpus: sum(waiting), rest, bar });
    y += narrow ? 84 : 66;
  }
  return { rows, bars, height: y };
}

function putInLine(waiting, x, y, room, unit, squares) {
  let at = x;
  for (let index = 0; index < waiting.length; index += 1) {
    const job = waiting[index];
    const cells = Math.ceil(job.gpus / unit);
    if (at + cells * STEP > x + room) return { jobs: waiting.length - index, x: at };
    for (let cell = 0; cell < cells; cell += 1) {
      squares.push({ key: `${job.key}#${cell}`, job, x: at + cell * STEP, y, waits: true });
    }
    at += cells * STEP + 8;
  }
  return { jobs: 0, x: at };
}

/** The bar of a queue's quota: own and used, free, lent; then what it borrows. */
function layBar(queue, x, y, room, unit) {
  const own = Math.max(0, queue.gpus.used - queue.gpus.borrowed);
  const parts = [
    ["own", own], ["free", Math.max(0, queue.gpus.nominal - own - queue.gpus.lent)],
    ["lent", queue.gpus.lent], ["borrowed", queue.gpus.borrowed],
  ];
  const total = parts.reduce((count, [, gpus]) => count + gpus, 0) / unit;
  const step = Math.min(STEP, room / Math.max(1, total + 0.5));
  const cells = [];
  let at = x;
  for (const [part, gpus] of parts) {
    if (part === "borrowed" && gpus) at += 8;
    for (let cell = 0; cell < Math.round(gpus / unit); cell += 1) {
      cells.push({ part, x: at, width: Math.max(2, step - 3) });
      at += step;
    }
  }
  return { cells, end: at };
}

function layRibbons(flows, bars) {
  const taken = new Map();
  const take = (key, part, amount) => {
    const bar = bars.get(key);
    if (!bar) return null;
    const cells = bar.cells.filter((cell) => cell.part === part);
    const from = taken.get(key + part) ?? 0;
    taken.set(key + part, from + amount);
    const mine = cells.slice(from, from + amount);
    if (!mine.length) return null;
    const last = mine[mine.length - 1];
    return { left: mine[0].x, right: last.x + last.width, y: bar.y };
  };
  return flows.map((flow) => ({ flow, from: take(flow.lender, "lent", flow.amount), to: take(flow.borrower, "borrowed", flow.amount) }))
    .filter((ribbon) => ribbon.from && ribbon.to);
}

function layClusters(fleet, columns, top, unit, seats, squares) {
  const cards = [];
  let y = top + 26;
  const perRow = Math.max(4, Math.floor((columns.clusterWidth - 24) / STEP));
  for (const worker of fleet.workers) {
    const jobs = fleet.jobs.filter((job) => job.worker === worker.key && HOLDS.has(job.phase));
    const seated = seats.seat(worker.key, jobs, unit);
    const cells = Math.max(Math.ceil((worker.gpus ?? 0) / unit), seated.length);
    const byKey = new Map(jobs.map((job) => [job.key, job]));
    const counts = new Map();
    const places = [];
    for (let cell = 0; cell < cells; cell += 1) {
      const place = { x: columns.cluster + 12 + (cell % perRow) * STEP, y: y + 44 + Math.floor(cell / perRow) * STEP };
      places.push({ ...place, extra: cell >= (worker.gpus ?? 0) / unit });
      const job = byKey.get(seated[cell] ?? "");
      if (!job) continue;
      const index = counts.get(job.key) ?? 0;
      counts.set(job.key, index + 1);
      squares.push({ key: `${job.key}#${index}`, job, ...place, waits: false });
    }
    const height = 44 + Math.max(1, Math.ceil(cells / perRow)) * STEP + 10;
    cards.push({ worker, x: columns.cluster, y, width: columns.clusterWidth, height, places, jobs: jobs.length });
    y += height + 14;
  }
  return { cards, height: y };
}

function sum(jobs) {
  return jobs.reduce((gpus, job) => gpus + job.gpus, 0);
}
