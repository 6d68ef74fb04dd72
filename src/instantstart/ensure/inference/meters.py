"""What model servers measure of themselves, read from their own ``/metrics`` through the API server's proxy, with a short history.

Nothing is read unless somebody looks; no more than a few servers at a time, none more often than every few seconds; the history lives in
memory and is gone with the process (Prometheus keeps the long one). Names of metrics: documentation of vLLM, SGLang and its router.
"""

from __future__ import annotations

import datetime as dt
import re
import threading
import time
from collections import OrderedDict, deque
from collections.abc import Iterable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field

from instantstart.base import problems
from instantstart.ensure.inference import served as finding
from instantstart.ensure.inference.served import Served
from instantstart.kube.client import Door, KubeCluster
from instantstart.kube.proxying import Passage, flow

#: proxies at the same time, for everybody
_AT_ONCE = 8
#: replicas that are read for one sample; more are left out and said so
_MOST_REPLICAS = 16
_MOST_BYTES = 4 * 1024 * 1024
_SILENCE_SECONDS = 5.0
#: real seconds: a sample this young is not taken anew
FRESH_SECONDS = 4.0
_KEPT, _MOST_SERIES = 240, 200
_LINE = re.compile(r'^([a-zA-Z_:][a-zA-Z0-9_:]*)(?:\{(?:[^"}]|"(?:[^"\\]|\\.)*")*\})?\s+(\S+)')

#: our name -> the servers' own, the first that is there
_GAUGES: Mapping[str, tuple[str, ...]] = {
    "running": ("vllm:num_requests_running", "sglang:num_running_reqs", "smg_worker_requests_active", "sgl_router_running_requests"),
    "waiting": ("vllm:num_requests_waiting", "sglang:num_queue_reqs", "sgl_router_job_queue_depth"),
    "cache": ("vllm:kv_cache_usage_perc", "vllm:gpu_cache_usage_perc", "sglang:token_usage"),
}
_COUNTERS: Mapping[str, tuple[str, ...]] = {
    "prompt_tokens": ("vllm:prompt_tokens_total", "sglang:prompt_tokens_total"),
    "generated_tokens": ("vllm:generation_tokens_total", "sglang:generation_tokens_total"),
    "requests": ("vllm:request_success_total", "sglang:num_requests_total", "sgl_router_requests_total", "smg_http_requests_total"),
    "first_token_sum": ("vllm:time_to_first_token_seconds_sum", "sglang:time_to_first_token_seconds_sum"),
    "first_token_count": ("vllm:time_to_first_token_seconds_count", "sglang:time_to_first_token_seconds_count"),
    "latency_sum": ("vllm:e2e_request_latency_seconds_sum", "sglang:e2e_request_latency_seconds_sum"),
    "latency_count": ("vllm:e2e_request_latency_seconds_count", "sglang:e2e_request_latency_seconds_count"),
}
#: shares are averaged over the replicas, the rest is added up
_AVERAGED = frozenset({"cache"})


@dataclass(frozen=True)
class Sample:
    """One look at every replica. Gauges and counters are sums over replicas (``cache`` the mean share, 0 to 1); None: not measured.

    Rates are since the sample before: tokens and requests a second, mean milliseconds to the first token and to the end.
    """

    at: dt.datetime
    replicas: int
    unread: int
    running: float | None = None
    waiting: float | None = None
    cache: float | None = None
    prompt_tokens_per_second: float | None = None
    generated_tokens_per_second: float | None = None
    requests_per_second: float | None = None
    first_token_ms: float | None = None
    latency_ms: float | None = None


@dataclass
class _Series:
    samples: deque[Sample] = field(default_factory=lambda: deque(maxlen=_KEPT))
    counters: Mapping[str, float] = field(default_factory=dict)
    names: frozenset[str] = frozenset()
    taken: float = 0.0
    asking: threading.Lock = field(default_factory=threading.Lock)
    trouble: str | None = None


@dataclass(frozen=True)
class Measured:
    """The history, oldest first; ``trouble``: why the newest look told nothing."""

    samples: tuple[Sample, ...]
    trouble: str | None


