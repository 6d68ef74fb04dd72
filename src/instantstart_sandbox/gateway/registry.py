"""Which operations the sandbox answers itself, and what a handler of one is given."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from instantstart_sandbox.world.clock import Clock

if TYPE_CHECKING:
    from instantstart_sandbox.world.state import World

#: ``handler(ctx, **params)``; the parameters are named as in the botocore model. None is an empty answer.
OwnedHandler = Callable[..., dict[str, Any] | None]
#: ``guard(ctx, params, proceed)``; ``proceed()`` asks moto and gives the parsed answer, or None for an opaque one.
Proceed = Callable[[], dict[str, Any]]
Guard = Callable[["Context", dict[str, Any], Proceed], dict[str, Any] | None]
#: ``view(ctx, operation, params, answer)`` changes a parsed answer of moto in place.
View = Callable[["Context", str, dict[str, Any], dict[str, Any]], None]


@dataclass(frozen=True)
class Context:
    """Who asks, and where. ``principal_arn`` is the user's, role's or root's ARN, not the session's."""

    account: str
    region: str
    partition: str
    access_key: str
    principal_arn: str
    clock: Clock
    world: World
    #: True for a call that the sandbox makes to itself (no faults, no IAM check).
    internal: bool = False

    def arn(self, service: str, resource: str) -> str:
        """The ARN of a resource of this account and region."""
        return f"arn:{self.partition}:{service}:{self.region}:{self.account}:{resource}"


class Registry:
    """Owned operations and guards by (service, operation); service names are botocore's (``service-quotas``)."""

    def __init__(self) -> None:
        self._owned: dict[tuple[str, str], OwnedHandler] = {}
        self._guards: dict[tuple[str, str], list[Guard]] = {}
        #: services of which moto must never see a call (an operation we do not own is then unsupported)
        self.closed: set[str] = set()

    def op(self, service: str, *operations: str) -> Callable[[OwnedHandler], OwnedHandler]:
        """Decorator: this function answers these operations. A later registration replaces an earlier one."""

        def register(handler: OwnedHandler) -> OwnedHandler:
            for operation in operations:
                self._owned[service, operation] = handler
            return handler

        return register

    def guard(self, service: str, *operations: str) -> Callable[[Guard], Guard]:
        """Decorator: run this before (and, through ``proceed``, around) moto's own answer, or an owned handler's.

        A guard returns the answer to send, or None for moto's answer untouched.
        """

        def register(handler: Guard) -> Guard:
            for operation in operations:
                self._guards.setdefault((service, operation), []).append(handler)
            return handler

        return register

    def close(self, service: str) -> None:
        """From now on no call of this service goes to moto."""
        self.closed.add(service)

    def owned(self, service: str, operation: str) -> OwnedHandler | None:
        """The handler of an operation, or None."""
        return self._owned.get((service, operation))

    def guards(self, service: str, operation: str) -> list[Guard]:
        """The guards of an operation, first registered outermost; those registered for ``*`` come first."""
        return self._guards.get((service, "*"), []) + self._guards.get((service, operation), [])

    def operations(self) -> list[tuple[str, str]]:
        """Every owned (service, operation), sorted."""
        return sorted(self._owned)
