"""The whole job against the critical path, and how soon the product acts on what has ended far away."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from tests.bench.rig import Rig
from tests.bench.timeline import Reaction, Timeline

TAGS = ("bench-a", "bench-b", "bench-c")


def pipeline(rate: float) -> Iterator[str]:
    """One empty account to one verified cluster. Goal: ratio at most 1.05."""
    with Rig(rate) as rig:
        rig.settle()
        before = rig.cpu_seconds()
        operation = rig.create(TAGS[0])[0]
        product, sandbox = (after - earlier for earlier, after in zip(before, rig.cpu_seconds(), strict=True))
        line = Timeline(rig, operation)
        links = line.imposed()
        path, took = sum(links.values()), float(operation["elapsed_seconds"])
        yield f"rate {rate:g}: took {took:.0f} s of the sandbox, {took / rate:.1f} s real; imposed {path:.0f} s; ratio {took / path:.3f}"
        for name, seconds in links.items():
            yield f"  imposed: {name}: {seconds:.0f} s"
        yield f"  AWS calls: {len(line.calls)}; processor time: control plane {product:.1f} s, sandbox {sandbox:.1f} s"
        for stage in operation["stages"]:
            yield f"  stage {stage['name']}: {stage['elapsed_seconds']:.1f} s"


def reaction(rate: float) -> Iterator[str]:
    """Three clusters side by side: remote end to next act, and calls while waiting. Goals: p95 at most 5 s, 12 calls a minute."""
    with Rig(rate) as rig:
        rig.settle()
        lines = [Timeline(rig, operation, len(TAGS)) for operation in rig.create(*TAGS)]
        found = [each for line in lines for each in line.reactions()]
        yield f"rate {rate:g}: {_quantiles([each.seconds for each in found])} over {len(found)} ends"
        yield from (f"  {what}: {_quantiles(times)}" for what, times in _by_what(found))
        for what, services, begin, end in (
            ("stack", {"cloudformation"}, "CreateStack", "stack"),
            ("HyperPod cluster", {"sagemaker"}, "CreateCluster", "hyperpod"),
        ):
            told = [line.calls_a_minute(services, line.call(begin), line.ended(end)) for line in lines]
            average, worst = sum(a for a, _ in told) / len(told), max(w for _, w in told)
            yield f"  AWS calls a minute while waiting for the {what}: {average:.1f} on average, {worst:g} in the worst minute"


def _by_what(found: Sequence[Reaction]) -> Iterator[tuple[str, list[float]]]:
    for what in dict.fromkeys(each.what for each in found):
        yield what, [each.seconds for each in found if each.what == what]


def _quantiles(seconds: Sequence[float]) -> str:
    ordered = sorted(seconds)
    return f"p50 {ordered[len(ordered) // 2]:.1f} s, p95 {ordered[min(len(ordered) - 1, int(len(ordered) * 0.95))]:.1f} s"
