"""What can be done with model pools: the table of contents of this slice. Declarations only."""

from __future__ import annotations

from instantstart.base.clock import minutes
from instantstart.capabilities.inference.pools import removal, specs, stages
from instantstart.operations.declare import Stage, Workflow

_LONGEST = minutes(8 * 60)

CREATE_MODEL_POOL = Workflow(
    "model_pool.create",
    "Make a model pool",
    specs.PoolTarget,
    specs.subject,
    (
        Stage("check", stages.check, "Check command, sizes, image, model and name", within=minutes(15), typical=3),
        Stage("guard", stages.guard, "Let the API server keep bound workers", within=minutes(15), typical=2),
        Stage("objects", stages.apply, "Make the workers", within=minutes(15), typical=3),
        Stage("rollout", stages.roll_out, "Wait until all workers are ready", within=_LONGEST, typical=300),
        Stage("answer", stages.await_answer, "Ask a worker for a first token", within=minutes(20), typical=3),
    ),
)
SCALE_MODEL_POOL = Workflow(
    "model_pool.scale",
    "Scale a model pool",
    specs.ScaleTarget,
    specs.subject,
    (
        Stage("guard", stages.guard, "Let the API server keep bound workers", within=minutes(15), typical=2),
        Stage("choose", stages.choose, "Mark free workers that go", within=minutes(15), typical=3),
        Stage("resize", stages.resize, "Set the number of workers", within=minutes(15), typical=2),
        Stage("workers", stages.see_off, "See them off, or wait for new ones", within=_LONGEST, typical=120),
    ),
)
DELETE_MODEL_POOL = Workflow(
    "model_pool.delete",
    "Delete a model pool",
    specs.DeleteTarget,
    specs.subject,
    (
        Stage("check", removal.check_free, "See that nobody is bound", within=minutes(15), typical=2),
        Stage("remove", removal.remove, "Remove the workers and wait until they are gone", within=minutes(60), typical=60),
    ),
    destructive=True,
    overtakes=frozenset({"model_pool.create", "model_pool.scale"}),
)
CREATE_MODEL_BINDING = Workflow(
    "model_binding.create",
    "Bind a business to a pool",
    specs.BindingTarget,
    specs.subject,
    (
        Stage("service", stages.bind, "Make the Service of the business", within=minutes(15), typical=2),
        Stage("workers", stages.give, "Give it free workers", within=minutes(60), typical=2, when=lambda spec: spec.workers > 0),
        Stage(
            "answer", stages.await_binding, "Ask it for a first token", within=minutes(20), typical=2, when=lambda spec: spec.workers > 0
        ),
    ),
)
DELETE_MODEL_BINDING = Workflow(
    "model_binding.delete",
    "Take a business off a pool",
    specs.UnbindTarget,
    specs.subject,
    (Stage("release", removal.unbind, "Release its workers and remove its Service", within=minutes(15), typical=3),),
    destructive=True,
)

WORKFLOWS = (CREATE_MODEL_POOL, SCALE_MODEL_POOL, DELETE_MODEL_POOL, CREATE_MODEL_BINDING, DELETE_MODEL_BINDING)
