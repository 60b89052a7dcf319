// The tree of cohorts and queues in numbers, and who lends to whom in it.
import { html } from "../html.mjs";
import { readFleet } from "../fleet.mjs";
import { amount, count, safe } from "../format.mjs";
import { Look, QueueLink, Table } from "../parts.mjs";
import { QuotaTable } from "./queues.mjs";

/** @param {{store: import("../store.mjs").Store}} props */
export default function QuotaPage({ store }) {
  const fleet = readFleet(store);
  const nodes = [...fleet.cohorts, ...fleet.queues];
  const roots = nodes.filter((node) => !node.cohort || !nodes.some((each) => each.key === node.cohort));
  return html`<main id="main"><h1>Quota</h1>
    <${Look} topic=${store.topic("quotas")} empty="There is no ClusterQueue yet: kubectl apply -k config/samples makes some.">
    ${roots.map((root) => html`<${Node} key=${root.key} node=${root} nodes=${nodes} level=${0} />`)}<//></main>`;
}

function Node({ node, nodes, level }) {
  const name = node.key.split(":").pop();
  const children = nodes.filter((each) => each.cohort === node.key);
  const flows = (node.flows ?? []).filter((flow) => flow.amount > 0).map((flow) => ({ ...flow, key: flow.flavor + flow.resource + flow.lender + flow.borrower }));
  return html`<section class=${level ? "card-like nested" : "card-like"}>
    <h2>${node.kind === "Cohort" ? `Cohort ${safe(name)}` : html`Queue <${QueueLink} name=${name} />`}
      <span class="soft"> ${count(node.pending, "job")} waiting, ${count(node.admitted, "job")} admitted</span></h2>
    <${QuotaTable} quota=${node} />
    ${flows.length > 0 && html`<h3>Who lends to whom <span class="soft">pro rata of what each could lend</span></h3>
      <${Table} caption="Who lends to whom" rows=${flows} columns=${[
        { title: "Lends", cell: (f) => safe(f.lender.split(":").pop()) }, { title: "Borrows", cell: (f) => safe(f.borrower.split(":").pop()) },
        { title: "Flavor", cell: (f) => safe(f.flavor) }, { title: "Resource", cell: (f) => safe(f.resource) },
        { title: "Amount", right: true, cell: (f) => amount(f.resource, f.amount) },
      ]} />`}
    ${children.map((child) => html`<${Node} key=${child.key} node=${child} nodes=${nodes} level=${level + 1} />`)}
  </section>`;
}
