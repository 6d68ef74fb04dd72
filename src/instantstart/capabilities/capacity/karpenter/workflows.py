"""What the Karpenter slice can do. Declarations only. The stages of enabling and disabling also serve the feature toggle."""

from __future__ import annotations

from instantstart.capabilities.capacity.karpenter import removal, specs, stages
from instantstart.capabilities.vocabulary import subject
from instantstart.operations.declare import Stage, Workflow

_MINUTE = 60.0

ENABLING = (
    Stage("role", stages.make_role, "Find or make the cluster role", within=30 * _MINUTE, typical=5),
    Stage("counts", stages.note_counts, "Write down the groups as they are", within=30 * _MINUTE, typical=1),
    Stage("switch", stages.switch_on, "Ask SageMaker for Karpenter", within=60 * _MINUTE, typical=15),
    Stage("service", stages.await_service, "See Karpenter in service", within=60 * _MINUTE, typical=60),
    Stage("kinds", stages.await_kinds, "See its kinds served", within=30 * _MINUTE, typical=10),
)
DISABLING = (
    Stage("survey", removal.survey, "Write down what there is", within=30 * _MINUTE, typical=1),
    Stage("pools", removal.remove_pools, "Remove the node pools and their nodes", within=120 * _MINUTE, typical=300),
    Stage("classes", removal.remove_classes, "Remove the node classes", within=30 * _MINUTE, typical=10),
    Stage("switch", removal.switch_off, "Switch Karpenter off", within=60 * _MINUTE, typical=60),
    Stage("baseline", removal.note_baseline, "Write down the counts it left", within=30 * _MINUTE, typical=1),
    Stage("restore", removal.restore_counts, "Put the groups back to what they were", within=60 * _MINUTE, typical=5),
    Stage("role", removal.remove_role, "Remove the cluster role", within=30 * _MINUTE, typical=5),
)


ENABLE = Workflow("karpenter.enable", "Enable managed Karpenter", specs.EnableTarget, subject, ENABLING)
DISABLE = Workflow("karpenter.disable", "Disable managed Karpenter", specs.DisableTarget, subject, DISABLING, destructive=True)
ADD_POOL = Workflow(
    "node_pool.add",
    "Add a node pool",
    specs.AddPoolTarget,
    subject,
    (
        Stage("class", stages.make_class, "Make the node class", within=30 * _MINUTE, typical=1),
        Stage("class_ready", stages.await_class, "See the node class ready", within=15 * _MINUTE, typical=5),
        Stage("pool", stages.make_pool, "Make the node pool", within=30 * _MINUTE, typical=1),
        Stage("pool_ready", stages.await_pool, "See the node pool ready", within=15 * _MINUTE, typical=5),
    ),
    queueable=True,
)
UPDATE_POOL = Workflow(
    "node_pool.update",
    "Update a node pool",
    specs.UpdatePoolTarget,
    subject,
    (
        Stage(
            "class",
            stages.change_class,
            "Change the groups of the node class",
            within=30 * _MINUTE,
            typical=1,
            when=lambda spec: spec.instance_groups is not None,
        ),
        Stage("class_ready", stages.await_class, "See the node class ready", within=15 * _MINUTE, typical=5),
        Stage("pool", stages.change_pool, "Change the node pool", within=30 * _MINUTE, typical=1),
        Stage("pool_ready", stages.await_pool, "See the node pool ready", within=15 * _MINUTE, typical=5),
    ),
    queueable=True,
)
DELETE_POOL = Workflow(
    "node_pool.delete",
    "Delete a node pool",
    specs.PoolTarget,
    subject,
    (
        Stage("survey", removal.find_class, "Write down the node class", within=30 * _MINUTE, typical=1),
        Stage("pool", removal.remove_pool, "Remove the node pool and its nodes", within=120 * _MINUTE, typical=300),
        Stage("class", removal.remove_class, "Remove the node class", within=30 * _MINUTE, typical=5),
    ),
    destructive=True,
    queueable=True,
)

WORKFLOWS = (ENABLE, DISABLE, ADD_POOL, UPDATE_POOL, DELETE_POOL)
