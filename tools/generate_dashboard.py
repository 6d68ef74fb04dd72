"""Writes deploy/grafana/instantstart.json: the dashboard over what /metrics gives. ``python tools/generate_dashboard.py``."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

TARGET = Path(__file__).parents[1] / "deploy/grafana/instantstart.json"
SOURCE = {"type": "prometheus", "uid": "${datasource}"}
ONE = 'job=~"$job", instance=~"$instance"'


def rate(metric: str, by: str, more: str = "") -> str:
    """Events a second of a histogram."""
    return f"sum by ({by}) (rate({metric}_count{{{ONE}{more}}}[$__rate_interval]))"


def quantile(metric: str, by: str, share: str = "0.95", more: str = "") -> str:
    """Seconds that a share of the observations do not exceed."""
    return f"histogram_quantile({share}, sum by (le, {by}) (rate({metric}_bucket{{{ONE}{more}}}[$__rate_interval])))"


HTTP, AWS = "instantstart_http_request_seconds", "instantstart_aws_call_seconds"
KUBERNETES, LOOKS = "instantstart_kubernetes_call_seconds", "instantstart_stage_look_seconds"
#: every replica tells the same figure, so the largest is it
ACTIVE = "max by (workflow, status) (instantstart_operations_active)"
#: section -> panels: title, unit, kind, queries with their legends
SECTIONS: dict[str, list[tuple[str, str, str, list[tuple[str, str]]]]] = {
    "Operations": [
        ("Not ended", "short", "stat", [("sum(" + ACTIVE + ")", "all")]),
        (
            "Wait for a person",
            "short",
            "stat",
            [
                (
                    'sum(max by (workflow, status) (instantstart_operations_active{status=~"blocked|awaiting_approval"})) or vector(0)',
                    "blocked",
                )
            ],
        ),
        (
            "By status",
            "short",
            "timeseries",
            [("sum by (status) (" + ACTIVE + ")", "{{status}}")],
        ),
        (
            "By workflow",
            "short",
            "timeseries",
            [("sum by (workflow) (" + ACTIVE + ")", "{{workflow}}")],
        ),
        ("Looks of stages", "ops", "timeseries", [(rate(LOOKS, "workflow"), "{{workflow}}")]),
        (
            "Looks that ended badly",
            "ops",
            "timeseries",
            [(rate(LOOKS, "workflow, stage, outcome", ', outcome!="ok"'), "{{workflow}} {{stage}}: {{outcome}}")],
        ),
    ],
    "API": [
        ("Answers", "reqps", "timeseries", [(rate(HTTP, "status"), "{{status}}")]),
        ("Slowest routes, 95 %", "s", "timeseries", [(f"topk(10, {quantile(HTTP, 'method, route')})", "{{method}} {{route}}")]),
        (
            "Broken answers",
            "reqps",
            "timeseries",
            [(rate(HTTP, "method, route, status", ', status=~"5.."'), "{{method}} {{route}} {{status}}")],
        ),
    ],
    "AWS and Kubernetes": [
        ("AWS calls", "reqps", "timeseries", [(rate(AWS, "service"), "{{service}}")]),
        (
            "AWS calls that failed",
            "reqps",
            "timeseries",
            [(rate(AWS, "service, operation, outcome", ', outcome!="ok"'), "{{service}}.{{operation}}: {{outcome}}")],
        ),
        ("AWS, 95 %", "s", "timeseries", [(quantile(AWS, "service"), "{{service}}")]),
        ("Kubernetes requests", "reqps", "timeseries", [(rate(KUBERNETES, "method, outcome"), "{{method}} {{outcome}}")]),
        ("Kubernetes, 95 %", "s", "timeseries", [(quantile(KUBERNETES, "method"), "{{method}}")]),
    ],
    "Process": [
        ("Replicas", "short", "stat", [('count(up{job=~"$job"} == 1)', "up")]),
        ("Memory", "bytes", "timeseries", [(f"process_resident_memory_bytes{{{ONE}}}", "{{instance}}")]),
        ("Processor", "percentunit", "timeseries", [(f"rate(process_cpu_seconds_total{{{ONE}}}[$__rate_interval])", "{{instance}}")]),
        ("Open files", "short", "timeseries", [(f"process_open_fds{{{ONE}}}", "{{instance}}")]),
    ],
}


def panel(number: int, place: dict[str, int], told: tuple[str, str, str, list[tuple[str, str]]]) -> dict[str, Any]:
    """One panel."""
    title, unit, kind, queries = told
    targets = [
        {"refId": chr(65 + at), "datasource": SOURCE, "expr": query, "legendFormat": legend, "instant": kind == "stat"}
        for at, (query, legend) in enumerate(queries)
    ]
    defaults = {"unit": unit, "min": 0}
    return {
        "id": number,
        "title": title,
        "type": kind,
        "gridPos": place,
        "datasource": SOURCE,
        "targets": targets,
        "fieldConfig": {"defaults": defaults, "overrides": []},
    }


def variable(name: str, query: str) -> dict[str, Any]:
    """A choice among the values of a label."""
    return {
        "name": name,
        "type": "query",
        "datasource": SOURCE,
        "query": query,
        "definition": query,
        "refresh": 2,
        "multi": True,
        "includeAll": True,
        "current": {"text": "All", "value": "$__all"},
    }


def dashboard() -> dict[str, Any]:
    """The whole of it."""
    panels: list[dict[str, Any]] = []
    y = 0
    for section, found in SECTIONS.items():
        panels.append({"id": len(panels) + 1, "type": "row", "title": section, "gridPos": {"x": 0, "y": y, "w": 24, "h": 1}, "panels": []})
        y += 1
        for at, told in enumerate(found):
            panels.append(panel(len(panels) + 1, {"x": at % 3 * 8, "y": y + at // 3 * 8, "w": 8, "h": 8}, told))
        y += (len(found) + 2) // 3 * 8
    metric = "instantstart_http_request_seconds_count"
    source = {"name": "datasource", "type": "datasource", "query": "prometheus", "label": "Data source"}
    choices = [
        source,
        variable("job", f"label_values({metric}, job)"),
        variable("instance", f'label_values({metric}{{job=~"$job"}}, instance)'),
    ]
    return {
        "uid": "instantstart",
        "title": "InstantStart",
        "tags": ["instantstart"],
        "schemaVersion": 39,
        "version": 1,
        "editable": True,
        "refresh": "30s",
        "time": {"from": "now-6h", "to": "now"},
        "timezone": "browser",
        "templating": {"list": choices},
        "panels": panels,
    }


if __name__ == "__main__":
    TARGET.parent.mkdir(parents=True, exist_ok=True)
    TARGET.write_text(json.dumps(dashboard(), indent=1) + "\n")
