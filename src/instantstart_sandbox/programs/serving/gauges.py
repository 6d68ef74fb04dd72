"""The server's own metrics in Prometheus' text format, under vLLM's names or under SGLang's."""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Iterable
from dataclasses import dataclass, field

_SHORT = (0.001, 0.005, 0.01, 0.02, 0.04, 0.06, 0.08, 0.1, 0.25, 0.5, 0.75, 1.0, 2.5, 5.0, 7.5, 10.0, 20.0, 40.0, 80.0, 160.0, 640.0)
_STEP = (0.01, 0.025, 0.05, 0.075, 0.1, 0.15, 0.2, 0.3, 0.4, 0.5, 0.75, 1.0, 2.5, 5.0, 7.5, 10.0, 20.0, 40.0, 80.0)
_LONG = (0.3, 0.5, 0.8, 1.0, 1.5, 2.0, 2.5, 5.0, 10.0, 15.0, 20.0, 30.0, 40.0, 50.0, 60.0, 120.0, 240.0, 480.0, 960.0, 1920.0, 7680.0)
_COUNTS = (1, 2, 5, 10, 20, 50, 100, 200, 500, 1000, 2000, 5000, 10000, 20000, 50000)


@dataclass
class Histogram:
    """Observations in buckets."""

    bounds: tuple[float, ...]
    counts: list[int] = field(default_factory=list)
    total: float = 0.0

    def __post_init__(self) -> None:
        """One count for each bucket, and one for all that is larger."""
        self.counts = [0] * (len(self.bounds) + 1)

    def observe(self, value: float) -> None:
        """One more."""
        self.counts[bisect_left(self.bounds, value)] += 1
        self.total += value


@dataclass
class Gauges:
    """All that the engine counts."""

    running: int = 0
    waiting: int = 0
    used_tokens: int = 0
    cache_tokens: int = 1
    prompt_tokens: int = 0
    generated_tokens: int = 0
    cached_tokens: int = 0
    requests: int = 0
    preemptions: int = 0
    finished: dict[str, int] = field(default_factory=lambda: dict.fromkeys(("stop", "length", "abort"), 0))
    first_token: Histogram = field(default_factory=lambda: Histogram(_SHORT))
    between_tokens: Histogram = field(default_factory=lambda: Histogram(_STEP))
    whole: Histogram = field(default_factory=lambda: Histogram(_LONG))
    queued: Histogram = field(default_factory=lambda: Histogram(_LONG))
    decoding: Histogram = field(default_factory=lambda: Histogram(_LONG))
    prompts: Histogram = field(default_factory=lambda: Histogram(_COUNTS))
    generations: Histogram = field(default_factory=lambda: Histogram(_COUNTS))
    throughput: float = 0.0

    @property
    def usage(self) -> float:
        """The share of the KV cache that is in use."""
        return min(self.used_tokens / max(self.cache_tokens, 1), 1.0)


def _labels(pairs: dict[str, str]) -> str:
    return "{" + ",".join(f'{k}="{_escaped(v)}"' for k, v in pairs.items()) + "}"


def _escaped(text: str) -> str:
    return text.replace("\\", "\\\\").replace('"', '\\"').replace("\n", "\\n")


class Page:
    """The text, line by line."""

    def __init__(self, **labels: str) -> None:
        self._labels = labels
        self._lines: list[str] = []

    def head(self, name: str, kind: str, words: str) -> None:
        """What a metric is."""
        self._lines += [f"# HELP {name} {words}", f"# TYPE {name} {kind}"]

    def value(self, name: str, kind: str, words: str, value: float) -> None:
        """A metric with one value."""
        self.head(name, kind, words)
        self.line(name, value)

    def line(self, name: str, value: float, **labels: str) -> None:
        """One value."""
        self._lines.append(f"{name}{_labels({**self._labels, **labels})} {float(value)}")

    def histogram(self, name: str, words: str, found: Histogram) -> None:
        """A metric with buckets."""
        self.head(name, "histogram", words)
        below = 0
        for bound, count in zip((*map(str, found.bounds), "+Inf"), found.counts, strict=True):
            below += count
            self.line(f"{name}_bucket", below, le=bound)
        self.line(f"{name}_count", below)
        self.line(f"{name}_sum", found.total)

    def text(self) -> str:
        """The whole page."""
        return "\n".join([*self._lines, ""])


def _values(page: Page, table: Iterable[tuple[str, str, str, float]]) -> None:
    for name, kind, words, value in table:
        page.value(name, kind, words, value)


