"""Pools in the sandbox: whoever lowers the number of workers, whatever dies, no worker that works for somebody is lost for long."""

from __future__ import annotations

import random
from collections import Counter
from collections.abc import Iterator
from typing import Any

import pytest
from tests.capacity.doors import workflow
from tests.clusters.conftest import shared_room, shared_sandbox  # noqa: F401 - fixtures
from tests.clusters.crank import Turned
from tests.clusters.worlds import REGION, SandboxProcess
from tests.inference import stands
from tests.inference.stands import Stand

from instantstart.base import problems
from instantstart.capabilities.inference.pools import plans, specs, views
from instantstart.capabilities.pool_keeper import PoolKeeper
from instantstart.capabilities.room import Room
from instantstart.ensure.inference import pool_guard, pools, serving
from instantstart.ensure.inference.pools import Relabel
from instantstart.store.records import ClusterRow

NS, POOL, SIZE = "default", "warm", 6
BUSINESSES = ("chat", "search", "mail")
#: workers that are simulated: what is asked of them is only to be there
SLEEPER: dict[str, Any] = {"argv": ["sleep", "1d"], "image": "busybox:1", "gpus": 0, "cpu": "100m", "memory": "64Mi", "drain_seconds": 1}


@pytest.fixture(scope="module")
def stand(shared_room: Room, shared_sandbox: SandboxProcess) -> Stand:  # noqa: F811
    """One cluster for the file; the keeper finds it in the register."""
    made = stands.stand(shared_room, shared_sandbox, nodes=2)
    shared_room.store.clusters.upsert(ClusterRow(tag=stands.TAG, region=REGION))
    return made


@pytest.fixture
def warm(stand: Stand) -> Iterator[Stand]:
    """A pool of six, and three businesses without workers; gone afterwards."""
    made = run(stand, "model_pool.create", until="rollout", workers=SIZE, **SLEEPER)
    assert made.stages["rollout"].done, made.problem
    for business in BUSINESSES:
        assert run(stand, "model_binding.create", business=business).status == "succeeded"
    yield stand
    for business in BUSINESSES:
        run(stand, "model_binding.delete", business=business)
    assert run(stand, "model_pool.delete").status == "succeeded"


def run(stand: Stand, operation: str, until: str | None = None, **more: Any) -> Turned:
    declared = workflow(operation)
    spec = declared.spec.model_validate({"tag": stands.TAG, "region": REGION, "namespace": NS, "name": POOL, **more})
    return stand.crank.run(declared, spec, until)


def pool(stand: Stand) -> pools.Pool:
    return pools.get(stand.kube, NS, POOL)


def assign(stand: Stand, worker: str, business: str, expected: str = "unassigned") -> bool:
    return pools.assign(stand.kube, Relabel(NS, POOL, worker, business, expected))[1]


def release(stand: Stand, worker: str, business: str) -> bool:
    return pools.release(stand.kube, Relabel(NS, POOL, worker, "unassigned", business))[1]


def bound(stand: Stand) -> dict[str, str]:
    return {w.name: str(w.business) for w in pool(stand).bound()}


def settle(stand: Stand, keeper: PoolKeeper) -> None:
    """Let the world and the keeper come to rest: every business has its number again."""

    def look() -> bool:
        keeper.round()
        now = pool(stand)
        full = len(now.workers) == now.size and all(w.ready and not w.leaving for w in now.workers)
        return full and all(len(now.bound(b.business)) == b.workers for b in now.bindings)

    stand.await_fact(look, seconds=10)


# --- one worker


def test_a_worker_is_given_by_its_label_and_its_service_leads_to_it(warm: Stand) -> None:
    free = pool(warm).free()[0]
    assert assign(warm, free.name, "chat")
    pod = warm.kube.get("Pod", free.name, NS)
    assert pod["metadata"]["uid"] == free.uid, "the label changed, not the pod"
    assert pod["metadata"]["labels"]["business"] == "chat"
    assert int(pod["metadata"]["annotations"][serving.DELETION_COST]) > 0
    assert not assign(warm, free.name, "chat"), "once more changes nothing"
    service = pools.binding_name(POOL, "chat")
    slices = warm.await_fact(lambda: warm.kube.list("EndpointSlice", NS, labels=f"kubernetes.io/service-name={service}"), seconds=1)
    assert [e["targetRef"]["name"] for s in slices for e in s.get("endpoints") or ()] == [free.name]
    assert [b.workers for b in pool(warm).bindings if b.business == "chat"] == [1]
    assert release(warm, free.name, "chat")
    assert not release(warm, free.name, "chat")
    assert [b.workers for b in pool(warm).bindings if b.business == "chat"] == [0]


