"""Dashboard and alerts ask for metrics and labels that /metrics has; the page on observing knows every alert; nothing is left over."""

from __future__ import annotations

import json
import re
import runpy
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import httpx2
import pytest
import yaml
from prometheus_client.parser import text_string_to_metric_families
from tests.faces.test_serve import running

ROOT = Path(__file__).parents[2]
DASHBOARD = json.loads((ROOT / "deploy/grafana/instantstart.json").read_text())
RULES = [rule for group in yaml.safe_load((ROOT / "deploy/prometheus/alerts.yaml").read_text())["groups"] for rule in group["rules"]]
PAGE = (ROOT / "docs/how-to/observe.md").read_text()
#: what Prometheus itself adds to what it scrapes
SCRAPED = {"up": frozenset({"job", "instance"})}
SCRAPE_LABELS = frozenset({"job", "instance"})
#: words of PromQL that are no metrics
FUNCTIONS = frozenset({"sum", "max", "min", "avg", "count", "topk", "rate", "increase", "histogram_quantile", "absent", "vector"})
WORDS = FUNCTIONS | {"by", "without", "on", "ignoring", "and", "or", "unless", "bool", "offset", "le"}
_DURATION = r"\[(\d+[smhd]|\$__rate_interval)\]"


def queries() -> list[str]:
    """Every expression of both files."""
    panels = [target["expr"] for panel in DASHBOARD["panels"] for target in panel.get("targets", ())]
    return [*panels, *(str(rule["expr"]) for rule in RULES)]


@pytest.fixture(scope="module")
def metrics(tmp_path_factory: pytest.TempPathFactory) -> Iterator[dict[str, frozenset[str]]]:
    """Names of samples and their labels, as a real server tells them once it has called something."""
    with running(tmp_path_factory.mktemp("observed")) as server:
        httpx2.get(f"{server.url}/api/v1/clusters", headers=server.admin, timeout=60)
        until = time.monotonic() + 60
        while True:
            found = _told(httpx2.get(f"{server.url}/metrics", headers=server.admin, timeout=60).text)
            if "instantstart_http_request_seconds_bucket" in found or time.monotonic() > until:
                break
        yield found


def _told(text: str) -> dict[str, frozenset[str]]:
    from instantstart.base import metrics as declared
    from instantstart.faces.api.metrics import _Operations

    found: dict[str, frozenset[str]] = dict(SCRAPED)
    for family in text_string_to_metric_families(text):
        for sample in family.samples:
            found[sample.name] = found.get(sample.name, frozenset()) | frozenset(sample.labels)
    families = [f.name for f in text_string_to_metric_families(text)]
    for histogram in (declared.HTTP, declared.AWS, declared.KUBERNETES, declared.LOOKS):
        assert histogram._name in families, "a family is told before its first observation"
        for ending, more in (("_count", ()), ("_sum", ()), ("_bucket", ("le",))):
            found[histogram._name + ending] = frozenset((*histogram._labelnames, *more))
    assert "instantstart_operations_active" in families
    found["instantstart_operations_active"] = frozenset(_Operations.LABELS)
    return found


def wrong(query: str, metrics: dict[str, frozenset[str]]) -> list[str]:
    """What a query asks for that is not there, and brackets that do not close. No parser of PromQL: names and labels are looked at."""
    told = [f"{a} and {b} do not pair: {query}" for a, b in ("()", "{}", "[]") if query.count(a) != query.count(b)]
    told += [f"no such range: {each}" for each in re.findall(r"\[[^\]]*\]", query) if not re.fullmatch(_DURATION, each)]
    bare = re.sub(r'"[^"]*"', '""', query)
    selected = re.findall(r"([a-z_][a-z0-9_]*)\s*\{([^}]*)\}", bare)
    grouped = {label.strip() for found in re.findall(r"\b(?:by|without)\s*\(([^)]*)\)", bare) for label in found.split(",")}
    rest = re.sub(r"\b(?:by|without)\s*\([^)]*\)|\{[^}]*\}|\[[^\]]*\]", " ", bare)
    names = {name for name in re.findall(r"\b[a-z_][a-z0-9_]*\b", rest) if name not in WORDS}
    told += [f"no metric {name}: {query}" for name in names if name not in metrics]
    known = frozenset().union(*(metrics.get(name, frozenset()) for name in names)) | SCRAPE_LABELS
    told += [f"no label {label}: {query}" for label in grouped if label not in known]
    for name, matchers in selected:
        labels = re.findall(r"([a-z_]+)\s*(?:=~|!~|!=|=)", matchers)
        told += [f"{name} has no label {label}" for label in labels if label not in metrics.get(name, frozenset()) | SCRAPE_LABELS]
    return told


def test_every_query_asks_for_what_is_told(metrics: dict[str, frozenset[str]]) -> None:
    found = queries()
    assert len(found) > 20
    assert [each for query in found for each in wrong(query, metrics)] == []


@pytest.mark.parametrize(
    "query",
    [
        "rate(instantstart_nothing_total[5m])",
        'rate(instantstart_http_request_seconds_count{verb="GET"}[5m])',
        "sum by (cluster) (instantstart_operations_active)",
        "rate(instantstart_http_request_seconds_count[soon])",
        "sum(rate(instantstart_http_request_seconds_count[5m])",
    ],
)
def test_a_wrong_query_is_found(query: str, metrics: dict[str, frozenset[str]]) -> None:
    assert wrong(query, metrics) != []


def test_every_metric_of_ours_is_shown(metrics: dict[str, frozenset[str]]) -> None:
    text = " ".join(queries())
    ours = {name for name in metrics if name.startswith("instantstart_") and name.endswith(("_count", "_active"))}
    assert {name for name in ours if name not in text} == set()


def test_the_dashboard_in_the_repository_is_the_generated_one() -> None:
    made = runpy.run_path(str(ROOT / "tools/generate_dashboard.py"))["dashboard"]()
    assert made == DASHBOARD


def test_panels_have_places_and_legends_of_their_own() -> None:
    panels: list[dict[str, Any]] = DASHBOARD["panels"]
    assert len({panel["id"] for panel in panels}) == len(panels)
    places = [(p["gridPos"]["x"], p["gridPos"]["y"]) for p in panels]
    assert len(set(places)) == len(places)
    assert all(p["gridPos"]["x"] + p["gridPos"]["w"] <= 24 for p in panels)


def test_every_alert_says_what_is_wrong_and_has_its_paragraph() -> None:
    assert len({rule["alert"] for rule in RULES}) == len(RULES)
    for rule in RULES:
        assert set(rule["annotations"]) == {"summary", "description", "runbook"}
        assert rule["labels"]["severity"] in ("critical", "warning", "info")
        assert f"### {rule['alert']}\n" in PAGE
        assert rule["annotations"]["runbook"] == f"docs/how-to/observe.md#{rule['alert'].lower()}"
