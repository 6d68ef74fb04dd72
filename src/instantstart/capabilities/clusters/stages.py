"""The stages of a cluster. Each looks first, acts at most once a tick, never sleeps, and can be killed anywhere.

In the order of the pipeline: account, network, stack, access, reach, identity and dependencies, subnet, request, nodes,
join, bucket, claim, verify. What stands between the cloud and these functions is in ``ensure/``.
"""

from __future__ import annotations

from importlib import resources
from typing import Any

from instantstart.base import names, problems
from instantstart.base.outcome import Done, Outcome, Progress, Wait, pace
from instantstart.capabilities.clusters import reads, rules, specs
from instantstart.capabilities.room import Room
from instantstart.ensure import eks, stacks
from instantstart.ensure.capacity import hyperpod, nodes, offers
from instantstart.ensure.clusters import summaries
from instantstart.ensure.findings import Finding, refusal
from instantstart.ensure.iam import identity
from instantstart.ensure.installs import addons, manifests, slots, strangers, workloads
from instantstart.ensure.installs.strangers import Takeover
from instantstart.ensure.networking import cidr, network, network_plugin
from instantstart.ensure.sites import Site, site
from instantstart.ensure.storage import buckets, s3_driver, volumes
from instantstart.kube.client import KubeCluster
from instantstart.operations.declare import Run

EKS_TYPICAL, ACCESS_GRACE, _VERIFY_PATIENCE = 720.0, 120.0, 300.0
POD_IDENTITY, S3_CSI, CERT_MANAGER = "eks-pod-identity-agent", s3_driver.ADDON, "cert-manager"
_EVERYWHERE = {"tolerations": [{"operator": "Exists"}]}


# The account and the network


def check_account(room: Room, run: Run) -> Outcome:
    """Refuse before the first call what would fail after the long ones."""
    where = site(room, run.spec)
    rules.check_not_imported(room.store.clusters.find(where.tag))
    have = hyperpod.find_cluster(where.aws, where.hyperpod_cluster)
    if have:
        hyperpod.check_ours(where.aws, have, where.tag)
        return Done({"account": where.names.account, "region": where.aws.region}, already=True)
    facts, found = judge(room, where, run.spec)
    refused = refusal(found)
    if refused:
        raise refused
    notes = [f.detail for f in found if f.level in ("warn", "unknown")]
    return Done(
        {
            "account": facts.account,
            "region": facts.region,
            "kubernetes_version": run.spec.kubernetes_version or facts.versions[0],
            "notes": notes,
        }
    )


def judge(room: Room, where: Site, spec: specs.EksTarget | specs.ClusterTarget) -> tuple[reads.Facts, list[Finding]]:
    """What is known of an ask for a cluster before anything is made: the same at the door and in the first stage."""
    if isinstance(spec, specs.ClusterTarget):
        ask, whole = spec, True
    else:
        ask, whole = specs.ClusterTarget(**spec.model_dump(), zone="none", instance_type="ml.t3.medium", instance_count=0), False
    facts = reads.observe(where, ask, room.clock.now().timestamp())
    return facts, rules.findings(where, ask, facts, rules.rules_for(facts, whole=whole))


def plan_network(room: Room, run: Run) -> Outcome:
    """Decide ranges and zones once, so that a repeated request is the same request."""
    where, spec = site(room, run.spec), run.spec
    if spec.vpc_id:
        return Done({"vpc_id": spec.vpc_id, "subnet_ids": spec.subnet_ids})
    taken = network.taken_ranges(where.aws)
    vpc = cidr.Network(spec.vpc_cidr) if spec.vpc_cidr else cidr.choose_vpc(taken, where.tag)
    cut = cidr.layout(vpc)
    zones = [z for z in offers.list_zones(where.aws) if z.eks_control_plane]
    if len(zones) < 2:
        raise problems.Conflict(
            "network.too_few_zones", f"{where.aws.region} has {len(zones)} zones that take an EKS control plane; two are needed."
        )
    wanted = getattr(spec, "zone", None)
    zones.sort(key=lambda z: wanted not in (z.name, z.zone_id))
    texts = {"vpc": str(cut.vpc), "public": [str(n) for n in cut.public], "control_plane": [str(n) for n in cut.control_plane]}
    return Done({**texts, "zones": [z.name for z in zones[:2]]})