def vllm_page(model: str, g: Gauges) -> str:
    """As vLLM shows them; both names of the cache's usage, since versions differ."""
    page, usage = Page(model_name=model, engine="0"), "KV-cache usage. 1 means 100 percent usage."
    _values(
        page,
        (
            ("vllm:num_requests_running", "gauge", "Number of requests in model execution batches.", g.running),
            ("vllm:num_requests_waiting", "gauge", "Number of requests waiting to be processed.", g.waiting),
            ("vllm:kv_cache_usage_perc", "gauge", usage, g.usage),
            ("vllm:gpu_cache_usage_perc", "gauge", f"GPU {usage}", g.usage),
            ("vllm:prefix_cache_queries_total", "counter", "Prefix cache queries, in terms of number of queried tokens.", g.prompt_tokens),
            ("vllm:prefix_cache_hits_total", "counter", "Prefix cache hits, in terms of number of cached tokens.", g.cached_tokens),
            ("vllm:num_preemptions_total", "counter", "Cumulative number of preemption from the engine.", g.preemptions),
            ("vllm:prompt_tokens_total", "counter", "Number of prefill tokens processed.", g.prompt_tokens),
            ("vllm:generation_tokens_total", "counter", "Number of generation tokens processed.", g.generated_tokens),
        ),
    )
    page.head("vllm:request_success_total", "counter", "Count of successfully processed requests.")
    for reason, count in g.finished.items():
        page.line("vllm:request_success_total", count, finished_reason=reason)
    for name, words, found in (
        ("request_prompt_tokens", "Number of prefill tokens processed.", g.prompts),
        ("request_generation_tokens", "Number of generation tokens processed.", g.generations),
        ("time_to_first_token_seconds", "Histogram of time to first token in seconds.", g.first_token),
        ("inter_token_latency_seconds", "Histogram of inter-token latency in seconds.", g.between_tokens),
        ("time_per_output_token_seconds", "Histogram of time per output token in seconds.", g.between_tokens),
        ("e2e_request_latency_seconds", "Histogram of e2e request latency in seconds.", g.whole),
        ("request_queue_time_seconds", "Histogram of time spent in WAITING phase for request.", g.queued),
        ("request_inference_time_seconds", "Histogram of time spent in RUNNING phase for request.", g.decoding),
    ):
        page.histogram(f"vllm:{name}", words, found)
    return page.text()


def sglang_page(model: str, g: Gauges) -> str:
    """As SGLang shows them with ``--enable-metrics``."""
    page = Page(model_name=model, engine_type="unified", tp_rank="0", pp_rank="0")
    rate = g.cached_tokens / g.prompt_tokens if g.prompt_tokens else 0.0
    _values(
        page,
        (
            ("sglang:num_running_reqs", "gauge", "The number of running requests.", g.running),
            ("sglang:num_queue_reqs", "gauge", "The number of requests in the waiting queue.", g.waiting),
            ("sglang:num_used_tokens", "gauge", "The number of used tokens.", g.used_tokens),
            ("sglang:token_usage", "gauge", "The token usage.", g.usage),
            ("sglang:max_total_num_tokens", "gauge", "Maximum total number of tokens in the KV cache pool.", g.cache_tokens),
            ("sglang:gen_throughput", "gauge", "The generation throughput (token/s).", g.throughput),
            ("sglang:cache_hit_rate", "gauge", "The prefix cache hit rate.", rate),
            ("sglang:prompt_tokens_total", "counter", "Number of prefill tokens processed.", g.prompt_tokens),
            ("sglang:generation_tokens_total", "counter", "Number of generation tokens processed.", g.generated_tokens),
            ("sglang:cached_tokens_total", "counter", "Number of cached prompt tokens.", g.cached_tokens),
            ("sglang:num_requests_total", "counter", "Number of requests processed.", g.requests),
            ("sglang:num_aborted_requests_total", "counter", "Number of requests aborted.", g.finished["abort"]),
        ),
    )
    page.histogram("sglang:time_to_first_token_seconds", "Histogram of time to first token in seconds.", g.first_token)
    page.histogram("sglang:inter_token_latency_seconds", "Histogram of inter-token latency in seconds.", g.between_tokens)
    page.histogram("sglang:e2e_request_latency_seconds", "Histogram of End-to-end request latency in seconds", g.whole)
    page.histogram("sglang:queue_time_seconds", "Histogram of queueing time in seconds.", g.queued)
    return page.text()
