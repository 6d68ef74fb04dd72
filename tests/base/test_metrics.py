"""A timed block is counted by how it ended, and what leaves it goes on."""

from __future__ import annotations

import pytest
from prometheus_client import CollectorRegistry, Histogram

from instantstart.base import metrics


def test_a_block_is_counted_by_its_outcome() -> None:
    histogram = Histogram("looks", "x", ("stage", "outcome"), registry=CollectorRegistry())
    with metrics.timed(histogram, "a"):
        pass
    with pytest.raises(ValueError, match="out"), metrics.timed(histogram, "a"):
        raise ValueError("out")
    counts = {s.labels["outcome"]: s.value for m in histogram.collect() for s in m.samples if s.name == "looks_count"}
    assert counts == {"ok": 1.0, "ValueError": 1.0}