def test_a_worker_counts_once_when_the_answer_to_its_counting_is_lost(warm: Stand) -> None:
    """Counted twice, the keeper would give the business a worker that nobody asked for."""
    free = pool(warm).free()[0]
    warm.sandbox.fault("kubernetes:patch/services", when="after", count=1)
    assert assign(warm, free.name, "mail")
    struck = [rule["hits"] for rule in warm.sandbox.ask("faults")]
    warm.sandbox.clear()
    assert struck == [1], "no answer was lost, so nothing is proven"
    assert [b.workers for b in pool(warm).bindings if b.business == "mail"] == [1]


def test_a_worker_that_was_given_and_not_counted_is_counted_by_the_operation(warm: Stand) -> None:
    free = pool(warm).free()[0]
    warm.sandbox.fault("kubernetes:patch/services", code="Forbidden", message="no", status=403, count=None)
    with pytest.raises(problems.Problem):
        assign(warm, free.name, "mail")
    warm.sandbox.clear()
    assert [b.workers for b in pool(warm).bindings if b.business == "mail"] == [0]
    assert run(warm, "model_binding.create", until="workers", business="mail", workers=1).stages["workers"].done
    assert [b.workers for b in pool(warm).bindings if b.business == "mail"] == [1]
    assert bound(warm)[free.name] == "mail"


def test_a_worker_moves_only_from_where_it_is_believed_to_be(warm: Stand) -> None:
    free = pool(warm).free()[0].name
    assign(warm, free, "chat")
    with pytest.raises(problems.Conflict) as taken:
        assign(warm, free, "search")
    assert taken.value.code == "model_pool.worker_taken"
    assert taken.value.evidence["business"] == "chat"
    with pytest.raises(problems.Conflict):
        release(warm, free, "search")
    assert assign(warm, free, "search", expected="chat")
    assert {b.business: b.workers for b in pool(warm).bindings} == {"chat": 0, "mail": 0, "search": 1}


def test_a_label_that_changed_between_look_and_write_is_not_overwritten(warm: Stand) -> None:
    seen = pool(warm).free()[0]
    assign(warm, seen.name, "mail")
    with pytest.raises(problems.Conflict) as taken:
        pools.relabel(warm.kube, seen, "chat")
    assert taken.value.evidence == {"worker": seen.name, "business": "mail", "expected": "unassigned"}
    assert bound(warm)[seen.name] == "mail"


@pytest.mark.parametrize(
    ("worker", "business", "code"),
    [("nowhere", "chat", "model_pool.worker_unknown"), (None, "nobody", "model_pool.binding_unknown")],
)
def test_who_or_what_is_not_there_is_told(warm: Stand, worker: str | None, business: str, code: str) -> None:
    with pytest.raises(problems.NotFound) as missing:
        assign(warm, worker or pool(warm).free()[0].name, business)
    assert missing.value.code == code


def test_a_worker_that_is_not_ready_is_not_given(warm: Stand) -> None:
    chosen = pool(warm).free()[0].name
    warm.kube.delete("Pod", chosen, NS)
    late = warm.await_fact(lambda: next((w for w in pool(warm).workers if not w.ready and not w.leaving), None), seconds=0.2)
    with pytest.raises(problems.Conflict) as refused:
        assign(warm, late.name, "chat")
    assert refused.value.code == "model_pool.worker_not_ready"


# --- fewer workers


def test_a_pool_does_not_become_smaller_than_what_is_bound(warm: Stand) -> None:
    for worker in pool(warm).free()[:3]:
        assign(warm, worker.name, "chat")
    with pytest.raises(problems.Conflict) as refused:
        plans.prepare_scale(warm.room, warm.job.site, (NS, POOL), 2)
    assert "3 workers of warm work for somebody (chat 3)" in refused.value.detail
    before = bound(warm)
    done = run(warm, "model_pool.scale", workers=3)
    assert done.status == "succeeded", done.problem
    assert bound(warm) == before
    assert len(pool(warm).workers) == 3


