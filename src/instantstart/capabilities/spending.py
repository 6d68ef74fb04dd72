"""What begins to cost by the hour: an agent looks at the plan first and passes its approval; a person need not.

Control planes, instances, file systems, servers. The agent's single use of its own plan's approval proves that the plan was made, and for
exactly this request; whether a person says yes besides is the operator's policy (docs/decisions/0023).
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable
from typing import TYPE_CHECKING, TypeVar

from instantstart.base.settings import AgentSpending
from instantstart.capabilities.doors import Asking, Kind, Wish, approve, begin, check_approval, promise
from instantstart.operations.desk import hash_of

if TYPE_CHECKING:
    from pydantic import BaseModel

    from instantstart.operations.record import Operation

P = TypeVar("P")
BECAUSE = "This begins to cost by the hour"


def exactly(workflow: str, ask: BaseModel, *place: str) -> str:
    """What an approval is for, in words: the workflow, where, and a digest of what was asked."""
    return " ".join([workflow, *place, hash_of(ask.model_dump(mode="json"))[:16]])


def spend(asking: Asking, wish: Wish, plan: Callable[[], P], admit: Callable[[], BaseModel] | None = None) -> P | Operation:
    """What costs, whole: the plan, for an agent with its approval; or the operation, for an agent by that approval.

    ``admit``: the target again, checked, just before it is begun. Raises what it raises, and Conflict without the approval.
    """
    room, is_agent = asking.room, asking.caller.kind is Kind.agent
    if asking.dry_run:
        told = plan()
        return promise(asking.response, approve(room, asking.caller, str(wish.exact), told) if is_agent else told)
    target = admit() if admit is not None else wish.target
    if is_agent and not room.engine.under_way(wish.workflow, target):  # who asks again for what goes on is answered with it
        check_approval(room, asking.caller, dataclasses.replace(wish, key=asking.key, approval=asking.approval), BECAUSE)
    waits = is_agent and room.settings.agent_spending is AgentSpending.person
    return begin(room, asking.caller, asking.response, dataclasses.replace(wish, target=target, key=asking.key), waits)
