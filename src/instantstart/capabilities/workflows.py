"""Everything the product can do: the workflows of every slice. A new slice adds its line here and in routes.py."""

from __future__ import annotations

from instantstart.capabilities.clusters import workflows as clusters

WORKFLOWS = (*clusters.WORKFLOWS,)
