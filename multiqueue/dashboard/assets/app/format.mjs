// Words and numbers for people. Pure; tests/unit/dashboard/test_words.py runs it in Node.

/** How each phase is shown: a glyph, a word, and the class of its colour. */
export const PHASES = {
  Queued: ["◷", "waiting", "waiting"],
  Checking: ["◫", "checking", "waiting"],
  Dispatched: ["⇢", "dispatched", "sent"],
  Admitted: ["◐", "admitted", "sent"],
  Starting: ["◔", "starting", "sent"],
  Running: ["●", "running", "running"],
  Moving: ["⇄", "moving", "moving"],
  Evicted: ["↩", "evicted", "moving"],
  Deactivated: ["‖", "suspended", "held"],
  Rejected: ["⊘", "rejected", "failed"],
  Succeeded: ["✓", "finished", "done"],
  Failed: ["✕", "failed", "failed"],
  Replaced: ["⧉", "replaced", "held"],
};
export const WAITS = new Set(["Queued", "Checking", "Evicted"]);
export const HOLDS = new Set(["Dispatched", "Admitted", "Starting", "Running", "Moving"]);
export const ENDED = new Set(["Succeeded", "Failed", "Replaced", "Rejected"]);

/** A span of time in its two largest units. @param {number} seconds */
export function duration(seconds) {
  const s = Math.max(0, Math.round(seconds));
  if (s < 60) return `${s} s`;
  if (s < 3600) return s % 60 && s < 600 ? `${Math.floor(s / 60)} min ${s % 60} s` : `${Math.floor(s / 60)} min`;
  if (s < 86400) return `${Math.floor(s / 3600)} h ${Math.floor((s % 3600) / 60)} min`;
  return `${Math.floor(s / 86400)} d ${Math.floor((s % 86400) / 3600)} h`;
}

/** @param {string | null | undefined} time @param {number} now */
export function ago(time, now) {
  return time ? duration((now - Date.parse(time)) / 1000) : "-";
}

/** @param {string | null | undefined} time */
export function clock(time, seconds = true) {
  if (!time) return "-";
  const at = new Date(time);
  const pad = (n) => String(n).padStart(2, "0");
  const short = `${pad(at.getHours())}:${pad(at.getMinutes())}`;
  return seconds ? `${short}:${pad(at.getSeconds())}` : short;
}

const MINUTE = 60_000;
/** A start so long after its range still counts as inside. */
const SLACK = MINUTE / 2;

/** When a job starts, in the words of `multiqueue eta` (views/start.py). @param {any} start @param {number} now */
export function startWords(start, now) {
  if (!start) return "";
  const kept = start.promised ? `room is kept for it, by ${moment(start.promised, Date.parse(start.promised) - now, now)} at the latest` : "";
  if (!start.at) return kept || "not known";
  const [at, earliest, latest] = [start.at, start.earliest, start.latest].map((time) => Date.parse(time));
  return [when(at, earliest, latest, now), kept].filter(Boolean).join("; ");
}

/** Why a start is not known, or what its estimate rests on. @param {any} start */
export function startNotes(start) {
  return start?.reason ?? (start?.caveats ?? []).map((caveat) => caveat.message).join("; ");
}

function when(at, earliest, latest, now) {
  if (at <= now && now <= latest + SLACK) return "now";
  if (latest + SLACK < now) return `later than foreseen (by ${moment(latest, now - latest, now)})`;
  if (latest - now < MINUTE) return "in under a minute";
  const [low, middle, high] = [earliest, at, latest].map((time) => moment(Math.max(time, now), at - now, now));
  return low === high ? `about ${middle}` : `about ${middle} (${low} to ${high})`;
}

/** A time, rounded to what is known so far ahead; with its day if that is not today. */
function moment(time, distance, now) {
  const step = distance < 120 * MINUTE ? MINUTE : distance < 1440 * MINUTE ? 15 * MINUTE : 60 * MINUTE;
  const at = new Date(time);
  const midnight = new Date(at).setHours(0, 0, 0, 0);
  let rounded = midnight + Math.round((at.getTime() - midnight) / step) * step;
  if (rounded < now && now <= at.getTime()) rounded += step;
  const date = new Date(rounded).toDateString();
  const [weekday, month, day] = date.split(" ");
  return `${date === new Date(now).toDateString() ? "" : `${weekday} ${day} ${month} `}${clock(rounded, false)}`;
}

/** A reason with the short name of GPUs. @param {string} why */
export function brief(why) {
  return why.replace(/nvidia\.com\/gpu/g, "GPU");
}

/** A number with separators, or a dash. @param {number | null | undefined} value */
export function number(value) {
  return value === null || value === undefined ? "-" : value.toLocaleString("en");
}

/** An amount of the fleet API: cpu in milli, memory in bytes. */
export function amount(resource, value) {
  if (value === null || value === undefined) return "∞";
  if (resource === "cpu") return number(value / 1000);
  if (resource === "memory" || resource.endsWith("storage")) return `${number(Math.round(value / 2 ** 30))} Gi`;
  return number(value);
}

/** Control and bidirectional characters as symbols: text of the cluster is data. @param {string} text */
export function safe(text) {
  return String(text ?? "").replace(/[\u0000-\u001f\u007f-\u009f\u061c\u200e\u200f\u2028-\u202e\u2066-\u2069]/g, "␣");
}

/** Whether a resource is an accelerator: whole devices of a vendor. */
export function isAccelerator(resource) {
  return resource.includes("/") && !resource.startsWith("kubernetes.io/") && !resource.startsWith("hugepages");
}

/** One word for many. */
export function count(value, word, plural = `${word}s`) {
  return `${number(value)} ${value === 1 ? word : plural}`;
}

/** The unit for amounts of device time: hours, or minutes if all is short. @param {number} seconds */
export function timeUnit(seconds) {
  return seconds < 36_000 ? { seconds: 60, words: "minutes" } : { seconds: 3600, words: "hours" };
}

/** Device time in a unit. @param {number} seconds @param {{seconds: number}} unit */
export function amountOfTime(seconds, unit) {
  const value = seconds / unit.seconds;
  return number(value < 100 ? Math.round(value * 10) / 10 : Math.round(value));
}

/** @param {string} month `2026-01` */
export function monthName(month) {
  const at = new Date(`${month}-01T00:00:00Z`);
  return Number.isNaN(at.getTime()) ? safe(month) : at.toLocaleDateString("en", { month: "long", year: "numeric", timeZone: "UTC" });
}
