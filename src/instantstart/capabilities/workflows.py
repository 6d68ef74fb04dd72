"""Everything the product can do: the workflows of every slice. A new slice adds its line here and in routes.py."""

from __future__ import annotations

from instantstart.capabilities.capacity.groups import workflows as groups
from instantstart.capabilities.capacity.karpenter import workflows as karpenter
from instantstart.capabilities.capacity.nodes import workflows as nodes
from instantstart.capabilities.capacity.training_plans import workflows as training_plans
from instantstart.capabilities.clusters import workflows as clusters
from instantstart.capabilities.clusters.imports import workflows as imports
from instantstart.capabilities.features import workflows as features
from instantstart.capabilities.inference.deployments import workflows as deployments
from instantstart.capabilities.inference.endpoints import workflows as endpoints
from instantstart.capabilities.inference.pools import workflows as pools
from instantstart.capabilities.inference.routers import workflows as routers
from instantstart.capabilities.inference.scaling import workflows as scaling
from instantstart.capabilities.storage.downloads import workflows as downloads
from instantstart.capabilities.storage.volumes import workflows as volumes
from instantstart.capabilities.training.jobs import workflows as jobs
from instantstart.capabilities.training.mlflow import workflows as mlflow

WORKFLOWS = (
    *clusters.WORKFLOWS,
    *imports.WORKFLOWS,
    *volumes.WORKFLOWS,
    *downloads.WORKFLOWS,
    *groups.WORKFLOWS,
    *nodes.WORKFLOWS,
    *karpenter.WORKFLOWS,
    *training_plans.WORKFLOWS,
    *features.WORKFLOWS,
    *jobs.WORKFLOWS,
    *deployments.WORKFLOWS,
    *pools.WORKFLOWS,
    *routers.WORKFLOWS,
    *scaling.WORKFLOWS,
    *endpoints.WORKFLOWS,
    *mlflow.WORKFLOWS,
)