def make_stack(room: Room, run: Run) -> Outcome:
    """One CloudFormation stack: VPC, subnets, NAT, security group, role, EKS cluster."""
    where = site(room, run.spec)
    stack = stacks.find_stack(where.aws, where.names.stack)
    mine = f"{run.id}-{run.attempt}"
    if stack is None:
        if "kubernetes_version" not in run.learned["account"]:
            raise problems.Conflict("stack.gone", f"{where.hyperpod_cluster} stands, but its stack {where.names.stack} is gone.")
        tags = {**where.tags, names.OPERATION_TAG: mine}
        stacks.create_stack(where.aws, where.names.stack, _template(), _parameters(where, run), tags, run.token("create"))
        return Wait(5, "CloudFormation took the stack")
    stacks.check_ours(stack, where.tag)
    if stack.is_complete:
        return Done({**stack.outputs, "stack": stack.name})
    if stack.is_leftover and stack.tags.get(names.OPERATION_TAG) == mine:
        raise stacks.failure(where.aws, stack)
    if stack.is_leftover or stack.status == "DELETE_FAILED":
        stacks.delete_stack(where.aws, stack.name, run.token(f"clear-{stack.stack_id}-{run.waited_seconds // 60:.0f}"))
        return Wait(10, f"The failed stack of an earlier try ({stack.status}) is being removed, to be made again")
    step = where.aws.cached(f"step {stack.stack_id}", room.clock.real_seconds(45), lambda: stacks.latest_step(where.aws, stack.stack_id))
    return Wait(pace(run.waited_seconds, EKS_TYPICAL), f"CloudFormation: {stack.status}{f', making {step}' if step else ''}")


def _template() -> str:
    return resources.files("instantstart.ensure").joinpath("templates/eks.yaml").read_text()


def _parameters(where: Site, run: Run) -> dict[str, str]:
    plan, spec = run.learned["network"], run.spec
    common = {
        "ClusterName": where.names.eks_cluster,
        "ClusterRoleName": where.names.eks_role,
        "KubernetesVersion": spec.kubernetes_version or run.learned["account"]["kubernetes_version"],
        "PermissionsBoundary": where.boundary or "",
    }
    if spec.vpc_id:
        return {**common, "ExistingVpcId": spec.vpc_id, "ExistingSubnetIds": ",".join(plan["subnet_ids"])}
    usable = stacks.refused_zones(where.aws, where.names.stack) if run.attempt > 1 else []
    zones = [*(z for z in plan["zones"] if z in usable), *(z for z in usable if z not in plan["zones"])][:2] if usable else plan["zones"]
    pairs = {"PublicCidr": plan["public"], "ControlPlaneCidr": plan["control_plane"], "Zone": zones}
    return {**common, "VpcCidr": plan["vpc"], **{f"{key}{i + 1}": pair[i] for key, pair in pairs.items() for i in (0, 1)}}


# The connection


def open_access(room: Room, run: Run) -> Outcome:
    """An access entry for our own principal: the cluster is made without a creator's hidden right.

    An imported cluster gets none here: nothing of it is changed without being asked (the import can be asked for it).
    """
    where = site(room, run.spec)
    if where.imported:
        return Done(already=True)
    cluster = eks.get_cluster(where.aws, where.eks_cluster)
    eks.check_ours(cluster, where.tag)
    wrong = eks.misfit(cluster, offers.list_kubernetes_versions(where.aws))
    if wrong:
        raise problems.Conflict("eks.does_not_fit", wrong[0], hint=f"{wrong[1]} Then retry.", evidence={"cluster_arn": cluster["arn"]})
    if cluster["status"] not in ("ACTIVE", "UPDATING"):
        return Wait(15, f"The EKS cluster is {cluster['status']}")
    principal = where.aws.identity().principal_arn
    return identity.ensure_access_entry(where.aws, cluster["name"], principal, where.tags, run.token("entry"))


def reach(room: Room, run: Run) -> Outcome:
    """A verified answer of the API server, by its own endpoint and CA; a new entry takes some seconds to count."""
    where = site(room, run.spec)
    cluster = eks.get_cluster(where.aws, where.eks_cluster)
    try:
        kube = room.kube.cluster(eks.ref(cluster, where.aws.region))
        kube.list("Namespace")
        network_plugin.check(kube)
        return Done({"endpoint": cluster["endpoint"], "version": kube.version(), "eks_arn": cluster["arn"]})
    except problems.Denied as problem:
        if where.imported or run.waited_seconds > ACCESS_GRACE:
            raise
        return Wait(2, f"The new access entry is not in force yet: {problem.detail}")


