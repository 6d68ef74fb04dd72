"""The stages of what is done to nodes: a baseline, the emptying, the act (again only while the baseline holds), the way back.

Before a node is acted on it is marked in Kubernetes with the operation; the mark says later whether AWS took the wish. A reply that was
lost is so never asked for twice: only when no sign of the act is seen for three minutes (judging.GRACE_SECONDS).
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import Any

from instantstart.base import problems
from instantstart.base.outcome import Done, Outcome, Progress, Wait, pace
from instantstart.capabilities.capacity.nodes import judging, rules
from instantstart.capabilities.capacity.nodes.judging import Before, Now, Phase, Verdict
from instantstart.capabilities.room import Room
from instantstart.ensure.capacity import drains, instances
from instantstart.ensure.capacity.instances import Instance
from instantstart.ensure.sites import Site, site
from instantstart.kube.client import KubeCluster
from instantstart.operations.declare import Cut, Run

#: on a node: which operation has asked something of AWS about it, and how far that is known
MARK = "instantstart.dev/asked"
_FEW = 10
_PATIENCE_SECONDS = 120.0
_SHOWN = 3
Refused = dict[str, str]


@dataclass(frozen=True)
class Errand:
    """One kind of act: how AWS is asked for some nodes (refusals by key), how a node is judged, how long it usually takes."""

    ask: Callable[[Scene, Sequence[Before]], Refused]
    judge: Callable[[Scene, Before, Now], Verdict]
    past: str
    typical: float
    #: most nodes in one call
    batch: int = 25


@dataclass(frozen=True)
class Scene:
    """One look: the cluster, the nodes before and now, and the marks on them."""

    run: Run
    where: Site
    kube: KubeCluster
    cluster: Mapping[str, Any]
    before: Mapping[str, Before]
    now: Mapping[str, Now]
    #: key -> (word, seconds of this stage when it was written) of this operation's and attempt's marks
    marks: Mapping[str, tuple[str, float]]

    @property
    def arn(self) -> str:
        """The cluster, as every call names it."""
        return str(self.cluster["ClusterArn"])


def baseline(room: Room, run: Run) -> Outcome:
    """Write down what the nodes are, before anything is done. Raises Blocked when work runs there that the plan did not name."""
    where = site(room, run.spec)
    cluster = rules.described(where)
    found = instances.read(where.aws, cluster)
    by_key = {name: each for each in found for name in (each.instance_id, each.logical_id) if name}
    chosen = {key: by_key[key] for key in run.spec.nodes if key in by_key}
    _check_work(room, where, run, list(chosen.values()))
    kube = where.kube(room)
    before = {key: _before(kube, key, each) for key, each in chosen.items()}
    gone = [key for key in run.spec.nodes if key not in chosen]
    known = [] if instances.is_continuous(cluster) else sorted(each.key for each in found)
    learned = {"nodes": {k: asdict(b) for k, b in before.items()}, "gone": gone, "known": known, "checks": list(_checks(where, cluster))}
    note = f"Gone or replaced since they were asked for: {drains.shown(gone)}." if gone else None
    return Done(learned, note=note)


def _before(kube: KubeCluster, key: str, instance: Instance) -> Before:
    node = kube.find("Node", instance.node_name) if instance.node_name else None
    return Before(key, instance.instance_id, instance.logical_id, instance.group, judging.boot_id(node))


def _check_work(room: Room, where: Site, run: Run, chosen: Sequence[Instance]) -> None:
    new = sorted(set(rules.names_of(rules.busy(room, where, chosen))) - set(run.spec.work))
    if new:
        raise problems.Blocked(
            "node.work_changed",
            f"Work runs on the nodes that the plan did not name: {drains.shown(new)}.",
            hint="Let it end or stop it, then retry; or cancel this operation and ask for a new plan.",
            evidence={"work": new[:50]},
        )


def empty(room: Room, run: Run) -> Outcome:
    """Cordon the nodes and let their pods leave. Raises Blocked at the deadline, naming pod and budget."""
    where, limit = site(room, run.spec), run.spec.drain_seconds
    names = [name for each in _befores(run).values() if (name := each.name) is not None]
    if not limit or not names:
        return Done(already=True)
    try:
        return drains.drain(where.kube(room), names, run.waited_seconds, limit) or Done()
    except (problems.Unreachable, problems.Busy) as problem:
        if run.waited_seconds < limit:
            raise
        raise problems.Blocked(
            "node.drain_blocked",
            f"The nodes could not be emptied within {limit:g} seconds: {problem.detail}",
            hint="Retry when the cluster's API answers, or ask again without a drain.",
            evidence=problem.evidence,
        ) from problem


def left_cordoned(cut: Cut) -> problems.Problem | None:
    """What a cancel between the drain and the way back leaves."""
    if "drain" not in cut.begun or not cut.spec.drain_seconds or {"give_back", "delete"} & set(cut.learned):
        return None
    befores = (Before(**told) for told in cut.learned.get("baseline", {}).get("nodes", {}).values())
    return drains.left_cordoned(cut.spec.tag, [name for each in befores if (name := each.name) is not None])


def give_back(room: Room, run: Run) -> Outcome:
    """Let pods onto the nodes again that the drain cordoned, and take our marks off them."""
    kube = site(room, run.spec).kube(room)
    names = [name for each in _befores(run).values() if (name := each.name) is not None]
    drains.uncordon(kube, names)
    for name in names:
        found = kube.find("Node", name)
        if found is not None and MARK in (found["metadata"].get("annotations") or {}):
            kube.patch("Node", name, {"metadata": {"annotations": {MARK: None}}})
    acted = next((told for stage, told in run.learned.items() if stage not in ("baseline", "drain")), {})
    return Done(acted)


def reboot(room: Room, run: Run) -> Outcome:
    """Ask for the reboots, until every boot id has changed and the nodes are Ready."""
    return _turn(room, run, REBOOT)


def renew(room: Room, run: Run) -> Outcome:
    """Ask for other instances, until they stand Running and Ready in place of the old ones."""
    return _turn(room, run, REPLACE)


def delete(room: Room, run: Run) -> Outcome:
    """Ask for the deletion, until the nodes are not listed any more."""
    return _turn(room, run, DELETE)


def move(room: Room, run: Run) -> Outcome:
    """Ask for the move, until SageMaker lists the nodes in the other group."""
    return _turn(room, run, MOVE)


def check(room: Room, run: Run) -> Outcome:
    """Ask for the deep health checks, until HyperPod's operation is done."""
    return _turn(room, run, CHECK)