def test_an_autoscaler_that_asks_nobody_takes_no_bound_worker(warm: Stand) -> None:
    for worker in pool(warm).free()[:2]:
        assign(warm, worker.name, "search")
    before = bound(warm)
    warm.kube.patch("Deployment", POOL, {"spec": {"replicas": 0}}, namespace=NS, subresource="scale")
    warm.await_fact(lambda: len(pool(warm).workers) == 2, seconds=5)
    for _ in range(5):
        warm.sandbox.warp(30)
    assert bound(warm) == before
    told = views.get_pool(warm.room, stands.TAG, NS, POOL).item.warnings
    assert any("wants 0 workers, and 2 work for somebody: none of those is taken" in text for text in told)


def test_the_guard_is_made_anew_where_somebody_took_it_away(warm: Stand) -> None:
    warm.kube.delete(pool_guard.BINDING, pool_guard.NAME)
    assert not views.get_pool(warm.room, stands.TAG, NS, POOL).item.guarded
    assert run(warm, "model_pool.scale", workers=SIZE - 1).status == "succeeded"
    assert pool_guard.stands(warm.kube)


def test_a_scale_in_that_was_cut_off_gives_its_marked_workers_back(warm: Stand) -> None:
    cut = run(warm, "model_pool.scale", until="choose", workers=4)
    assert len(cut.learned["choose"]["marked"]) == 2
    with pytest.raises(problems.Conflict):
        assign(warm, cut.learned["choose"]["marked"][0], "chat")
    keeper = PoolKeeper(warm.room)
    keeper.round()
    assert len(pool(warm).free()) == 4, "it may be in flight still: nothing is done at the first look"
    keeper.round()
    assert len(pool(warm).free()) == SIZE


def test_the_disruption_budget_follows_the_size_and_a_creation_that_was_cut_off_makes_it(warm: Stand) -> None:
    def there() -> bool:
        return warm.kube.find("PodDisruptionBudget", POOL, NS) is not None

    assert there()
    assert run(warm, "model_pool.scale", workers=1).status == "succeeded"
    assert not there()
    assert run(warm, "model_pool.scale", until="resize", workers=SIZE).stages["resize"].done
    assert there()
    warm.kube.delete("PodDisruptionBudget", POOL, NS)  # as a kill between the two writes leaves it
    assert run(warm, "model_pool.create", until="objects", workers=SIZE, **SLEEPER).stages["objects"].done
    assert there()


# --- what dies


def test_a_lost_worker_is_replaced_by_a_free_one(warm: Stand) -> None:
    lost = pool(warm).free()[0].name
    assign(warm, lost, "chat")
    warm.kube.delete("Pod", lost, NS)
    settle(warm, PoolKeeper(warm.room))
    assert Counter(bound(warm).values()) == {"chat": 1}
    assert lost not in bound(warm)


def test_a_release_in_flight_is_not_undone(warm: Stand) -> None:
    """The count goes before the label: a keeper that looks in between does not give the business another worker."""
    worker = pool(warm).free()[0]
    assign(warm, worker.name, "chat")
    binding = next(b for b in pool(warm).bindings if b.business == "chat")
    pools.count(warm.kube, binding, -1)
    keeper = PoolKeeper(warm.room)
    keeper.round()
    pools.relabel(warm.kube, next(w for w in pool(warm).workers if w.name == worker.name), "unassigned")
    keeper.round()
    keeper.round()
    assert bound(warm) == {}


def test_two_keepers_give_one_worker(warm: Stand) -> None:
    lost = pool(warm).free()[0].name
    assign(warm, lost, "mail")
    warm.kube.delete("Pod", lost, NS)
    warm.await_fact(lambda: lost not in bound(warm), seconds=0.2)
    stale = pool(warm)
    each = next(b for b in stale.bindings if b.business == "mail")
    given = [pools._settle_binding(warm.kube, stale, each, {}) for _ in range(2)]
    assert [len(g) for g in given] == [1, 0]
    assert len(pool(warm).bound("mail")) == 1


