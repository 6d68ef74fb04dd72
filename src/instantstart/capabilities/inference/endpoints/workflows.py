"""What can be done with managed endpoints: the table of contents of this slice. Declarations only."""

from __future__ import annotations

from instantstart.base.clock import minutes
from instantstart.capabilities.inference.endpoints import removal, specs, stages
from instantstart.operations.declare import Stage, Together, Workflow

_DEPLOY = Stage("deploy", stages.deploy, "Wait until what runs is what was asked", within=minutes(150), typical=600)
_REACHED = Together(
    (
        Stage("balance", stages.balance, "Wait for the load balancer's address", within=minutes(30), typical=180),
        Stage("register", stages.register, "Wait for the SageMaker endpoint", within=minutes(60), typical=300),
    )
)
_ANSWER = Stage("answer", stages.answer, "Ask the model for a first token", within=minutes(15), typical=5)

CREATE_ENDPOINT = Workflow(
    "inference_endpoint.create",
    "Create an inference endpoint",
    specs.CreateTarget,
    specs.subject,
    (Stage("request", stages.request, "Ask the inference operator for it", within=minutes(10), typical=5), _DEPLOY, _REACHED, _ANSWER),
)
UPDATE_ENDPOINT = Workflow(
    "inference_endpoint.update",
    "Change an inference endpoint",
    specs.UpdateTarget,
    specs.subject,
    (Stage("change", stages.change, "Change what was asked, and only that", within=minutes(10), typical=5), _DEPLOY, _REACHED, _ANSWER),
)
DELETE_ENDPOINT = Workflow(
    "inference_endpoint.delete",
    "Delete an inference endpoint",
    specs.DeleteTarget,
    specs.subject,
    (
        Stage("request", removal.request, "Ask for its end", within=minutes(10), typical=5),
        Stage("gone", removal.gone, "Wait until nothing of it is left", within=minutes(30), typical=120),
    ),
    destructive=True,
    overtakes=frozenset({"inference_endpoint.create", "inference_endpoint.update"}),
)

WORKFLOWS = (CREATE_ENDPOINT, UPDATE_ENDPOINT, DELETE_ENDPOINT)
