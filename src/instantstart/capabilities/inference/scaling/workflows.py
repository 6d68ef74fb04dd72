"""What can be done with autoscalers: the table of contents of this slice. Declarations only."""

from __future__ import annotations

from instantstart.base.clock import minutes
from instantstart.capabilities.inference.scaling import specs, stages
from instantstart.operations.declare import Stage, Workflow

CREATE_AUTOSCALER = Workflow(
    "autoscaler.create",
    "Scale a model by its load",
    specs.AutoscalerTarget,
    specs.subject,
    (
        Stage("objects", stages.apply, "Check, try the query, and make the ScaledObject", within=minutes(15), typical=3),
        Stage("ready", stages.await_ready, "Wait until KEDA has taken it", within=minutes(20), typical=10),
    ),
)
DELETE_AUTOSCALER = Workflow(
    "autoscaler.delete",
    "Stop scaling a model by its load",
    specs.DeleteTarget,
    specs.subject,
    (Stage("remove", stages.remove, "Remove the ScaledObject; the pods stay", within=minutes(20), typical=5),),
    destructive=True,
    overtakes=frozenset({"autoscaler.create"}),
)

WORKFLOWS = (CREATE_AUTOSCALER, DELETE_AUTOSCALER)
