"""What happens to an instance with time: boot, deep health check, joining Kubernetes, reboot, and its end."""

from __future__ import annotations

from typing import TYPE_CHECKING

from instantstart_sandbox.services import interfaces
from instantstart_sandbox.services.arns import Arn
from instantstart_sandbox.services.hyperpod import node_logs
from instantstart_sandbox.services.hyperpod.events import note, note_node
from instantstart_sandbox.services.hyperpod.instances import facts
from instantstart_sandbox.services.hyperpod.provision import ASK_SECONDS, retire
from instantstart_sandbox.services.hyperpod.state import Cluster, Node, clusters, continuous, eks_arn, nudge

if TYPE_CHECKING:
    from instantstart_sandbox.world.state import World

#: virtual seconds between two attempts to delete the interfaces of a node whose role is gone
_DELETE_RETRY_SECONDS = 60.0
#: how long a node with a failed lifecycle script stays before another instance is taken
_SCRIPT_RETRY_SECONDS = 120.0
_SCRIPT_FAILED = (
    "Lifecycle scripts did not run successfully. Ensure the scripts exist in provided S3 path, are accessible, and run without "
    "errors. Please see CloudWatch logs for lifecycle script execution details."
)


def _find(world: World, arn: str, logical: str, instance: str) -> tuple[Cluster, Node] | None:
    """The node, while it is still the instance that the timer was set for."""
    cluster = clusters(world).get(arn)
    node = cluster["nodes"].get(logical) if cluster else None
    return (cluster, node) if cluster and node and node["id"] == instance else None


def boot(world: World, arn: str, logical: str, instance: str) -> None:
    """The lifecycle script has run, or failed. With OnStartDeepHealthChecks an accelerated node is checked before it serves."""
    found = _find(world, arn, logical, instance)
    if found is None or found[1]["status"] != "Pending":
        return
    cluster, node = found
    group = cluster["groups"][node["group"]]
    failed = bool(group.get("broken_script"))
    node_logs.write(world, cluster, node, failed)
    if failed:
        _script_failed(world, cluster, node)
        return
    if eks_arn(cluster):
        world.clock.after(world.settings.node_join_seconds, "hyperpod.node.join", arn=arn, logical=logical, instance=instance)
    checks = group["spec"].get("OnStartDeepHealthChecks")
    if checks and facts(world, Arn.parse(arn).region, node["type"]).accelerated:
        start_deep_check(world, cluster, node)
    else:
        _run(world, cluster, node)


def _script_failed(world: World, cluster: Cluster, node: Node) -> None:
    """Continuous mode takes another instance and tries again; the old mode gives up."""
    node |= {"status": "Failure", "message": _SCRIPT_FAILED}
    note_node(world, cluster, node, f"Instance {node['id']} failed to provision.", "Error", _SCRIPT_FAILED, "Failed")
    if continuous(cluster):
        data = {"arn": cluster["arn"], "logical": node["logical"], "instance": node["id"]}
        world.clock.after(_SCRIPT_RETRY_SECONDS, "hyperpod.node.retry", **data)
    else:
        cluster["shortage"] = _SCRIPT_FAILED
        world.clock.after(0.0, "hyperpod.cluster.settle", arn=cluster["arn"])
    nudge(world, cluster)


def retry(world: World, arn: str, logical: str, instance: str) -> None:
    """Another instance in place of one whose script failed."""
    found = _find(world, arn, logical, instance)
    if found is not None and found[1]["status"] == "Failure" and found[0]["status"] != "Deleting":
        retire(world, *found, replace=True)
        nudge(world, found[0])


def start_deep_check(world: World, cluster: Cluster, node: Node, operation: str = "") -> None:
    """Put a node into its deep health check; it is unschedulable meanwhile."""
    node |= {"status": "DeepHealthCheckInProgress", "deep": "InProgress", "health": "Unschedulable"}
    note_node(world, cluster, node, f"Deep health check of instance {node['id']} has started.")
    data = {"arn": cluster["arn"], "logical": node["logical"], "instance": node["id"], "operation": operation}
    world.clock.after(world.settings.deep_health_check_seconds, "hyperpod.node.checked", **data)
    nudge(world, cluster)