def kube_of(room: Room, where: Site) -> KubeCluster:
    return where.kube(room)


# The dependencies


def make_oidc_provider(room: Room, run: Run) -> Outcome:
    """Let IAM trust the cluster's service accounts: the issuer is this cluster's, never an older one's."""
    where = site(room, run.spec)
    issuer = eks.get_cluster(where.aws, where.eks_cluster)["identity"]["oidc"]["issuer"]
    return identity.ensure_oidc_provider(where.aws, issuer, where.tags)


def ask_pod_identity(room: Room, run: Run) -> Outcome:
    """The pod identity agent: without it no pod of an operator gets credentials."""
    return _ask_addon(room, run, addons.Addon(POD_IDENTITY, overwrite=run.spec.overwrite_conflicts))


def ask_cert_manager(room: Room, run: Run) -> Outcome:
    """cert-manager, tolerating every taint: a deep health check's taint must not stop the webhooks of all others."""
    settings = {**_EVERYWHERE, "webhook": _EVERYWHERE, "cainjector": _EVERYWHERE}
    return _ask_addon(room, run, addons.Addon(CERT_MANAGER, configuration=settings, overwrite=run.spec.overwrite_conflicts))


def make_s3_csi_role(room: Room, run: Run) -> Outcome:
    """The role of the S3 driver: bound to its one service account, allowed our buckets only (more are added by storage)."""
    where = site(room, run.spec)
    return identity.ensure_role(where.aws, s3_driver.role(where, s3_driver.allowed_buckets(where)), where.tags)


def ask_s3_csi(room: Room, run: Run) -> Outcome:
    """The S3 driver with its role by IRSA: the way this driver is known to take (pod identity is not, case 29)."""
    where = site(room, run.spec)
    role = where.aws.arn("iam", f"role/{where.names.s3_csi_role}", regional=False)
    wanted = addons.Addon(S3_CSI, role, {"node": {"tolerateAllTaints": True}}, run.spec.overwrite_conflicts)
    return _ask_addon(room, run, wanted)


def _ask_addon(room: Room, run: Run, wanted: addons.Addon) -> Outcome:
    where = site(room, run.spec)
    cluster = eks.get_cluster(where.aws, where.eks_cluster)
    have = addons.find(where.aws, cluster["name"], wanted.name) if where.imported and not wanted.overwrite else None
    if have and have.get("tags", {}).get(names.CLUSTER_TAG) != where.tag:
        return Done({"addon": wanted.name, "version": have["addonVersion"], "status": have["status"]}, already=True)
    return addons.request(where.aws, cluster["name"], cluster["version"], wanted, tags_of_this_try(where, run), run.token(wanted.name))


def apply_bundles(room: Room, run: Run) -> Outcome:
    """The HyperPod dependencies, from pinned bundles: SageMaker looks for them before it makes a cluster."""
    where = site(room, run.spec)
    kept = Takeover.adopt if where.imported else Takeover.refuse  # what an imported cluster has is used as it is
    takeover = Takeover.overwrite if run.spec.overwrite_conflicts else kept
    kube, applied = kube_of(room, where), {}
    for release in where.dependencies(room):
        outcome = manifests.ensure(kube, release, takeover)
        if isinstance(outcome, Wait):
            return outcome
        applied[release.name] = release.version
    return Done({"bundles": applied})


def await_dependencies(room: Room, run: Run) -> Outcome:
    """Everything observed: ACTIVE and ready, or waiting for the first node and for nothing else. With nodes there, lacking is lacking."""
    where = site(room, run.spec)
    kube = kube_of(room, where)
    seen = observe_dependencies(room, where, kube, cert_manager=run.spec.cert_manager)
    joined = any(n.usable for n in nodes.read(kube))
    waiting = [item["name"] for item in seen if item["state"] == "waiting_for_nodes" and not joined]
    open_items = [item for item in seen if item["state"] != "ready" and item["name"] not in waiting]
    if open_items:
        told = "; ".join(f"{item['name']}: {item['why'] or item['state']}" for item in open_items[:3])
        lacking = slots.read(kube) if joined else None
        told += f" ({lacking.sentence()})" if lacking and lacking.needed > lacking.total else ""
        return Wait(4, told, Progress(len(seen) - len(open_items), len(seen), "components"))
    note = f"Waiting for the first node, as is normal: {', '.join(waiting)}" if waiting else None
    return Done({"components": seen, "waiting_for_nodes": waiting}, note=note)


