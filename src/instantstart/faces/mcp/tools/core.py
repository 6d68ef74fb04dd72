"""Tools for clusters and operations, which every client is shown."""

from __future__ import annotations

from instantstart.faces.mcp.tool import Area, Effect, Shape, Tool, Toolset, begins, costs, ends, reads, removes

TOOLS = (
    reads("cluster_list", "List clusters with account, region and state.", Area.core, Shape.clusters),
    reads("cluster_get", "Show one cluster: stages done and missing, EKS, HyperPod, nodes, storage."),
    reads(
        "node_list", "List nodes with type, capacity, health and readiness.", Area.core, Shape.nodes, "descending", "instance_type", "sort"
    ),
    reads("zone_list", "List zones where HyperPod nodes can go."),
    reads("instance_type_list", "List instance types with quota ('unknown' where unreadable).", Area.core, Shape.instance_types),
    reads("cluster_events", "List what CloudFormation and HyperPod said, newest first.", Area.core, Shape.events),
    reads("diagnosis_get", "Find why a cluster's creation, node, job, endpoint, deployment or NCCL fails: ranked causes, next steps."),
    reads("preflight_run", "Check what would stand in the way of a cluster; changes nothing."),
    costs(
        "cluster_create",
        "Create a whole verified cluster: EKS, dependencies, HyperPod, storage, verify.",
        makes_up_tag_for="cluster.create",
    ),
    costs("eks_create", "Create only the network and EKS, the first step. Without a tag one is made up.", makes_up_tag_for="eks.create"),
    begins("cluster_select", "Make a cluster the default for your other tools, and connect to it.", names_cluster=True),
    begins("dependencies_configure", "Install what HyperPod needs in EKS. Needs a selected (connected) EKS."),
    costs("hyperpod_create", "Create the HyperPod cluster and its first nodes. Needs dependencies."),
    begins("storage_configure", "Mount an S3 bucket as a volume claim. Needs HyperPod."),
    begins("cluster_verify", "Read everything anew; the result is the summary."),
    reads("operation_list", "List operations, newest first.", Area.core, Shape.operations, "mine", "sort"),
    reads("operation_get", "Show an operation: stages, waiting reason, problem, result.", Area.core, Shape.operation),
    reads("operation_wait", "Wait up to 50 s for an operation to end; call again until it rests.", Area.core, Shape.progress, "after"),
    reads("operation_events", "List what happened in an operation.", Area.core, Shape.events),
    begins("operation_retry", "Go on at the failed or blocked stage."),
    ends("operation_cancel", "Stop an operation; what was made stays."),
    removes(
        "cluster_delete",
        "Delete a cluster and all it made.",
        names_cluster=True,
    ),
    Tool(
        "cluster_forget",
        "Drop a cluster from the list; nothing on AWS changes.",
        Area.core,
        Toolset.admin,
        Effect.destroys,
        "cluster_list",
        names_cluster=True,
    ),
    reads(
        "logs_read",
        "Read the last log lines of a pod, training job, deployment, endpoint or selector; search filters.",
        Area.core,
        Shape.logs,
        "job_kind",
    ),
)
