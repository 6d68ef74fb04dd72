"""What scaling looks at: the scraped samples, and the external metrics that KEDA answers for."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from . import promql
from .samples import Samples


@dataclass
class External:
    """A metric of KEDA: its last value, or why there is none."""

    value: float = 0.0
    error: str = ""


class Measures:
    """One for each cluster; memory only: a sandbox that starts again scrapes anew."""

    def __init__(self) -> None:
        self.samples = Samples()
        #: where queries of Prometheus are answered; None while nobody listens
        self.address: tuple[str, int] | None = None
        self._external: dict[tuple[str, str, str], External] = {}

    def query(self, text: str, moment: float) -> dict[str, Any]:
        """The ``data`` of ``/api/v1/query``. promql.QueryError."""
        return promql.result(promql.query(text, self.samples, moment), moment)

    def tell(self, namespace: str, scaled: str, metric: str, found: External) -> None:
        """KEDA's newest word on a metric of a ScaledObject."""
        self._external[namespace, scaled, metric] = found

    def forget(self, namespace: str, scaled: str) -> None:
        """The ScaledObject is gone."""
        self._external = {k: v for k, v in self._external.items() if k[:2] != (namespace, scaled)}

    def external(self, namespace: str, metric: str, selector: dict[str, str]) -> float:
        """An external metric's value, as the external metrics API tells it. LookupError with the API's words."""
        found = self._external.get((namespace, selector.get("scaledobject.keda.sh/name", ""), metric))
        if found is None:
            raise LookupError(f"no matching metrics found for {metric}")
        if found.error:
            raise LookupError(found.error)
        return found.value
