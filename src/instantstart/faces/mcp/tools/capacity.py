"""Tools for nodes, instance groups, Karpenter, training plans, imports."""

from __future__ import annotations

from instantstart.faces.mcp.tool import PLANNED_WHERE, Area, Effect, Shape, begins, changes, costs, on_nodes, reads, removes

TOOLS = (
    reads("node_get", "Show one node: faults, pods, whose work, events with reasons.", Area.capacity),
    reads("node_health", "List unhealthy nodes with faults and what to do about each.", Area.capacity),
    reads("hyperpod_events", "List what HyperPod did and why things failed, newest first.", Area.capacity, Shape.events),
    reads("hyperpod_operations", "List HyperPod's own scalings and deep health checks.", Area.capacity),
    reads("fleet_get", "Show nodes and accelerators used, idle, pending by group.", Area.capacity, Shape.fleet),
    reads("fleet_pending", "List pods that wait for nodes, with the reason.", Area.capacity),
    on_nodes("node_reboot", "Reboot nodes; volumes stay."),
    on_nodes("node_replace", "Give nodes other instances; data on their volumes is lost.", Effect.destroys),
    on_nodes("node_delete", "Delete just these nodes; target counts go down.", Effect.destroys),
    on_nodes("node_move", "Let nodes belong to another group of the same type."),
    on_nodes("node_check", "Start deep health checks; nodes take no pods for 1-2 h."),
    changes("node_uncordon", "Uncordon nodes that a cancelled operation left cordoned.", Area.capacity, "node_list"),
    on_nodes("software_update", "Newer HyperPod software for groups of nodes, in batches if asked."),
    reads("cluster_candidates", "List EKS clusters that others made and that could be imported.", Area.capacity),
    begins(
        "cluster_import",
        "Manage an EKS cluster that others made, and the HyperPod cluster on it. First call with dry_run=true: it lists what "
        "is wrong, with the switch that mends each. Nothing on AWS changes but what a switch asks for.",
        Area.capacity,
    ),
    reads("karpenter_get", "Show managed Karpenter: on or off, what stands in its way, its pools.", Area.capacity),
    reads("node_pool_list", "List Karpenter's node pools with nodes, and why one is late.", Area.capacity),
    reads("node_pool_get", "Show one node pool: settings, nodes asked for, why one is late.", Area.capacity),
    begins("karpenter_enable", "Switch managed Karpenter on. It scales nothing before node_pool_add.", Area.capacity),
    costs("node_pool_add", "Let Karpenter make nodes of instance groups. Groups with nodes lose them.", Area.capacity),
    costs("node_pool_update", "Change a node pool; what is left out stays. New groups with nodes lose them.", Area.capacity),
    removes(
        "node_pool_delete",
        "Delete a node pool and its nodes.",
        Area.capacity,
    ),
    removes(
        "karpenter_disable",
        "Remove all node pools and their nodes, switch Karpenter off, put the groups back.",
        Area.capacity,
    ),
    reads("instance_group_list", "List instance groups: count, type, zone, capacity type, owner.", Area.capacity),
    reads("instance_group_get", "Show one instance group, its nodes by status, and why some are late.", Area.capacity),
    costs("instance_group_add", "Add an instance group; most of it is for life.", Area.capacity),
    begins("instance_group_update", "Change labels, taints, checks, minimum or scripts of a group; what is left out stays.", Area.capacity),
    costs("instance_group_scale", "Change the number of nodes, idle ones first.", Area.capacity, told=PLANNED_WHERE),
    removes(
        "instance_group_delete",
        "Empty and delete a group.",
        Area.capacity,
    ),
    reads("training_plan_list", "List training plans: status, window, type, zone, instances left.", Area.capacity),
    reads("training_plan_get", "Show one training plan.", Area.capacity),
    reads("training_plan_offerings", "Search training plans on offer, with price and window; buys nothing.", Area.capacity),
    removes(
        "training_plan_buy",
        "Buy an offering: charged at once, not cancellable.",
        Area.capacity,
    ),
)
