"""Why the communication of a multi-node job hangs, fails or crawls: security group, EFA, environment, place, memory, cards, words. Pure.

Facts: aws-facts A4.3 (security group), A14 (EFA), NCCL user guide (environment variables), cases 44 and 49.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field

from instantstart.base.counting import counted, plural
from instantstart.ensure.capacity.nodes import NodeView
from instantstart.ensure.diagnosis import log_words
from instantstart.ensure.diagnosis.findings import (
    Confidence,
    DiagnosisCause,
    DiagnosisEvidence,
    DiagnosisStep,
    look,
    renew,
    restart,
    seen,
)

#: the interface of a pod that does not use the host's network
POD_INTERFACE = "eth0"
SHOWN_PREFIXES = ("NCCL_", "FI_", "GLOO_SOCKET_IFNAME", "TORCH_NCCL_", "RDMAV_", "OFI_NCCL_")
_SWITCHED_OFF = {"NCCL_P2P_DISABLE": "peer-to-peer between cards", "NCCL_SHM_DISABLE": "shared memory within a node"}
_SLOW_PROVIDERS = frozenset({"tcp", "sockets", "udp", "tcp;ofi_rxm", "shm"})
_MOST = 4
_SUBMIT = "training_job_submit"


@dataclass(frozen=True)
class Worker:
    """A pod of the job, as far as communication is concerned. ``shared_memory``: whether memory is mounted on /dev/shm."""

    name: str
    node: str | None
    accelerators: int
    efa: int
    env: Mapping[str, str]
    host_network: bool
    shared_memory: bool
    image: str


@dataclass(frozen=True)
class NcclFacts:
    """What is known. Without a job (``job`` None) only the cluster's side is looked at."""

    job: str | None = None
    state: str = ""
    workers: Sequence[Worker] = ()
    #: nodes under the workers, or all nodes with EFA where no job is asked about
    nodes: Sequence[NodeView] = ()
    #: instance type -> EFA cards that EC2 says it has (0: none)
    efa_of_type: Mapping[str, int] = field(default_factory=dict)
    #: security groups of the nodes -> directions without the rule that names the group itself; None: not read
    missing_rules: Mapping[str, Sequence[str]] | None = None
    #: EFA device plugin: (pods ready, pods)
    plugin: tuple[int, int] | None = None
    logs: Mapping[str, str] = field(default_factory=dict)

    @property
    def several(self) -> bool:
        """Whether nodes have to talk with one another."""
        return self.job is None or len(self.workers) > 1

    @property
    def asks_efa(self) -> bool:
        """Whether any worker asks for EFA."""
        return any(w.efa for w in self.workers)

    @property
    def offers_efa(self) -> bool:
        """Whether a type in question has EFA at all."""
        return any(self.efa_of_type.values()) or any(n.efa for n in self.nodes)


def standing(facts: NcclFacts) -> str:
    """How it stands, in one sentence."""
    cards = ", ".join(
        f"{kind} has {count or 'no'} EFA card{'' if count == 1 else 's'}" for kind, count in sorted(facts.efa_of_type.items())
    )
    if facts.job is None:
        return f"The cluster's side only, without a job: {counted(len(facts.nodes), 'node')}; {cards or 'no instance type is known'}."
    asked = f"asking for {facts.workers[0].efa} EFA each" if facts.workers else "none yet"
    alone = "" if facts.several else " One pod needs no network between nodes."
    pods = counted(len(facts.workers), "worker pod")
    return f"The job {facts.job} is {facts.state}; {pods}, {asked}; {cards or 'types are not known'}.{alone}"


def causes(facts: NcclFacts) -> list[DiagnosisCause]:
    """Every cause that the facts speak for; configuration that is certainly wrong first, then what the logs say."""
    return [cause for rule in _RULES for cause in rule(facts)]


