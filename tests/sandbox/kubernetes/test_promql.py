"""The part of Prometheus' language that the sandbox speaks."""

from __future__ import annotations

from typing import Any

import pytest

from instantstart_sandbox.kubernetes.autoscaling.promql import QueryError, query, result
from instantstart_sandbox.kubernetes.autoscaling.samples import Samples

PAGE = """
# HELP vllm:num_requests_waiting Number of requests waiting to be processed.
# TYPE vllm:num_requests_waiting gauge
vllm:num_requests_waiting{model_name="a",engine="0"} %d
vllm:prompt_tokens_total{model_name="a"} %d
lat_bucket{le="0.1"} 5
lat_bucket{le="0.5"} 9
lat_bucket{le="+Inf"} 10
"""


@pytest.fixture
def samples() -> Samples:
    found = Samples()
    for number in range(11):
        for pod, waiting in (("p1", 2), ("p2", 6)):
            found.take(PAGE % (waiting, 60 * number), {"pod": pod, "namespace": "default"}, 1000.0 + 30 * number)
    return found


CASES: list[tuple[str, Any]] = [
    ("sum(vllm:num_requests_waiting)", [({}, 8)]),
    ('avg(vllm:num_requests_waiting{model_name="a"})', [({}, 4)]),
    ("max by (pod) (vllm:num_requests_waiting)", [({"pod": "p1"}, 2), ({"pod": "p2"}, 6)]),
    ("sum(vllm:num_requests_waiting) by (namespace)", [({"namespace": "default"}, 8)]),
    ('vllm:num_requests_waiting{pod=~"p.*", pod!="p1"} > 5', [({"__name__": "vllm:num_requests_waiting", "pod": "p2"}, 6)]),
    ("sum(rate(vllm:prompt_tokens_total[2m]))", [({}, 4)]),
    ("sum(increase(vllm:prompt_tokens_total[1m])) / count(vllm:num_requests_waiting)", [({}, 120)]),
    ("sum(nothing) or vector(0)", [({}, 0)]),
    ("clamp_max(sum(vllm:num_requests_waiting) * 100, 300)", [({}, 300)]),
    ('histogram_quantile(0.5, sum by (le) (lat_bucket{pod="p1"}))', [({}, 0.1)]),
    ("max_over_time(vllm:num_requests_waiting[5m]) - 1", [({"pod": "p1"}, 1), ({"pod": "p2"}, 5)]),
    ("2 * 3 + 1", 7.0),
    ("sum(vllm:num_requests_waiting) > 100", []),
    ("absent(nothing)", [({}, 1)]),
]


@pytest.mark.parametrize(("text", "expected"), CASES, ids=[c[0] for c in CASES])
def test_a_query_has_its_value(samples: Samples, text: str, expected: Any) -> None:
    found = query(text, samples, 1300.0)
    if isinstance(expected, float):
        assert found == expected
        return
    assert isinstance(found, list)
    assert len(found) == len(expected)
    for labels, value in expected:
        assert any(labels.items() <= s.labels.items() and s.value == pytest.approx(value) for s in found), found


def test_what_is_stale_is_gone(samples: Samples) -> None:
    assert query("sum(vllm:num_requests_waiting)", samples, 1300.0 + 299) != []
    assert query("sum(vllm:num_requests_waiting)", samples, 1300.0 + 301) == []


def test_a_counter_that_starts_anew_does_not_go_back() -> None:
    found = Samples()
    for moment, value in ((0.0, 100.0), (30.0, 130.0), (60.0, 10.0)):
        found.put("c", {}, moment, value)
    assert query("increase(c[5m])", found, 60.0)[0].value == 40  # type: ignore[index]


@pytest.mark.parametrize("text", ["sum(", "a{b=1}", "foo(a)", "a[5m]", "a @ 3", "sum(a) by (b", "rate(a)", "a * on(b) c", ""])
def test_what_cannot_be_read_is_refused(samples: Samples, text: str) -> None:
    samples.put("a", {}, 1300.0, 1.0)
    with pytest.raises(QueryError):
        query(text, samples, 1300.0)


def test_the_answer_has_the_shape_of_the_api(samples: Samples) -> None:
    told = result(query("sum(vllm:num_requests_waiting)", samples, 1300.0), 1300.0)
    assert told == {"resultType": "vector", "result": [{"metric": {}, "value": [1300.0, "8"]}]}