class Chaos:
    """Random steps on a pool, and what each business must have after them."""

    def __init__(self, stand: Stand, seed: int) -> None:
        self.stand, self.dice = stand, random.Random(seed)
        self.keeper = PoolKeeper(stand.room)
        self.expected: Counter[str] = Counter()

    def step(self) -> None:
        """One of them, the usual ones more often."""
        often = [self.assign] * 6 + [self.release] * 3 + [self.scale] * 2 + [self.race] * 2 + [self.die] * 2 + [self.restart]
        self.dice.choice(often)()
        self.keeper.round()

    def assign(self) -> None:
        free, business = pool(self.stand).free(), self.dice.choice(BUSINESSES)
        if free and assign(self.stand, self.dice.choice(free).name, business):
            self.expected[business] += 1

    def release(self) -> None:
        held = sorted(bound(self.stand).items())
        if held:
            name, business = self.dice.choice(held)
            release(self.stand, name, business)
            self.expected[business] -= 1

    def scale(self) -> None:
        """What a person asks for: refused when it is too few, and else it takes nobody's worker."""
        wanted, held = self.dice.randint(1, 10), bound(self.stand)
        if wanted < len(held):
            with pytest.raises(problems.Conflict):
                plans.prepare_scale(self.stand.room, self.stand.job.site, (NS, POOL), wanted)
            return
        done = run(self.stand, "model_pool.scale", workers=wanted)
        assert done.status == "succeeded", done.problem
        assert held.items() <= bound(self.stand).items(), "a scale-in took a bound worker"

    def race(self) -> None:
        """An autoscaler that asks nobody."""
        held = bound(self.stand)
        self._resize(self.dice.randint(0, SIZE))
        self.stand.sandbox.warp(10)
        assert held.items() <= bound(self.stand).items(), "an autoscaler took a bound worker"
        self._resize(max(len(held) + 1, SIZE))

    def die(self) -> None:
        living = [w for w in pool(self.stand).workers if not w.leaving]
        if living:
            self.stand.kube.delete("Pod", self.dice.choice(living).name, NS)
            settle(self.stand, self.keeper)

    def restart(self) -> None:
        """Our own process begins anew, and the controllers look at everything again."""
        self.keeper = PoolKeeper(self.stand.room)
        touched = {"metadata": {"annotations": {"touched": str(self.dice.random())}}}
        self.stand.kube.patch("Deployment", POOL, touched, namespace=NS)
        self.stand.sandbox.warp(5)

    def rest(self) -> None:
        """Enough workers for all, and everything at rest."""
        self._resize(max(sum(self.expected.values()), 1))
        settle(self.stand, self.keeper)

    def _resize(self, replicas: int) -> None:
        self.stand.kube.patch("Deployment", POOL, {"spec": {"replicas": replicas}}, namespace=NS, subresource="scale")


@pytest.mark.parametrize("steps", [25, pytest.param(200, marks=pytest.mark.slow)])
def test_random_steps_lose_no_bound_worker(warm: Stand, steps: int) -> None:
    chaos = Chaos(warm, seed=steps)
    for _ in range(steps):
        chaos.step()
    chaos.rest()
    assert Counter(bound(warm).values()) == +chaos.expected


# --- what is asked


def test_a_business_may_not_be_called_what_a_free_worker_is_called() -> None:
    from instantstart.capabilities.inference.pools import rules

    for business in ("unassigned", "retiring"):
        with pytest.raises(problems.Invalid):
            rules.check_business(business)


def test_a_pool_is_made_once_and_its_settings_do_not_change(warm: Stand) -> None:
    ask = specs.CreateModelPool(name=POOL, workers=SIZE, **SLEEPER)
    assert plans.prepare_create(warm.room, warm.job.site, ask, strict=True)[2], "it is there already"
    with pytest.raises(problems.Conflict) as other:
        plans.prepare_create(warm.room, warm.job.site, ask.model_copy(update={"image": "busybox:2"}), strict=True)
    assert other.value.code == "model_pool.exists"


def test_a_pool_with_businesses_is_not_deleted(warm: Stand) -> None:
    refused = run(warm, "model_pool.delete")
    assert refused.problem is not None
    assert refused.problem.code == "model_pool.in_use"