def checked(world: World, arn: str, logical: str, instance: str, operation: str = "") -> None:
    """The deep health check is over: passed, unless a scenario made the node fail (``node["doomed"]``)."""
    found = _find(world, arn, logical, instance)
    if found is None or found[1]["status"] != "DeepHealthCheckInProgress":
        return
    cluster, node = found
    if node.pop("doomed", ""):
        reason = "EFA health checks did not run successfully on this instance."
        node |= {"deep": "Failed", "status": "Failure", "message": reason}
        note_node(world, cluster, node, f"Deep health check of instance {instance} has failed.", "Error", reason)
        world.clock.after(ASK_SECONDS, "hyperpod.node.recover", arn=arn, logical=logical, instance=instance, action="replace")
    else:
        node["deep"] = "Passed"
        _run(world, cluster, node)
    if operation:
        world.clock.after(0.0, "hyperpod.operation.checked", arn=arn, operation=operation)
    nudge(world, cluster)


def _run(world: World, cluster: Cluster, node: Node) -> None:
    node |= {"status": "Running", "health": "Schedulable"}
    note_node(world, cluster, node, f"Instance {node['id']} is running.")
    world.clock.after(0.0, "hyperpod.cluster.settle", arn=cluster["arn"])
    nudge(world, cluster)


def join(world: World, arn: str, logical: str, instance: str) -> None:
    """The kubelet has registered; a warning that is noise follows, as on AWS (facts A1.8)."""
    found = _find(world, arn, logical, instance)
    if found is None or found[1]["status"] == "ShuttingDown":
        return
    cluster, node = found
    node["joined"] = True
    about = {"InstanceGroupName": node["group"]}
    detail = {"InstanceGroup": {"FailureMessage": "1 node(s) are not ready for orchestration."}}
    note(world, cluster, "1 node(s) lost orchestration-ready status.", "Warn", detail, **about)
    nudge(world, cluster)


def reboot(world: World, cluster: Cluster, node: Node) -> None:
    """Restart the instance: same id, same logical id. The model has no status for it; Pending is taken [I]."""
    node |= {"status": "Pending", "message": "The instance is being rebooted.", "health": "UnschedulablePendingReboot"}
    note_node(world, cluster, node, f"Instance {node['id']} is being rebooted.")
    data = {"arn": cluster["arn"], "logical": node["logical"], "instance": node["id"]}
    world.clock.after(world.settings.node_reboot_seconds, "hyperpod.node.rebooted", **data)
    nudge(world, cluster)


def rebooted(world: World, arn: str, logical: str, instance: str) -> None:
    """The instance is back."""
    found = _find(world, arn, logical, instance)
    if found is not None and found[1]["status"] == "Pending":
        found[1]["boots"] = found[1].get("boots", 0) + 1
        _run(world, *found)


def gone(world: World, arn: str, logical: str, instance: str) -> None:
    """The instance has stopped: its interfaces are deleted by assuming the group's role; without it the node hangs."""
    found = _find(world, arn, logical, instance)
    if found is None or found[1]["status"] != "ShuttingDown":
        return
    cluster, node = found
    role = cluster["groups"][node["group"]]["spec"]["ExecutionRole"]
    if not world.iam_visible(role):
        node["message"] = f"The execution role {role} does not have permission to perform: ec2:DeleteNetworkInterface"
        world.clock.after(_DELETE_RETRY_SECONDS, "hyperpod.node.gone", arn=arn, logical=logical, instance=instance)
        world.changed()
        return
    release(world, cluster, node)
    if node["replacing"]:
        _await_new_instance(world, cluster, node)
    else:
        note_node(world, cluster, node | {"interfaces": []}, f"Instance {instance} has been terminated.")
        del cluster["nodes"][logical]
    world.clock.after(0.0, "hyperpod.cluster.settle", arn=arn)
    nudge(world, cluster)


def release(world: World, cluster: Cluster, node: Node) -> None:
    """Give back a node's addresses and capacity."""
    interfaces.delete(world, cluster["arn"], node["interfaces"])
    node["interfaces"] = []
    if node.pop("borrowed", False):
        world.capacity.give_back(node["type"], node["zone"])


def _await_new_instance(world: World, cluster: Cluster, node: Node) -> None:
    """A replaced node keeps its logical id and gets another instance id (facts A1.6)."""
    note_node(world, cluster, node, f"Instance {node['id']} is being replaced.")
    node |= {"id": "", "ip": "", "subnet": "", "status": "Pending", "message": "", "joined": False, "health": "Schedulable"}
    node |= {"deep": None, "image": "", "updated": None, "replacing": False, "tries": 0, "launched": world.clock.utc()}
    world.clock.after(ASK_SECONDS, "hyperpod.node.launch", arn=cluster["arn"], logical=node["logical"])


TIMERS = {
    "hyperpod.node.boot": boot,
    "hyperpod.node.checked": checked,
    "hyperpod.node.join": join,
    "hyperpod.node.rebooted": rebooted,
    "hyperpod.node.gone": gone,
    "hyperpod.node.retry": retry,
}
