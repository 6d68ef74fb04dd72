"""What a client may tell its user of a tool before it is called (MCP annotations). True for each tool, so that they tell tools apart."""

from __future__ import annotations

from collections.abc import Mapping

from mcp_types import ToolAnnotations

from instantstart.faces.mcp.tool import Effect, Tool

#: changing tools whose second call does something again, and what
AGAIN: Mapping[str, str] = {
    "cluster_create": "without a tag, once the first has ended: another cluster",
    "eks_create": "without a tag, once the first has ended: another cluster",
    "node_reboot": "the nodes boot once more",
    "node_replace": "the nodes are given other instances once more",
    "node_check": "another hour of checks",
    "training_job_resubmit": "another job under the next free name",
    "training_plan_buy": "another purchase",
    "model_call": "another answer of the model",
    "mlflow_share": "another copy",
}
#: tools that reach what neither the account nor the cluster holds, and what
OUTSIDE: Mapping[str, str] = {
    "model_download": "the model hub",
    "image_check": "registries of others",
    "model_call": "what a model says",
    "mlflow_share": "MLflow of another account",
}


def of(tool: Tool) -> ToolAnnotations:
    """All four hints of a changing tool; of a reading one only those that the protocol does not take for granted."""
    outside = tool.name in OUTSIDE
    if tool.effect is Effect.reads:
        return ToolAnnotations(read_only_hint=True, open_world_hint=outside)
    return ToolAnnotations(
        read_only_hint=False,
        destructive_hint=tool.effect is Effect.destroys,
        idempotent_hint=tool.name not in AGAIN,
        open_world_hint=outside,
    )