def _security_group(facts: NcclFacts) -> Iterator[DiagnosisCause]:
    """EFA needs all traffic from and to the group itself; an address range does not count (case 44)."""
    if facts.missing_rules is None or not facts.several or not facts.offers_efa:
        return
    missing = {group: words for group, words in facts.missing_rules.items() if words}
    if not missing:
        return
    evidence = tuple(
        seen("aws", f"security group {group}", f"It has no {' and no '.join(words)} rule for all traffic that names the group itself.")
        for group, words in missing.items()
    )
    group, words = next(iter(missing.items()))
    unused = facts.job is not None and not facts.asks_efa
    steps = (
        look("See the rules of the group; 0.0.0.0/0 does not count for EFA."),
        restart(
            f"Add to {group} a rule for all traffic with {group} as the other side ({' and '.join(words)}); nothing is to be restarted."
        ),
    )
    text = f"The nodes' security group {group} does not let its own members through ({' and '.join(words)}): EFA hangs and says nothing."
    yield DiagnosisCause("network.efa_rules_missing", text, "possible" if unused else "certain", evidence, steps)


def _interface(facts: NcclFacts) -> Iterator[DiagnosisCause]:
    """A name of an interface that a pod does not have."""
    for variable in ("NCCL_SOCKET_IFNAME", "GLOO_SOCKET_IFNAME"):
        wrong = [w for w in facts.workers if variable in w.env and not _has_interface(w.env[variable])]
        if not wrong or not facts.several:
            continue
        value, host = wrong[0].env[variable], any(w.host_network for w in wrong)
        text = f"{variable}={value} names no interface of a pod, which has {POD_INTERFACE}."
        if host:
            text = f"{variable}={value}: with the host's network the interfaces are the node's own, and differ between types."
        evidence = tuple(_environment(w, variable) for w in wrong[:_MOST])
        steps = (
            look(f"Compare it with the interfaces of a pod: {POD_INTERFACE} unless it uses the host's network.", "training_job_get"),
            restart(f"Submit it without {variable}, or with {POD_INTERFACE}.", _SUBMIT),
        )
        yield DiagnosisCause("nccl.socket_interface", text, "possible" if host else "certain", evidence, steps)


def _has_interface(value: str) -> bool:
    """Whether a value of NCCL_SOCKET_IFNAME leaves a pod its interface: ``^`` excludes, ``=`` is exact, else beginnings of names."""
    exclude, exact = value.startswith("^"), value.lstrip("^").startswith("=")
    names = [n for n in value.lstrip("^").lstrip("=").split(",") if n]
    hit = any(n == POD_INTERFACE if exact else POD_INTERFACE.startswith(n) for n in names)
    return not hit if exclude else hit or not names


def _environment(worker: Worker, *variables: str) -> DiagnosisEvidence:
    told = ", ".join(f"{name}={worker.env[name]}" for name in variables if name in worker.env)
    return seen("kubernetes", f"pod {worker.name}, environment", "Its settings.", None, told)


def _tcp_forced(facts: NcclFacts) -> Iterator[DiagnosisCause]:
    """Settings that keep NCCL off EFA."""
    for worker in facts.workers:
        wrong = [
            name
            for name, bad in (
                ("NCCL_NET", worker.env.get("NCCL_NET", "").lower() == "socket"),
                ("FI_PROVIDER", worker.env.get("FI_PROVIDER", "").lower() in _SLOW_PROVIDERS),
                ("NCCL_NET_PLUGIN", worker.env.get("NCCL_NET_PLUGIN", "").lower() == "none"),
            )
            if bad
        ]
        if wrong and facts.several and facts.offers_efa:
            steps = (
                look("See who sets it: the request, the image, or a recipe.", "training_job_get"),
                restart("Submit it without; FI_PROVIDER=efa is set where EFA is asked for.", _SUBMIT),
            )
            text = f"{', '.join(wrong)} in the environment keeps NCCL off EFA: it talks over TCP, many times slower."
            yield DiagnosisCause("nccl.tcp_forced", text, "certain", (_environment(worker, *wrong),), steps)
            return