def _turn(room: Room, run: Run, errand: Errand) -> Outcome:
    """One look at all nodes; those whose baseline holds are asked for."""
    scene = look(room, run)
    verdicts = {key: errand.judge(scene, before, scene.now[key]) for key, before in scene.before.items()}
    still = [key for key, verdict in verdicts.items() if verdict.phase in (Phase.holds, Phase.under_way)]
    if not still:
        return _finished(run, verdicts)
    for key in still:
        if verdicts[key].phase is Phase.under_way and scene.marks.get(key, ("", 0.0))[0] == "asked":
            _mark(scene, scene.before[key], "taken")
    wanted = [scene.before[key] for key in still if verdicts[key].phase is Phase.holds and _may_ask(scene, key)]
    if wanted and scene.cluster["ClusterStatus"] != "InService":
        return Wait(30, f"The HyperPod cluster is {scene.cluster['ClusterStatus']}; nodes are acted on while it is InService")
    refused = _ask(scene, errand, wanted)
    if len(refused) == len(still) and run.waited_seconds >= _PATIENCE_SECONDS:
        raise _partly(errand, verdicts, refused)
    taken = {each.key: "AWS took the wish" for each in wanted if each.key not in refused}
    told = "; ".join(f"{key}: {refused.get(key) or taken.get(key) or verdicts[key].because}" for key in still[:_SHOWN])
    more = f"; and {len(still) - _SHOWN} more" if len(still) > _SHOWN else ""
    done = Progress(len(verdicts) - len(still), len(verdicts), "nodes")
    return Wait(pace(run.waited_seconds, errand.typical), told + more, done)


def _finished(run: Run, verdicts: Mapping[str, Verdict]) -> Done:
    """What became of each node."""
    told = {key: {"outcome": v.phase.value, "because": v.because, "instance_id": v.instance_id} for key, v in verdicts.items()}
    told |= {key: {"outcome": "moot", "because": "it was gone before", "instance_id": None} for key in run.learned["baseline"]["gone"]}
    moot = [f"{key}: {each['because']}" for key, each in told.items() if each["outcome"] == "moot"]
    return Done({"nodes": told}, note=f"Not acted on: {'; '.join(moot[:5])}." if moot else None)


def _partly(errand: Errand, verdicts: Mapping[str, Verdict], refused: Refused) -> problems.Blocked:
    done = [key for key, verdict in verdicts.items() if verdict.phase is Phase.done]
    told = "; ".join(f"{key}: {why}" for key, why in list(refused.items())[:5])
    return problems.Blocked(
        "node.partly_refused",
        f"{len(done)} of {len(verdicts)} nodes were {errand.past}; AWS refused {len(refused)}: {told}",
        hint="Look at each; retry asks again for those that are left, cancel leaves them as they are.",
        evidence={"done": done, "refused": refused},
    )


