"""What MLflow recorded, for a model: numbers to four digits, curves as a few points, and every name marked as what others wrote."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

#: what somebody logged, whatever it says
_FOREIGN = frozenset({"name", "experiment", "user", "job", "params", "tags", "metrics", "metric", "artifact_uri"})
_POINTS = 12


def told(value: Any) -> Any:
    """The answer with foreign keys marked; to be made compact after."""
    if isinstance(value, Mapping):
        if "points" in value:
            return _curve(value)
        return {_named(str(key), inner): told(inner) for key, inner in value.items()}
    if isinstance(value, list):
        return [told(inner) for inner in value]
    return f"{value:.4g}" if isinstance(value, float) else value


def _named(key: str, inner: Any) -> str:
    del inner
    return f"untrusted_{key}" if key in _FOREIGN else key


def _curve(series: Mapping[str, Any]) -> dict[str, Any]:
    """A curve: its ends, its least and greatest, and a few points between."""
    points = series["points"]
    values = [value for _, _, value in points if value is not None]
    step = max(1, -(-len(points) // _POINTS))
    return {
        "run_id": series["run_id"],
        "untrusted_metric": series["metric"],
        "values": series["total"],
        "least": f"{min(values):.4g}" if values else None,
        "greatest": f"{max(values):.4g}" if values else None,
        "last": f"{values[-1]:.4g}" if values else None,
        "steps": [f"{at}: {'no number' if value is None else format(value, '.4g')}" for at, _, value in points[::step]],
    }
