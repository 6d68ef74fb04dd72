"""Query parameters are closed, as bodies are: a misspelt ``dryrun=true`` must not become the real thing."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from typing import Any

from starlette.requests import HTTPConnection

from instantstart.base import problems
from instantstart.base.problems import Violation


async def only_described(request: HTTPConnection) -> None:
    """A dependency of every route. Raises Invalid for a parameter that the OpenAPI does not name, or that is given twice.

    In the loop, so that it waits for no thread.
    """
    operation_id = getattr(request.scope.get("route"), "operation_id", None)
    if not request.query_params or operation_id is None:
        return
    known = _known(request.app).get(operation_id, {})
    given = Counter(name for name, _ in request.query_params.multi_items())
    told = [Violation(f"/query/{name}", f"{name} is not a parameter of this request.") for name in given if name not in known]
    told += [
        Violation(f"/query/{name}", f"{name} is given more than once.")
        for name, times in given.items()
        if times > 1 and not known.get(name, True)
    ]
    if told:
        raise problems.Invalid("request.invalid", " ".join(v.message for v in told), title="The request is not valid", fields=told)


def _known(app: Any) -> Mapping[str, Mapping[str, bool]]:
    """operationId -> query parameter -> whether it may be repeated. Made once from the app's own document."""
    if not hasattr(app.state, "query_names"):
        operations = (operation for path in app.openapi()["paths"].values() for operation in path.values())
        app.state.query_names = {each["operationId"]: _names(each) for each in operations}
    return app.state.query_names  # type: ignore[no-any-return]


def _names(operation: Mapping[str, Any]) -> dict[str, bool]:
    return {p["name"]: _may_repeat(p["schema"]) for p in operation.get("parameters", ()) if p["in"] == "query"}


def _may_repeat(schema: Mapping[str, Any]) -> bool:
    """Whether a parameter is a list, also one that may be left out."""
    return any(each.get("type") == "array" for each in (schema, *schema.get("anyOf", ())))
