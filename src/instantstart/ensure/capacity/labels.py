"""Labels and taints of nodes, as SageMaker and Kubernetes take them (aws-facts A1.3); each wrong one is told at its own place."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence

from instantstart.ensure.findings import Finding

_LABEL_KEY = re.compile(r"([a-z0-9]([-a-z0-9]*[a-z0-9])?(\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*/)?[A-Za-z0-9]([-A-Za-z0-9_.]*[A-Za-z0-9])?")
_LABEL_VALUE = re.compile(r"([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9]")
_KEY_LIMIT, _VALUE_LIMIT = 317, 63
#: key prefixes that belong to Kubernetes and AWS (aws-facts A1.3)
RESERVED = ("kubernetes.io/", "k8s.io/", "sagemaker.amazonaws.com/", "eks.amazonaws.com/", "k8s.aws/", "karpenter.sh/")
#: taints that the dependencies chart's device plugins tolerate
_TOLERATED = ("nvidia.com/gpu", "aws.amazon.com/neuron", "vpc.amazonaws.com/efa")


def findings(labels: Mapping[str, str] | None, taints: Sequence[str] | None, deep_checks: bool) -> list[Finding]:
    """Labels and taints as SageMaker takes them, each wrong one at its own pointer. Pure."""
    found: list[Finding] = []
    found += [Finding(f"labels/{_escaped(key)}", "fail", told) for key, told in wrong_labels(labels or {})]
    for index, taint in enumerate(taints or ()):
        parsed = parse_taint(taint)
        wrong = [_wrong_key(parsed["Key"]), _wrong_value(parsed["Value"]) if "Value" in parsed else None]
        found += [Finding(f"taints/{index}", "fail", told) for told in wrong if told]
    keys = [(t["Key"], t["Effect"]) for t in map(parse_taint, taints or ())]
    found += [Finding(f"taints/{i}", "fail", f"The taint {k[0]}:{k[1]} is given twice.") for i, k in enumerate(keys) if k in keys[:i]]
    if taints and deep_checks:
        found.append(Finding("taints", "fail", "Own taints and deep health checks cannot be combined: SageMaker refuses it."))
    return found + _kept_out([t["Key"] for t in map(parse_taint, taints or ()) if t["Effect"] != "PreferNoSchedule"])


def wrong_labels(labels: Mapping[str, str]) -> list[tuple[str, str]]:
    """The keys of labels that SageMaker or Kubernetes would refuse, each with what is wrong with it or its value."""
    return [(key, told) for key, value in labels.items() for told in (_wrong_key(key), _wrong_value(value)) if told]


def _kept_out(keys: Sequence[str]) -> list[Finding]:
    """The plugins that show GPUs and EFA to Kubernetes tolerate the chart's own taints only (aws-facts A11)."""
    own = sorted({key for key in keys if key not in _TOLERATED})
    if not own:
        return []
    told = f"DaemonSets that do not tolerate {', '.join(own)} stay off these nodes: without the device plugins no GPU and no EFA is seen."
    return [Finding("taints", "warn", told, "Let the device plugins tolerate it, or use nvidia.com/gpu as the key.")]


def parse_taint(text: str) -> dict[str, str]:
    """``key=value:Effect`` as SageMaker takes it."""
    head, _, effect = text.rpartition(":")
    key, _, value = head.partition("=")
    return {"Key": key, **({"Value": value} if value else {}), "Effect": effect}


def show_taint(taint: Mapping[str, str]) -> str:
    """The inverse of :func:`parse_taint`."""
    value = f"={taint['Value']}" if taint.get("Value") else ""
    return f"{taint['Key']}{value}:{taint['Effect']}"


def _wrong_key(key: str) -> str | None:
    if len(key) > _KEY_LIMIT or not _LABEL_KEY.fullmatch(key):
        return f"{key} is no label key: letters, digits, '-', '_' and '.', after an optional prefix and '/'."
    prefix = key.rpartition("/")[0] + "/"
    taken = next((p for p in RESERVED if prefix == p or prefix.endswith("." + p)), None)
    return f"{key} is reserved: the prefix {taken} belongs to Kubernetes or AWS." if taken else None


def _wrong_value(value: str) -> str | None:
    if len(value) > _VALUE_LIMIT or not _LABEL_VALUE.fullmatch(value):
        return f"{value!r} is no label value: 1 to {_VALUE_LIMIT} letters, digits, '-', '_' and '.'."
    return None


def _escaped(key: str) -> str:
    return key.replace("~", "~0").replace("/", "~1")
