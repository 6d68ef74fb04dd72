"""Everything the product can do: the workflows of every slice. A new slice adds its line here and in routes.py."""

from __future__ import annotations

from instantstart.capabilities.clusters import workflows as clusters
from instantstart.capabilities.clusters.imports import workflows as imports

WORKFLOWS = (*clusters.WORKFLOWS, *imports.WORKFLOWS)
