"""Tools for features of a cluster."""

from __future__ import annotations

from instantstart.faces.mcp.tool import Area, begins, reads

TOOLS = (
    reads("feature_list", "List features: on or off, why, by whom, identity chain link by link.", Area.features),
    reads("feature_get", "Show one feature, with the versions EKS offers.", Area.features),
    begins(
        "feature_update",
        "Switch features on or off; name only what is to change. Look at dry_run=true first; switching off needs its plan's approval.",
        Area.features,
    ),
    begins("feature_repair", "Put broken identity chains right again.", Area.features),
    begins("feature_upgrade", "Upgrade a feature's add-on.", Area.features),
)
