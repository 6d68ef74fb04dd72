"""What keeps nodes from talking, rule by rule, without a cluster (cases 44 and 49)."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from instantstart.ensure.capacity.nodes import NodeView
from instantstart.ensure.diagnosis import log_words
from instantstart.ensure.diagnosis.findings import DiagnosisCause, DiagnosisEvidence, ranked
from instantstart.ensure.diagnosis.nccl_causes import NcclFacts, Worker, causes, standing

P5 = "ml.p5.48xlarge"


def node(name: str, **more: Any) -> NodeView:
    """A healthy node of eight GPUs and 32 EFA cards."""
    told: dict[str, Any] = {
        "name": name, "instance_id": None, "cluster_name": None, "group": "workers", "instance_type": P5, "capacity_type": None,
        "zone": "zone-1", "ready": True, "schedulable": True, "health": "Schedulable", "deep_health": None, "usable": True,
        "because": None, "faults": (), "taints": (), "gpus": 8, "efa": 32, "neuron": 0, "pods": 100, "cpu": "190", "memory": "1900Gi",
        "kubelet_version": "", "created_at": None,
    }  # fmt: skip
    return NodeView(**{**told, **more})


def worker(number: int, **more: Any) -> Worker:
    """A pod that asks for all of its node, as jobs of ours do."""
    env = {"FI_PROVIDER": "efa", "NCCL_SOCKET_IFNAME": "^docker,lo,veth", "NCCL_DEBUG": "WARN"}
    told: dict[str, Any] = {
        "name": f"job-{number}", "node": f"node-{number}", "accelerators": 8, "efa": 32, "env": env, "host_network": False,
        "shared_memory": True, "image": "train:1",
    }  # fmt: skip
    return Worker(**{**told, **more})


WELL = NcclFacts(
    job="llm",
    state="running",
    workers=(worker(0), worker(1)),
    nodes=(node("node-0"), node("node-1")),
    efa_of_type={P5: 32},
    missing_rules={"sg-1": []},
    plugin=(2, 2),
    logs={"job-0": "step 1 loss=2.0\n"},
)


def codes(facts: NcclFacts) -> list[str]:
    """The codes of what ranks, the surest first."""
    return [c.code for c in ranked(causes(facts), detail=True)[0]]


def both(**more: Any) -> tuple[Worker, ...]:
    """Both pods changed alike."""
    return worker(0, **more), worker(1, **more)


def test_a_job_that_is_well_has_no_cause() -> None:
    assert causes(WELL) == []
    assert "2 worker pods, asking for 32 EFA each" in standing(WELL)


@pytest.mark.parametrize(
    ("change", "code", "confidence"),
    [
        ({"missing_rules": {"sg-1": ["egress"]}}, "network.efa_rules_missing", "certain"),
        ({"workers": both(env={"NCCL_SOCKET_IFNAME": "ens5"})}, "nccl.socket_interface", "certain"),
        ({"workers": both(env={"NCCL_SOCKET_IFNAME": "^eth"})}, "nccl.socket_interface", "certain"),
        ({"workers": both(env={"NCCL_NET": "Socket"})}, "nccl.tcp_forced", "certain"),
        ({"workers": both(env={"FI_PROVIDER": "tcp"})}, "nccl.tcp_forced", "certain"),
        ({"workers": both(efa=0)}, "nccl.efa_not_requested", "certain"),
        ({"workers": both(efa=1)}, "nccl.efa_too_few", "likely"),
        ({"nodes": (node("node-0"), node("node-1", zone="zone-2"))}, "nccl.several_zones", "certain"),
        ({"nodes": (node("node-0"), node("node-1", faults=("XidHardwareFailure",)))}, "node.hardware_fault", "certain"),
        ({"nodes": (node("node-0"), node("node-1", efa=31))}, "node.efa_missing", "likely"),
        ({"plugin": (1, 2)}, "efa.plugin_not_ready", "likely"),
        ({"workers": both(shared_memory=False)}, "nccl.shared_memory", "likely"),
        ({"workers": (worker(0), worker(1, env={"FI_PROVIDER": "efa", "NCCL_ALGO": "Ring"}))}, "nccl.settings_differ", "likely"),
        ({"workers": (worker(0), worker(1, image="train:2"))}, "nccl.images_differ", "possible"),
        ({"workers": both(env={"NCCL_P2P_DISABLE": "1"})}, "nccl.switched_off", "likely"),
        (
            {"efa_of_type": {P5: 0}, "nodes": (node("node-0", efa=0), node("node-1", efa=0)), "workers": both(efa=0)},
            "nccl.type_without_efa",
            "possible",
        ),
    ],
)
def test_each_fault_alone_is_the_first_cause(change: dict[str, Any], code: str, confidence: str) -> None:
    found, _ = ranked(causes(replace(WELL, **change)), detail=True)
    assert (found[0].code, found[0].confidence) == (code, confidence)
    assert found[0].evidence
    rungs = [step.rung for step in found[0].next_steps]
    assert rungs == sorted(rungs, key=["investigate", "restart", "replace"].index)
    assert rungs[0] == "investigate"


@pytest.mark.parametrize("value", ["eth", "eth0", "=eth0", "^docker,lo,veth", "^=lo", "lo,eth0", ""])
def test_a_name_that_leaves_a_pod_its_interface_is_no_cause(value: str) -> None:
    assert "nccl.socket_interface" not in codes(replace(WELL, workers=both(env={"NCCL_SOCKET_IFNAME": value})))


def test_on_the_hosts_network_a_name_is_only_worth_a_look() -> None:
    facts = replace(WELL, workers=both(env={"NCCL_SOCKET_IFNAME": "ens5"}, host_network=True))
    assert [(c.code, c.confidence) for c in causes(facts)] == [("nccl.socket_interface", "possible")]


def test_one_pod_needs_no_network() -> None:
    facts = replace(
        WELL, workers=(worker(0, efa=0, env={"NCCL_SOCKET_IFNAME": "ens5"}),), nodes=(node("node-0"),), missing_rules={"sg-1": ["egress"]}
    )
    assert codes(facts) == []


def test_rules_that_were_not_read_are_no_cause() -> None:
    assert codes(replace(WELL, missing_rules=None)) == []


def test_without_a_job_only_the_cluster_is_looked_at() -> None:
    facts = replace(WELL, job=None, workers=(), logs={}, missing_rules={"sg-1": ["ingress", "egress"]})
    assert codes(facts) == ["network.efa_rules_missing"]
    assert "without a job" in standing(facts)


LINES = {
    "nccl.peer_unreachable": "NET/OFI Request completed with error: Unresponsive receiver (reachable by EFA device but handshake failed)",
    "nccl.socket_interface": "bootstrap.cc:45 NCCL WARN Bootstrap : no socket interface found",
    "nccl.plugin_missing": "NCCL INFO NET/Plugin: Could not find: libnccl-net.so",
    "nccl.on_tcp": "job-0:1:1 [0] NCCL INFO Using network Socket",
    "nccl.shared_memory": "shm.cc NCCL WARN Error: failed to extend /dev/shm/nccl-abc to 33030532 bytes: No space left on device",
    "node.accelerator_fault": "NVRM: Xid (PCI:0000:10:1c): 79, GPU has fallen off the bus.",
    "accelerator.out_of_memory": "torch.OutOfMemoryError: CUDA out of memory. Tried to allocate 2 GiB",
    "program.module_missing": "ModuleNotFoundError: No module named 'deepspeed'",
    "program.port_taken": "[Errno 98] Address already in use",
    "nccl.collective_timeout": "Watchdog caught collective operation timeout: WorkNCCL(SeqNum=12) ran for 600000 milliseconds",
    "nccl.peer_gone": "socketProgressOpt: Call to recv from 10.1.0.5 failed: Connection reset by peer",
    "nccl.error": "init.cc:1 NCCL WARN something else",
}  # fmt: skip


@pytest.mark.parametrize("code", LINES)
def test_a_line_of_a_log_tells_its_cause_and_stays_evidence(code: str) -> None:
    found = log_words.causes({"job-0": f"start\n{LINES[code]}\nend\n", "job-1": "fine"})
    assert found[0].code == code
    told = found[0].evidence[0]
    assert told.source == "log"
    assert told.untrusted_text is not None
    assert LINES[code][:40] in told.untrusted_text
    assert LINES[code][:40] not in found[0].text


def test_of_what_the_log_says_and_the_rules_lack_the_rules_come_first_and_the_log_stands_by() -> None:
    logs = {"job-0": LINES["nccl.peer_unreachable"], "job-1": LINES["nccl.collective_timeout"]}
    assert codes(replace(WELL, missing_rules={"sg-1": ["egress"]}, logs=logs))[:2] == ["network.efa_rules_missing", "nccl.peer_unreachable"]


@given(st.lists(st.tuples(st.sampled_from(["a.b", "c.d", "e.f"]), st.sampled_from(["certain", "likely", "possible"]))))
def test_ranking_loses_no_code_and_puts_the_sure_first(told: list[tuple[str, Any]]) -> None:
    made = [DiagnosisCause(code, code, sure, (DiagnosisEvidence("aws", str(i), "x"),)) for i, (code, sure) in enumerate(told)]
    found, omitted = ranked(made, detail=True)
    assert omitted == 0
    assert {c.code for c in found} == {code for code, _ in told}
    order = [["certain", "likely", "possible"].index(c.confidence) for c in found]
    assert order == sorted(order)
    assert ranked(found, detail=True)[0] == found


def test_an_answer_is_bounded_and_secrets_in_logs_are_hidden() -> None:
    token = "hf_" + "a" * 30
    made = [log_words.causes({"p": f"NCCL WARN {token} " + "x" * 5000})[0]]
    found, _ = ranked(made)
    said = str(found[0].evidence[0].untrusted_text)
    assert len(said) <= 300
    assert token not in said
    many = [DiagnosisCause(f"a.b{i}", "t", "possible") for i in range(9)]
    assert (len(ranked(many)[0]), ranked(many)[1]) == (5, 4)
