"""What can be done with model deployments: the table of contents of this slice. Declarations only."""

from __future__ import annotations

from instantstart.base.clock import minutes
from instantstart.capabilities.inference.deployments import removal, specs, stages
from instantstart.operations.declare import Stage, Workflow

#: the longest startup that may be asked, and pulls before it
_LONGEST = minutes(8 * 60)
_SERVED = (
    Stage("rollout", stages.roll_out, "Roll the pods out until all are ready", within=_LONGEST, typical=300),
    Stage("answer", stages.await_answer, "Ask for a first token", within=minutes(20), typical=3),
)
_ADDRESS = Stage(
    "address", stages.await_address, "Wait for the load balancer's address", within=minutes(30), typical=120,
    when=lambda spec: spec.exposure == "load_balancer",
)  # fmt: skip

CREATE_MODEL_DEPLOYMENT = Workflow(
    "model_deployment.create",
    "Deploy a model",
    specs.DeploymentTarget,
    specs.subject,
    (
        Stage("check", stages.check, "Check command, sizes, image, model and names", within=minutes(15), typical=3),
        Stage("objects", stages.apply, "Make Deployment, Services and budget", within=minutes(15), typical=3),
        *_SERVED,
        _ADDRESS,
    ),
)
UPDATE_MODEL_DEPLOYMENT = Workflow(
    "model_deployment.update",
    "Change a model deployment",
    specs.DeploymentTarget,
    specs.subject,
    (
        Stage("check", stages.check, "Check what is asked", within=minutes(15), typical=3),
        Stage("objects", stages.apply, "Change Deployment, Services and budget", within=minutes(15), typical=3),
        Stage("replicas", stages.set_replicas, "Set the number of pods", within=minutes(15), typical=2),
        *_SERVED,
        _ADDRESS,
    ),
)
SCALE_MODEL_DEPLOYMENT = Workflow(
    "model_deployment.scale",
    "Scale a model deployment",
    specs.ScaleTarget,
    specs.subject,
    (Stage("replicas", stages.set_replicas, "Set the number of pods", within=minutes(15), typical=2), *_SERVED),
)
DELETE_MODEL_DEPLOYMENT = Workflow(
    "model_deployment.delete",
    "Delete a model deployment",
    specs.DeleteTarget,
    specs.subject,
    (Stage("remove", removal.remove, "Remove its objects and wait until they are gone", within=minutes(60), typical=60),),
    destructive=True,
    overtakes=frozenset({"model_deployment.create", "model_deployment.scale", "model_deployment.update"}),
)

WORKFLOWS = (CREATE_MODEL_DEPLOYMENT, UPDATE_MODEL_DEPLOYMENT, SCALE_MODEL_DEPLOYMENT, DELETE_MODEL_DEPLOYMENT)
