"""What dispatchers are told of real workers, on which others submit too."""

from __future__ import annotations

from datetime import timedelta

from multiqueue.api.names import DATA, PRICES, RUNTIME, SPEEDS
from multiqueue.forecast.worker_forecast import WorkerForecast
from multiqueue.kube.resources import JOBS, MULTIKUEUE_CLUSTERS
from multiqueue.plugins import Basis, DispatchView, Prospect
from tests.builders.jobs import make_gpu_job
from tests.builders.queues import GPU
from tests.multikueue_world import make_config, multikueue_world
from tests.recording_dispatcher import Recording

CONFIG = make_config(dispatcher_name="recording")


def make_annotated(name: str, gpus: int, *, local: bool = False, **annotations: str) -> dict:
    job = make_gpu_job(name, gpus=gpus, **({"managed_by": None} if local else {}))
    job["metadata"]["annotations"] = annotations
    return job


async def test_who_else_is_there_is_foreseen_and_what_was_sent_counts():
    plugin = Recording()
    async with (
        multikueue_world("w", real_workers=True) as world,
        world.manager(CONFIG, dispatchers={"recording": plugin}) as context,
    ):
        told: list[tuple[str, str, str]] = []
        record = context.recorder.event

        def listen(regarding, kind, reason, message):
            told.append((regarding["kind"], reason, message))
            record(regarding, kind, reason, message)

        context.recorder.event = listen
        await world.until_connected()
        annotations = {PRICES: "gpu=1.5", DATA: "imagenet", SPEEDS: "h100"}
        changes = {"metadata": {"annotations": annotations}}
        await world.hub.patch(MULTIKUEUE_CLUSTERS, "w", changes)
        theirs = make_annotated("theirs", 6, local=True, **{RUNTIME: "2h"})
        await world.workers["w"].create(JOBS, theirs)
        forecast = world.multikueue.fleet.find_part("w", WorkerForecast)
        informer = forecast.others
        await world.until(
            lambda: any(
                seen.workload and seen.workload.reservation for seen in informer.store.list()
            ),
            "their Workload runs, and is seen",
            on="w",
        )
        ours = make_annotated("ours", 4, **{RUNTIME: "soon", DATA: "imagenet,laion"})
        await world.hub.create(JOBS, ours)
        await world.until(lambda: plugin.views, "the dispatcher is asked")
        view = plugin.views[0]
        (cluster,) = view.clusters
        forecast = cluster.forecast
        assert (forecast.prospect, cluster.prices, cluster.data) == (
            Prospect.WAITS,
            {"gpu": 1500},
            {"imagenet"},
        )
        assert timedelta(hours=1) < forecast.start.at - view.now < timedelta(hours=3)
        assert view.workload.data == {"imagenet", "laion"}
        assert view.workload.runtime.basis is Basis.ASSUMED
        malformed = {
            (kind, words.split(" is malformed")[0])
            for kind, r, words in told
            if "is malformed" in words
        }
        assert malformed == {
            ("MultiKueueCluster", f"metadata.annotations[{SPEEDS}]"),
            ("Workload", f"metadata.annotations[{RUNTIME}]"),
        }

        async def show(name: str) -> DispatchView:
            def find() -> DispatchView | None:
                keys = (v for v in plugin.views if v.workload.key.startswith(f"team-a/job-{name}-"))
                return next(keys, None)

            await world.until(find, f"the dispatcher is asked about {name}")
            return find()

        await world.hub.create(JOBS, make_annotated("small", 1, **{RUNTIME: "10m"}))
        small = await show("small")
        fits = small.clusters[0].forecast
        assert (fits.prospect, fits.taken) == (Prospect.FITS, {("gpu", GPU): 1})
        assert small.workload.runtime.basis is Basis.DECLARED
        await world.hub.create(JOBS, make_annotated("pair", 2, **{RUNTIME: "10m"}))
        pair = await show("pair")
        # One of two GPUs is on its way to the first, seen there or not.
        assert pair.clusters[0].forecast.prospect is Prospect.WAITS
