"""The job kinds that a configuration may name."""

from __future__ import annotations

SUPPORTED_FRAMEWORKS = frozenset({"batch/job"})
KNOWN_FRAMEWORKS = SUPPORTED_FRAMEWORKS | {
    "jobset.x-k8s.io/jobset",
    "kubeflow.org/jaxjob",
    "kubeflow.org/mpijob",
    "kubeflow.org/paddlejob",
    "kubeflow.org/pytorchjob",
    "kubeflow.org/tfjob",
    "kubeflow.org/xgboostjob",
    "ray.io/raycluster",
    "ray.io/rayjob",
    "ray.io/rayservice",
    "trainer.kubeflow.org/trainjob",
    "workload.codeflare.dev/appwrapper",
    "sparkoperator.k8s.io/sparkapplication",
    "pod",
    "deployment",
    "statefulset",
    "leaderworkerset.x-k8s.io/leaderworkerset",
}
"""Of upstream. Those that are not supported may be named, as its own files do: on a cluster without
such a kind upstream does nothing, either. Deviates: with one, its jobs are not queued; that is
warned of.
"""
