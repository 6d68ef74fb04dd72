"""Quantities come back in their canonical form, as from a real API server."""

from __future__ import annotations

import httpx2
import pytest
from hypothesis import given
from hypothesis import strategies as st

from instantstart_sandbox.kubernetes.quantities import canonical, parse

from .objects import PODS, pod


@pytest.mark.parametrize(
    ("given_", "stored"),
    [
        ("1000m", "1"),
        ("0.5", "500m"),
        (1, "1"),
        (0.25, "250m"),
        ("1024Mi", "1Gi"),
        ("1536Mi", "1536Mi"),
        ("0.5Gi", "512Mi"),
        ("2000", "2k"),
        ("512Ki", "512Ki"),
        ("1Ki", "1Ki"),
        ("100Mi", "100Mi"),
        ("0.1Ki", "102400m"),
        ("1e3", "1e3"),
        ("1500e3", "1500e3"),
        ("0", "0"),
        ("0Gi", "0"),
        ("16G", "16G"),
        ("1.5G", "1500M"),
        ("-1500m", "-1500m"),
        ("100", "100"),
        ("1E", "1E"),
        ("2048Gi", "2Ti"),
    ],
)
def test_canonical_forms(given_: str | float, stored: str) -> None:
    assert canonical(given_) == stored


@given(st.integers(0, 10**7), st.sampled_from(["", "m", "k", "M", "G", "Ki", "Mi", "Gi", "e3", "e6"]))
def test_the_canonical_form_is_the_same_number_and_stays_as_it_is(number: int, suffix: str) -> None:
    text = f"{number}{suffix}"
    assert parse(canonical(text)) == parse(text)
    assert canonical(canonical(text)) == canonical(text)


def test_a_pod_comes_back_with_canonical_resources_and_equal_ones_change_nothing(http: httpx2.Client) -> None:
    asked = {"limits": {"cpu": 2, "memory": "1024Mi", "nvidia.com/gpu": "1"}, "requests": {"cpu": "1000m"}}
    made = http.post(PODS, json=pod(containers=[{"name": "c", "image": "i:1", "resources": asked}])).json()
    assert made["spec"]["containers"][0]["resources"] == {
        "limits": {"cpu": "2", "memory": "1Gi", "nvidia.com/gpu": "1"},
        "requests": {"cpu": "1", "memory": "1Gi", "nvidia.com/gpu": "1"},
    }
    same = {"spec": {"containers": [{"name": "c", "resources": {"limits": {"memory": "1048576Ki"}}}]}}
    patched = http.patch(f"{PODS}/a", json=same, headers={"Content-Type": "application/strategic-merge-patch+json"}).json()
    assert patched["metadata"]["resourceVersion"] == made["metadata"]["resourceVersion"]
    bad = http.post(PODS, json=pod("b", containers=[{"name": "c", "image": "i", "resources": {"limits": {"cpu": "two"}}}])).json()
    assert (bad["code"], "quantities must match the regular expression" in bad["message"]) == (400, True)


def test_times_come_back_in_utc_seconds(http: httpx2.Client) -> None:
    http.post(PODS, json=pod())
    condition = {"type": "Ready", "status": "True", "lastTransitionTime": "2026-11-30T13:00:00.5+01:00"}
    body = http.patch(
        f"{PODS}/a/status", json={"status": {"conditions": [condition]}}, headers={"Content-Type": "application/merge-patch+json"}
    ).json()
    assert body["status"]["conditions"][0]["lastTransitionTime"] == "2026-11-30T12:00:00Z"
