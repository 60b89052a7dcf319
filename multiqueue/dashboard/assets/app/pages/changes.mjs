// What changed in queues, cohorts, flavors, checks, workers and profiles, and what was done on the manager's own dashboard.
import { html } from "../html.mjs";
import { ago, clock, safe } from "../format.mjs";
import { Look, Table, useNow } from "../parts.mjs";

/** @param {{store: import("../store.mjs").Store}} props */
export default function ChangesPage({ store }) {
  const now = useNow();
  const topic = store.topic("changes");
  const rows = [...topic.rows.values()].sort((a, b) => Number(b.key) - Number(a.key));
  return html`<main id="main"><h1>Changes</h1>
    <${Look} topic=${topic} empty="Nothing has changed since the manager started.">
    <${Table} caption="Changes" rows=${rows} columns=${[
      { title: "When", cell: (row) => html`<time title=${`${ago(row.at, now)} ago`}>${clock(row.at)}</time>` },
      { title: "Object", cell: (row) => `${safe(row.kind)} ${safe(row.object)}` }, { title: "What", cell: (row) => safe(row.by ? `${row.action} by ${row.by}` : row.action) },
      { title: "Fields", wide: true, cell: (row) => html`<ul class="fields">${(row.fields ?? []).map((field) => html`<li><code>${safe(field.path)}</code> ${field.from !== null && html`<del>${safe(field.from)}</del>`} ${safe(field.to ?? "removed")}</li>`)}</ul>` },
    ]} /><//></main>`;
}