class Meters:
    """The histories of what is looked at; thread-safe, one for the process. Also bounds the calls that hold a thread."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._series: OrderedDict[tuple[str, str], _Series] = OrderedDict()
        self._pool = ThreadPoolExecutor(_AT_ONCE, thread_name_prefix="meters")
        #: calls of models that wait in a thread
        self.calls = threading.BoundedSemaphore(16)

    def look(self, kube: KubeCluster, served: Served) -> Measured:
        """A sample, unless there is a young one, and the history. What cannot be read is told, and raises nothing."""
        series = self._of(kube, served)
        with series.asking:
            if time.monotonic() - series.taken >= FRESH_SECONDS:
                self._sample(kube, served, series)
        return Measured(tuple(series.samples), series.trouble)

    def known(self, kube: KubeCluster, served: Served) -> Sample | None:
        """The newest sample there is; nothing is read."""
        with self._lock:
            series = self._series.get((kube.ref.arn, f"{served.kind}/{served.reference}"))
        return series.samples[-1] if series is not None and series.samples else None

    def _of(self, kube: KubeCluster, served: Served) -> _Series:
        key = (kube.ref.arn, f"{served.kind}/{served.reference}")
        with self._lock:
            series = self._series.setdefault(key, _Series())
            self._series.move_to_end(key)
            while len(self._series) > _MOST_SERIES:
                self._series.popitem(last=False)
        return series

    def _sample(self, kube: KubeCluster, served: Served, series: _Series) -> None:
        before, series.taken = series.taken, time.monotonic()
        series.trouble = None
        try:
            doors = finding.doors(kube, served, served.metrics_port) if served.metrics_path else []
        except problems.Problem as problem:
            series.trouble = problem.detail
            return
        if not doors:
            series.trouble = "No replica is ready." if served.metrics_path else "This server is not known to show metrics."
            return
        told = list(self._pool.map(lambda door: _read(kube, door, str(served.metrics_path)), doors[:_MOST_REPLICAS]))
        read = {door.name: each for door, each in zip(doors, told, strict=False) if isinstance(each, Mapping)}
        if not read:
            series.trouble = next((each for each in told if isinstance(each, str)), "No replica shows metrics.")
            return
        totals = _totals(read.values())
        same = series.names == frozenset(read) and before > 0
        since = series.taken - before
        series.samples.append(_made(totals, series.counters if same else {}, since, (len(read), len(doors) - len(read))))
        series.counters, series.names = totals, frozenset(read)


def parse(text: str) -> dict[str, float]:
    """The sum over labels of every metric that is known here; of shares the mean. Pure."""
    found: dict[str, float] = {}
    times: dict[str, int] = {}
    for line in text.splitlines():
        match = _LINE.match(line)
        if match is None or match[1] not in _KNOWN:
            continue
        try:
            value = float(match[2])
        except ValueError:
            continue
        if value == value:  # not NaN
            found[match[1]] = found.get(match[1], 0.0) + value
            times[match[1]] = times.get(match[1], 0) + 1
    return {name: value / times[name] if name in _SHARES else value for name, value in found.items()}


_SHARES = frozenset(name for ours in _AVERAGED for name in _GAUGES[ours])
_KNOWN = frozenset(name for table in (_GAUGES, _COUNTERS) for several in table.values() for name in several)


def _read(kube: KubeCluster, door: Door, path: str) -> dict[str, float] | str:
    """One replica's metrics, or why there are none."""
    passage = Passage(door, path, "GET", silence_seconds=_SILENCE_SECONDS, accept="text/plain")
    try:
        with flow(kube, passage) as answer:
            if answer.status >= 400:
                return f"{door.name} answers {path} with status {answer.status}."
            body = b""
            for chunk in answer.chunks:
                body += chunk
                if len(body) > _MOST_BYTES:
                    break
    except problems.Problem as problem:
        return problem.detail
    return parse(body.decode("utf-8", "replace"))


def _totals(read: Iterable[Mapping[str, float]]) -> dict[str, float]:
    """Over the replicas, by our names."""
    each = list(read)
    made: dict[str, float] = {}
    for table in (_GAUGES, _COUNTERS):
        for ours, theirs in table.items():
            values = [v for one in each if (v := _first(one, theirs)) is not None]
            if values:
                made[ours] = sum(values) / len(values) if ours in _AVERAGED else sum(values)
    return made


def _first(one: Mapping[str, float], names: Sequence[str]) -> float | None:
    return next((one[name] for name in names if name in one), None)


def _made(now: Mapping[str, float], before: Mapping[str, float], seconds: float, counts: tuple[int, int]) -> Sample:
    grown = {name: now[name] - before[name] for name in _COUNTERS if name in now and name in before and now[name] >= before[name]}

    def rate(name: str) -> float | None:
        return round(grown[name] / seconds, 3) if name in grown and seconds > 0 else None

    def mean(name: str) -> float | None:
        count = grown.get(f"{name}_count")
        return round(grown[f"{name}_sum"] / count * 1000, 1) if count and f"{name}_sum" in grown else None

    return Sample(
        at=dt.datetime.now(dt.UTC),
        replicas=counts[0],
        unread=counts[1],
        running=now.get("running"),
        waiting=now.get("waiting"),
        cache=round(now["cache"], 4) if "cache" in now else None,
        prompt_tokens_per_second=rate("prompt_tokens"),
        generated_tokens_per_second=rate("generated_tokens"),
        requests_per_second=rate("requests"),
        first_token_ms=mean("first_token"),
        latency_ms=mean("latency"),
    )
