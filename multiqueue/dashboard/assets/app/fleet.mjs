// The fleet as the pages look at it: rows of several topics joined.
import { sumFlows, sumGpus } from "./draw/layout.mjs";
import { ENDED } from "./format.mjs";

/** The topic of standings that this reader may see. @param {import("./store.mjs").Store} store */
export function standingsOf(store) {
  for (const [name, topic] of store.topics) {
    if (name === "standings" || name.startsWith("standings:")) {
      if (!topic.refused) return topic;
    }
  }
  return store.topic("standings");
}

/** @param {import("./store.mjs").Store} store */
export function readFleet(store) {
  const standings = [...standingsOf(store).rows.values()];
  const quotas = [...store.topic("quotas").rows.values()];
  const queues = quotas
    .filter((row) => row.kind === "ClusterQueue")
    .map((row) => ({ ...row, name: row.key.split(":").pop(), gpus: sumGpus(row.quotas) }))
    .sort((a, b) => a.name.localeCompare(b.name));
  const jobs = standings.filter((row) => !ENDED.has(row.phase));
  const teams = new Map(jobs.map((job) => [`clusterqueue:${job.clusterQueue}`, job.team]));
  return {
    queues,
    cohorts: quotas.filter((row) => row.kind === "Cohort"),
    flows: sumFlows(quotas),
    workers: [...store.topic("workers").rows.values()].sort((a, b) => a.key.localeCompare(b.key)),
    jobs: jobs.sort((a, b) => a.created.localeCompare(b.created)),
    all: standings,
    teamOf: (key) => teams.get(key) ?? key.split(":").pop(),
  };
}
