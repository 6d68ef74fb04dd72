"""Every operation that the sandbox owns is in the service model, and its handler takes what the model lets a client send."""

from __future__ import annotations

import inspect
from typing import Any

from instantstart_sandbox.compose import build
from instantstart_sandbox.gateway import wire


def test_handlers_fit_their_models() -> None:
    sandbox = build(None, rate=1.0)
    try:
        registry = sandbox.world.registry
        wrong = [problem for key in registry.operations() for problem in _misfits(key, registry.owned(*key))]
        assert len(registry.operations()) > 50
        assert wrong == []
    finally:
        sandbox.stop()


def _misfits(key: tuple[str, str], handler: Any) -> list[str]:
    service, operation = key
    model = wire.service_model(service)
    if operation not in model.operation_names:
        return [f"{service} has no operation {operation}"]
    shape = model.operation_model(operation).input_shape
    members = set(shape.members) if shape is not None else set()
    required = set(shape.required_members) if shape is not None else set()
    parameters = list(inspect.signature(handler).parameters.values())[1:]
    open_ended = any(p.kind is p.VAR_KEYWORD for p in parameters)
    named = {p.name for p in parameters if p.kind is not p.VAR_KEYWORD}
    needed = {p.name for p in parameters if p.default is p.empty and p.kind is not p.VAR_KEYWORD}
    found = [f"{service}:{operation} demands {name}, which a client may leave out" for name in needed - required]
    found += [f"{service}:{operation} knows {name}, which the model does not" for name in named - members]
    if not open_ended:
        found += [f"{service}:{operation} cannot take {name}" for name in members - named]
    return found


def test_services_that_moto_would_get_wrong_never_reach_it(sandbox: Any, refused: Any) -> None:
    assert {"eks", "cloudformation", "service-quotas"} <= sandbox.world.registry.closed