def look(room: Room, run: Run) -> Scene:
    """Read the nodes of an operation anew."""
    where = site(room, run.spec)
    cluster, kube, before = rules.described(where), where.kube(room), _befores(run)
    current = _current(where, cluster, run, before)
    raw = {key: kube.find("Node", each.node_name) if each is not None and each.node_name else None for key, each in current.items()}
    marks = {key: mark for key, node in raw.items() if (mark := _read_mark(node, run)) is not None}
    taken = {key: run.waited_seconds - at for key, (word, at) in marks.items() if word == "taken"}
    checks = _checks(where, cluster, set(run.learned["baseline"]["checks"])) if "checks" in type(run.spec).model_fields else {}
    events = instances.is_continuous(cluster)
    now = {key: Now(each, raw[key], taken.get(key), checks.get((each and each.instance_id) or ""), events) for key, each in current.items()}
    return Scene(run, where, kube, cluster, before, now, marks)


def _befores(run: Run) -> dict[str, Before]:
    return {key: Before(**told) for key, told in run.learned["baseline"]["nodes"].items()}


def _current(where: Site, cluster: Mapping[str, Any], run: Run, before: Mapping[str, Before]) -> dict[str, Instance | None]:
    """Each node now: a few are described, many are listed. Without logical ids a new instance of the group is the successor."""
    if len(before) <= _FEW and instances.is_continuous(cluster):
        told = {key: instances.describe_id(where.aws, cluster, each.instance_id, each.logical_id) for key, each in before.items()}
        return {key: instances.view(found) if found else None for key, found in told.items()}
    found = instances.read(where.aws, cluster)
    if instances.is_continuous(cluster):
        logical = {each.logical_id: each for each in found}
        return {key: logical.get(each.logical_id) for key, each in before.items()}
    known = set(run.learned["baseline"]["known"])
    fresh = sorted((each for each in found if each.key not in known), key=lambda each: each.key)
    by_id, now = {each.instance_id: each for each in found}, {}
    for key, each in before.items():
        successor = next((new for new in fresh if new.group == each.group), None) if each.instance_id not in by_id else None
        fresh = [new for new in fresh if new is not successor]
        now[key] = by_id.get(each.instance_id) or successor
    return now


def _checks(where: Site, cluster: Mapping[str, Any], known: set[str] | None = None) -> dict[str, str]:
    """Deep health checks of HyperPod: their ids; or, without the ``known`` ones, instance id -> status."""
    if not instances.is_continuous(cluster):
        return {}
    params = {"ClusterName": cluster["ClusterArn"], "Type": "DeepHealthCheck", "MaxResults": 20}
    listed = where.aws.read("sagemaker", "list_cluster_operations", **params).get("ClusterOperationSummaries", [])
    if known is None:
        return {each["OperationId"]: each["Status"] for each in listed}
    found: dict[str, str] = {}
    for each in reversed([each for each in listed if each["OperationId"] not in known]):
        params = {"ClusterName": cluster["ClusterArn"], "OperationId": each["OperationId"]}
        told = where.aws.read("sagemaker", "describe_cluster_operation", **params)
        found |= {i: told["Status"] for detail in told.get("DeepHealthCheckDetails", ()) for i in detail.get("InstanceIds", ())}
    return found


def _may_ask(scene: Scene, key: str) -> bool:
    """Whether a node may be asked for (again): never after AWS took it, and not while a lost answer may still show its effect."""
    word, at = scene.marks.get(key, ("", 0.0))
    return not word or (word == "asked" and scene.run.waited_seconds - at >= judging.GRACE_SECONDS)


def _read_mark(node: Mapping[str, Any] | None, run: Run) -> tuple[str, float] | None:
    """Our mark on a node, when this operation wrote it in this attempt of the stage."""
    text = ((node or {}).get("metadata", {}).get("annotations") or {}).get(MARK, "")
    parts = text.split(" ")
    return (parts[1], float(parts[2])) if len(parts) == 3 and parts[0] == _whose(run) else None


def _whose(run: Run) -> str:
    return f"{run.id}/{run.stage}/{run.attempt}"