def _efa_asked(facts: NcclFacts) -> Iterator[DiagnosisCause]:
    """Whether the pods ask for the EFA cards that their nodes have (case 49)."""
    if facts.job is None or len(facts.workers) < 2:
        return
    have = {n.name: facts.efa_of_type.get(n.instance_type or "", n.efa) or n.efa for n in facts.nodes}
    most = max([*have.values(), *facts.efa_of_type.values()], default=0)
    short = [w for w in facts.workers if w.efa < (have.get(w.node or "", most) or 0)]
    if not short:
        return
    none = all(w.efa == 0 for w in short)
    evidence = tuple(
        seen("kubernetes", f"pod {w.name}", f"It asks for {w.efa} vpc.amazonaws.com/efa; its node has {have.get(w.node or '', most)}.")
        for w in short[:_MOST]
    )
    steps = (
        look("See the resources of its pods.", "training_job_get"),
        restart("Submit it with efa left out (all cards of the node) or with their number.", _SUBMIT),
    )
    if none:
        text = "Its pods ask for no EFA card, though their nodes have some: NCCL talks over TCP, many times slower."
        yield DiagnosisCause("nccl.efa_not_requested", text, "certain", evidence, steps)
    elif all(w.accelerators * 2 >= _accelerators(facts, w) for w in short):
        text = f"Its pods ask for {counted(short[0].efa, 'EFA card')} and their nodes have {most}: NCCL has a part of the bandwidth."
        yield DiagnosisCause("nccl.efa_too_few", text, "likely", evidence, steps)


def _accelerators(facts: NcclFacts, worker: Worker) -> int:
    node = next((n for n in facts.nodes if n.name == worker.node), None)
    return max(node.gpus, node.neuron) if node else 0


def _devices(facts: NcclFacts) -> Iterator[DiagnosisCause]:
    """Cards that the type has and Kubernetes does not see."""
    short = [(n, facts.efa_of_type.get(n.instance_type or "", 0)) for n in facts.nodes]
    short = [(n, wanted) for n, wanted in short if n.ready and n.efa < wanted]
    if facts.plugin is not None and facts.plugin[0] < facts.plugin[1]:
        evidence = (seen("kubernetes", "EFA device plugin", f"{facts.plugin[0]} of {facts.plugin[1]} pods are ready."),)
        steps = (
            look("Read the log of the EFA device plugin's pods.", "logs_read"),
            restart("Install the dependencies again.", "dependencies_configure"),
        )
        yield DiagnosisCause("efa.plugin_not_ready", "The EFA device plugin does not run on every node.", "likely", evidence, steps)
    if short:
        cards = tuple(
            seen("kubernetes", f"node {n.name}", f"It offers {n.efa} EFA cards; {n.instance_type} has {wanted}.")
            for n, wanted in short[:_MOST]
        )
        more = (
            look("Diagnose the node.", "diagnosis_get"),
            restart("Reboot it.", "node_reboot"),
            renew("Replace it: a card is faulty.", "node_replace"),
        )
        nodes = f"{counted(len(short), 'node')} {plural(len(short), 'offers', 'offer')}"
        text = f"{nodes} fewer EFA cards than the type has: no device plugin, or a faulty card."
        yield DiagnosisCause("node.efa_missing", text, "likely", cards, more)


def _zones(facts: NcclFacts) -> Iterator[DiagnosisCause]:
    zones = {n.zone: n for n in facts.nodes if n.zone}
    if facts.job is None or len(zones) < 2:
        return
    evidence = tuple(seen("kubernetes", f"node {n.name}", f"It is in {zone}.") for zone, n in sorted(zones.items()))
    steps = (
        look("See where its pods are.", "training_job_get"),
        restart("Submit it into one zone or one instance group.", _SUBMIT),
    )
    text = f"Its pods are in {len(zones)} zones ({', '.join(sorted(zones))}): EFA does not cross zones."
    yield DiagnosisCause("nccl.several_zones", text, "certain" if facts.asks_efa else "likely", evidence, steps)


def _no_efa(facts: NcclFacts) -> Iterator[DiagnosisCause]:
    known = facts.efa_of_type
    if facts.several and known and not any(known.values()) and not any(n.efa for n in facts.nodes):
        kinds = ", ".join(sorted(known))
        evidence = tuple(seen("aws", f"type {kind}", "EC2 says that it has no EFA card.") for kind in sorted(known))
        steps = (
            look("See which types have EFA.", "instance_type_list"),
            renew("Run it on a type with EFA.", "instance_group_add"),
        )
        yield DiagnosisCause("nccl.type_without_efa", f"{kinds} has no EFA: nodes talk over TCP.", "possible", evidence, steps)


