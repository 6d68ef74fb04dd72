"""The doors of every slice, in the order of the API's pages."""

from __future__ import annotations

from instantstart.capabilities.clusters import routes as clusters

ROUTERS = (clusters.router,)