def _mark(scene: Scene, before: Before, word: str | None) -> None:
    """Write how far a node is on the node itself; a node that is not there has no mark, and needs none."""
    if before.name is not None and scene.now[before.key].node is not None:
        value = None if word is None else f"{_whose(scene.run)} {word} {scene.run.waited_seconds:.1f}"
        try:
            scene.kube.patch("Node", before.name, {"metadata": {"annotations": {MARK: value}}})
        except problems.NotFound:
            return


def _ask(scene: Scene, errand: Errand, wanted: Sequence[Before]) -> Refused:
    """Ask AWS for what is wanted, batch by batch; refusals by key. A batch that is not even taken tells no batch after it."""
    refused: Refused = {}
    for start in range(0, len(wanted), errand.batch):
        batch = wanted[start : start + errand.batch]
        for each in batch:
            _mark(scene, each, "asked")
        told = _asked(scene, errand, batch)
        for each in batch:
            _mark(scene, each, None if each.key in told else "taken")
        refused |= told
    return refused


def _asked(scene: Scene, errand: Errand, batch: Sequence[Before]) -> Refused:
    try:
        return errand.ask(scene, batch)
    except (problems.Invalid, problems.Conflict) as problem:  # the batch as a whole: nothing was done
        return {each.key: problem.detail for each in batch}
    except (problems.Busy, problems.Denied) as problem:
        if problem.code in ("aws.throttled", "aws.denied"):  # surely not done: it may be asked again at once
            for each in batch:
                _mark(scene, each, None)
        raise


def _batch(operation: str) -> Callable[[Scene, Sequence[Before]], Refused]:
    """One of the batch APIs: one bad id does not spoil the others; the answer names those that failed (aws-facts A1.6)."""

    def ask(scene: Scene, batch: Sequence[Before]) -> Refused:
        return _failures(scene.where.aws.write("sagemaker", operation, ClusterName=scene.arn, **_ids(batch)))

    return ask


def _ids(batch: Sequence[Before]) -> dict[str, list[str]]:
    by_id = [each.instance_id for each in batch if each.instance_id]
    logical = [each.logical_id for each in batch if not each.instance_id and each.logical_id]
    return {key: ids for key, ids in (("NodeIds", by_id), ("NodeLogicalIds", logical)) if ids}


def _failures(answer: Mapping[str, Any]) -> Refused:
    told = [*answer.get("Failed", ()), *answer.get("FailedNodeLogicalIds", ())]
    return {
        each.get("NodeId") or each["NodeLogicalId"]: f"{each.get('ErrorCode') or each.get('Code')}: {each.get('Message', '')}"
        for each in told
    }


def _ask_move(scene: Scene, batch: Sequence[Before]) -> Refused:
    """MoveClusterNodes, for each group the nodes come from. The only one of these calls with a client token."""
    refused: Refused = {}
    for group in sorted({each.group for each in batch}):
        some = [each for each in batch if each.group == group]
        answer = scene.where.aws.write(
            "sagemaker",
            "move_cluster_nodes",
            SourceClusterArn=scene.arn,
            SourceInstanceGroupName=group,
            TargetClusterArn=scene.arn,
            TargetInstanceGroupName=scene.run.spec.target_group,
            ClientToken=scene.run.token(f"move {group} {' '.join(each.key for each in some)}"),
            **_ids(some),
        )
        refused |= _failures(answer)
    return refused


def _ask_check(scene: Scene, batch: Sequence[Before]) -> Refused:
    """StartClusterHealthCheck, one call for all groups."""
    groups: dict[str, list[str]] = {}
    for each in batch:
        groups.setdefault(each.group, []).append(each.key)
    wishes = [
        {"InstanceGroupName": name, "InstanceIds": ids, "DeepHealthChecks": list(scene.run.spec.checks)} for name, ids in groups.items()
    ]
    scene.where.aws.write("sagemaker", "start_cluster_health_check", ClusterName=scene.arn, DeepHealthCheckConfigurations=wishes)
    return {}


REBOOT = Errand(_batch("batch_reboot_cluster_nodes"), lambda _, b, n: judging.judge_reboot(b, n), "rebooted", 180)
REPLACE = Errand(_batch("batch_replace_cluster_nodes"), lambda _, b, n: judging.judge_replacement(b, n), "replaced", 900)
DELETE = Errand(_batch("batch_delete_cluster_nodes"), lambda _, b, n: judging.judge_deletion(b, n), "deleted", 300)
MOVE = Errand(_ask_move, lambda scene, b, n: judging.judge_move(b, n, scene.run.spec.target_group), "moved", 60)
CHECK = Errand(_ask_check, lambda _, b, n: judging.judge_check(b, n), "checked", 5400, batch=100)