def observe_dependencies(room: Room, where: Site, kube: KubeCluster, *, cert_manager: bool) -> list[dict[str, Any]]:
    """Each component as it is now: ``{name, kind, version, state, why}``."""
    wanted = [POD_IDENTITY, S3_CSI, *([CERT_MANAGER] if cert_manager else [])]
    seen = []
    for name in wanted:
        told = addons.observe(where.aws, where.eks_cluster, name)
        state = "waiting_for_nodes" if told["waiting_for_nodes"] else "ready" if told["status"] == "ACTIVE" else told["status"].lower()
        seen.append({"name": name, "kind": "add-on", "version": told["version"], "state": state, "why": "; ".join(told["issues"]) or None})
    for release in where.dependencies(room):
        state = workloads.observe(kube, release)
        others = strangers.standing(kube, release) if where.imported else []
        by = f"installed {strangers.told(others)}" if others else None
        absent = state.state is workloads.State.absent
        seen.append(
            {
                "name": release.name,
                "kind": "bundle",
                "version": None if others else release.version,
                "state": "ready" if by and absent else state.state.value,
                "why": by if by and (absent or not state.why) else state.why,
            }
        )
    return seen


# The HyperPod cluster


def tags_of_this_try(where: Site, run: Run) -> dict[str, str]:
    """Our tags and the try that makes a thing: what a failed thing of an earlier try is told from."""
    return {**where.tags, names.OPERATION_TAG: f"{run.id}-{run.attempt}"}


# The storage


def make_data_bucket(room: Room, run: Run) -> Outcome:
    """The bucket to mount: the given one, checked; or one of ours."""
    where = site(room, run.spec)
    if run.spec.bucket is None:
        return buckets.ensure_bucket(where.aws, where.names.data_bucket, where.tags)
    region = buckets.find_region(where.aws, run.spec.bucket)
    if region is None:
        raise problems.Invalid(
            "bucket.not_found", f"There is no bucket {run.spec.bucket}.", fields=[problems.Violation("/bucket", "no such bucket")]
        )
    return Done({"bucket": run.spec.bucket, "region": region}, already=True)


def allow_bucket(room: Room, run: Run) -> Outcome:
    """Let the S3 driver reach the bucket, beside those it already may. A driver of somebody else's keeps its own role."""
    return s3_driver.allow(site(room, run.spec), run.learned["bucket"]["bucket"])


def make_claim(room: Room, run: Run) -> Outcome:
    """The volume and its claim, bound. A failure here leaves the cluster as it is and is retried alone."""
    where, spec, bucket = site(room, run.spec), run.spec, run.learned["bucket"]
    wanted = volumes.S3Volume(
        claim=spec.claim_name,
        namespace=spec.namespace,
        bucket=bucket["bucket"],
        region=bucket["region"],
        prefix=spec.prefix,
        read_only=spec.read_only,
    )
    return volumes.ensure(kube_of(room, where), wanted)


# The end


def verify(room: Room, run: Run) -> Outcome:
    """Read everything anew, and say what is."""
    where = site(room, run.spec)
    summary = summaries.read(where, kube_of(room, where))
    if not summary["verified"] and isinstance(run.spec, specs.ClusterTarget):
        return _not_verified(run, summaries.sentence(summary), summary)
    return Done(summary)


def _not_verified(run: Run, told: str, summary: dict[str, Any]) -> Wait:
    """What was made is looked at for some minutes; a cluster that is not what was asked for is not a success."""
    if run.waited_seconds < _VERIFY_PATIENCE:
        return Wait(10, told)
    raise problems.Blocked(
        "cluster.not_verified",
        f"The cluster is not what was asked for: {told}.",
        hint="Look at its nodes and its claim, mend what is wrong, and retry: everything is read anew.",
        evidence={key: summary[key] for key in ("nodes", "storage")},
    )
