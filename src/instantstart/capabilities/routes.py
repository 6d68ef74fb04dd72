"""The doors of every slice, in the order of the API's pages."""

from __future__ import annotations

from instantstart.capabilities.capacity.fleet import routes as fleet
from instantstart.capabilities.capacity.groups import routes as groups
from instantstart.capabilities.capacity.karpenter import routes as karpenter
from instantstart.capabilities.capacity.nodes import routes as nodes
from instantstart.capabilities.capacity.training_plans import routes as training_plans
from instantstart.capabilities.clusters import routes as clusters
from instantstart.capabilities.clusters.imports import routes as imports
from instantstart.capabilities.diagnosis import routes as diagnosis
from instantstart.capabilities.features import routes as features
from instantstart.capabilities.inference.calls import routes as calls
from instantstart.capabilities.inference.deployments import routes as deployments
from instantstart.capabilities.inference.endpoints import routes as endpoints
from instantstart.capabilities.inference.pools import routes as pools
from instantstart.capabilities.inference.routers import routes as routers
from instantstart.capabilities.inference.scaling import routes as scaling
from instantstart.capabilities.inference.served import routes as served
from instantstart.capabilities.storage.downloads import routes as downloads
from instantstart.capabilities.storage.images import routes as images
from instantstart.capabilities.storage.objects import routes as objects
from instantstart.capabilities.storage.volumes import routes as volumes
from instantstart.capabilities.training.jobs import routes as jobs
from instantstart.capabilities.training.logs import routes as logs
from instantstart.capabilities.training.mlflow import routes as mlflow
from instantstart.capabilities.training.recipes import routes as recipes

ROUTERS = (
    clusters.router,
    imports.router,
    fleet.router,
    volumes.router,
    objects.router,
    images.router,
    downloads.router,
    groups.router,
    nodes.router,
    karpenter.router,
    training_plans.router,
    features.router,
    jobs.router,
    recipes.router,
    logs.router,
    deployments.router,
    pools.router,
    routers.router,
    scaling.router,
    endpoints.router,
    served.router,
    calls.router,
    mlflow.router,
    diagnosis.router,
)
