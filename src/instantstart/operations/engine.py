"""The durable engine's door: start, look at, retry, cancel and approve operations. (Signatures first; being filled in.)"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from instantstart.base.clock import Clock
from instantstart.base.settings import Settings
from instantstart.operations.declare import Workflow
from instantstart.operations.record import Operation
from instantstart.store import Store
from instantstart.store.records import EventRow, OperationFilter, Page


class Engine:
    """Runs declared workflows, durably. One engine a process; ``bind`` the room, then ``launch``."""

    def __init__(self, store: Store, clock: Clock, settings: Settings, workflows: Sequence[Workflow]) -> None:
        raise NotImplementedError

    def bind(self, room: object) -> None:
        """``room`` is what every stage is called with."""
        raise NotImplementedError

    def launch(self) -> None:
        """Take the data folder (or the replica's lease), adopt what was in flight, run. Raises Conflict when another process has it."""
        raise NotImplementedError

    def shutdown(self) -> None:
        """Let acts in flight finish and stop; what is unfinished goes on at the next launch."""
        raise NotImplementedError

    def start(
        self,
        workflow: str,
        spec: Any,
        *,
        caller: str,
        cluster: str | None = None,
        key: str | None = None,
        request_hash: str | None = None,
        approval: bool = False,
    ) -> tuple[Operation, bool]:
        """The operation for this request, and whether it was made now. ``spec``: the workflow's model, or JSON that fits it."""
        raise NotImplementedError

    def get(self, id: str) -> Operation:
        """Raises NotFound (operation.unknown)."""
        raise NotImplementedError

    def list(self, filter: OperationFilter | None = None, *, limit: int = 50, cursor: str | None = None) -> Page[Operation]:
        raise NotImplementedError

    def events(self, id: str, after: int = 0, limit: int = 500) -> Sequence[EventRow]:
        """Events with a sequence above ``after``, oldest first."""
        raise NotImplementedError

    def retry(self, id: str, caller: str) -> Operation:
        """Go on at the failed stage. Raises Conflict when there is nothing to retry or the subject is busy."""
        raise NotImplementedError

    def cancel(self, id: str, caller: str) -> Operation:
        """Stop between ticks."""
        raise NotImplementedError

    def approve(self, id: str, caller: str) -> Operation:
        raise NotImplementedError

    def reject(self, id: str, caller: str) -> Operation:
        raise NotImplementedError

    def wait_for_change(self, id: str, seq: int, timeout: float) -> Operation:
        """Return as soon as the operation has an event above ``seq``, or after ``timeout`` real seconds, as it then is."""
        raise NotImplementedError

    def declared(self) -> Mapping[str, Workflow]:
        """Every workflow by name."""
        raise NotImplementedError