def _nodes(facts: NcclFacts) -> Iterator[DiagnosisCause]:
    bad = [n for n in facts.nodes if n.faults or n.health not in (None, "Schedulable")]
    if bad:
        evidence = tuple(seen("kubernetes", f"node {n.name}", f"{n.health}: {', '.join(n.faults) or n.because}") for n in bad[:_MOST])
        steps = (
            look("Diagnose the node.", "diagnosis_get"),
            restart("Let the job start again on other nodes.", "training_job_resubmit"),
            renew("Reboot the node, then replace it.", "node_replace"),
        )
        text = f"{counted(len(bad), 'node')} under it {plural(len(bad), 'has', 'have')} a fault: one rank that does not answer stops all."
        confidence: Confidence = "certain" if facts.job else "likely"
        yield DiagnosisCause("node.hardware_fault", text, confidence, evidence, steps)


def _shared_memory(facts: NcclFacts) -> Iterator[DiagnosisCause]:
    bare = [w for w in facts.workers if w.accelerators > 1 and not w.shared_memory]
    if bare:
        evidence = tuple(
            seen("kubernetes", f"pod {w.name}", "No memory is mounted on /dev/shm; the default is 64 MiB.") for w in bare[:_MOST]
        )
        steps = (look("See its mounts.", "training_job_get"), restart("Submit it with shared_memory.", _SUBMIT))
        text = "Its pods have the default /dev/shm of 64 MiB, which is too small for NCCL between several cards."
        yield DiagnosisCause("nccl.shared_memory", text, "likely", evidence, steps)


def _differing(facts: NcclFacts) -> Iterator[DiagnosisCause]:
    """Ranks that do not run the same."""
    images = sorted({w.image for w in facts.workers})
    if len(images) > 1:
        evidence = tuple(seen("kubernetes", f"pod {w.name}", f"Its image is {w.image}.") for w in facts.workers[:_MOST])
        steps = (look("See which image each rank should have.", "training_job_get"), restart("Submit it with one image.", _SUBMIT))
        yield DiagnosisCause(
            "nccl.images_differ", "Its ranks run different images, so perhaps different NCCL.", "possible", evidence, steps
        )
    names = sorted({n for w in facts.workers for n in w.env if n.startswith(SHOWN_PREFIXES)})
    odd = [n for n in names if len({w.env.get(n) for w in facts.workers}) > 1]
    if odd:
        differing = tuple(_environment(w, *odd) for w in facts.workers[:_MOST])
        more: tuple[DiagnosisStep, ...] = (
            look("See who sets them.", "training_job_get"),
            restart("Submit it with the same for all.", _SUBMIT),
        )
        yield DiagnosisCause("nccl.settings_differ", f"{', '.join(odd)} differ between its ranks.", "likely", differing, more)


def _switched_off(facts: NcclFacts) -> Iterator[DiagnosisCause]:
    for worker in facts.workers[:1]:
        off = [n for n in _SWITCHED_OFF if worker.env.get(n) == "1"]
        if off and worker.accelerators > 1:
            what = " and ".join(_SWITCHED_OFF[n] for n in off)
            steps = (look("See who sets it.", "training_job_get"), restart("Submit it without.", _SUBMIT))
            text = f"{', '.join(off)} switches {what} off: cards of one node talk through the network."
            yield DiagnosisCause("nccl.switched_off", text, "likely", (_environment(worker, *off),), steps)


def _words(facts: NcclFacts) -> Iterator[DiagnosisCause]:
    yield from log_words.causes(facts.logs)


_RULES: tuple[Callable[[NcclFacts], Iterator[DiagnosisCause]], ...] = (
    _security_group, _interface, _nodes, _tcp_forced, _efa_asked, _zones, _words, _devices, _shared_memory, _differing, _switched_off,
    _no_efa,
)  # fmt: skip
