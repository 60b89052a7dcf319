"""Why Workloads of rows wait: in the words of the explanation, and not asked for all the time."""

from __future__ import annotations

import asyncio
from typing import Any, cast

from multiqueue.engine.engine import Engine
from multiqueue.model.cluster_queue import LocalQueue, QueueingStrategy
from multiqueue.model.resource_flavor import ResourceFlavor
from multiqueue.visibility.fleet.reasons import LEAST_SECONDS, MOST_SECONDS, RowReasons
from tests.builders.engine import NAMESPACE, flavor_quotas, make_queue, make_workload, pod_set
from tests.engine_world import EngineWorld
from tests.virtual_time import VirtualTimeLoop, run_virtual


def make_reasons(world: EngineWorld, *, leads: bool = True, slow: bool = False) -> RowReasons:
    leading = asyncio.Event()
    if leads:
        leading.set()
    return RowReasons(cast("Engine", SlowEngine(world.engine)) if slow else world.engine, leading)


def tell(reasons: RowReasons, name: str, queue: str = "cq", *, uid: str = "") -> str:
    return reasons.find_words(f"{NAMESPACE}/{name}", uid or f"uid-{name}", queue)


class SlowEngine:
    """An engine that takes five seconds to read a ClusterQueue."""

    def __init__(self, engine: Engine) -> None:
        self._engine = engine

    def __getattr__(self, name: str) -> Any:
        return getattr(self._engine, name)

    def cluster_queue_state(self, name: str) -> Any:
        loop = asyncio.get_running_loop()
        assert isinstance(loop, VirtualTimeLoop)
        loop.now += 5
        return self._engine.cluster_queue_state(name)


def strict_world() -> EngineWorld:
    """4 GPUs in a StrictFIFO queue: "runs" has 2, "large" waits for 4, "small" for 2."""
    strict = QueueingStrategy.STRICT_FIFO
    world = EngineWorld(make_queue("cq", flavor_quotas("a100", gpu=4), strategy=strict))
    for name, gpus in (("runs", 2), ("large", 4), ("small", 2)):
        world.submit(make_workload(name, pod_sets=[pod_set(gpu=gpus)]))
        world.write_back(world.cycle())
    return world


def test_a_job_behind_the_first_of_a_strict_queue_names_it_and_what_it_waits_for() -> None:
    async def main() -> None:
        reasons = make_reasons(strict_world())
        head = "nvidia.com/gpu in flavor a100: 2 more needed"
        assert tell(reasons, "large") == head
        assert tell(reasons, "small") == (
            f"ClusterQueue cq is StrictFIFO, so it waits behind {NAMESPACE}/large (4 GPUs, "
            f"priority 0), which starts first. That one waits: {head}"
        )

    run_virtual(main())


def test_words_are_those_of_one_moment_and_then_those_of_the_next() -> None:
    async def main() -> None:
        world = strict_world()
        reasons = make_reasons(world)
        moment = reasons.renew()
        assert "2 more needed" in tell(reasons, "large")
        world.finish("runs")
        assert "2 more needed" in tell(reasons, "large")
        assert reasons.renew() == moment
        await asyncio.sleep(LEAST_SECONDS)
        assert reasons.renew() == moment + 1
        assert tell(reasons, "large").startswith("flavor a100 has room now")

    run_virtual(main())


def test_a_flavor_that_is_added_is_in_the_words_of_the_next_moment() -> None:
    async def main() -> None:
        world = strict_world()
        reasons, before = make_reasons(world), "nvidia.com/gpu in flavor a100: 2 more needed"
        assert tell(reasons, "large") == before
        world.engine.upsert_resource_flavor(ResourceFlavor(name="h100"))
        flavors = flavor_quotas("a100", gpu=4), flavor_quotas("h100", gpu=1)
        strict = QueueingStrategy.STRICT_FIFO
        world.engine.upsert_cluster_queue(make_queue("cq", *flavors, strategy=strict))
        assert tell(reasons, "small").endswith(f"That one waits: {before}")
        world.cycle()
        await asyncio.sleep(LEAST_SECONDS)
        assert "in flavor h100" in tell(reasons, "small")

    run_virtual(main())


def test_nothing_is_said_about_a_workload_that_waits_in_another_cluster_queue_by_now() -> None:
    async def main() -> None:
        world = strict_world()
        reasons = make_reasons(world)
        assert tell(reasons, "large")
        world.engine.upsert_cluster_queue(make_queue("other", flavor_quotas("h100", gpu=1)))
        moved = LocalQueue(key=f"{NAMESPACE}/lq", cluster_queue="other")
        world.engine.upsert_local_queue(moved)
        assert tell(reasons, "small") == ""
        assert "flavor a100" not in tell(reasons, "large", "other")

    run_virtual(main())


def test_a_moment_has_an_end_even_if_the_words_take_long() -> None:
    async def main() -> None:
        reasons = make_reasons(strict_world(), slow=True)
        moment = reasons.renew()
        assert "2 more needed" in tell(reasons, "large")
        await asyncio.sleep(MOST_SECONDS - 6)
        assert reasons.renew() == moment
        await asyncio.sleep(1)
        assert reasons.renew() == moment + 1

    run_virtual(main())


def test_words_are_those_of_one_workload_in_one_queue_and_no_words_are_not_kept() -> None:
    async def main() -> None:
        world = strict_world()
        reasons = make_reasons(world)
        assert tell(reasons, "new") == ""
        world.submit(make_workload("new", pod_sets=[pod_set(gpu=1)]))
        assert tell(reasons, "new").startswith("ClusterQueue cq is StrictFIFO")
        assert tell(reasons, "large", "elsewhere") == ""
        assert "2 more needed" in tell(reasons, "large")
        world.submit(make_workload("large", uid="another", pod_sets=[pod_set(gpu=8)]))
        assert tell(reasons, "large", uid="another").startswith("Workload is pending evaluation")

    run_virtual(main())


def test_only_the_leader_knows() -> None:
    async def main() -> None:
        reasons = make_reasons(strict_world(), leads=False)
        assert tell(reasons, "large") == ""

    run_virtual(main())
