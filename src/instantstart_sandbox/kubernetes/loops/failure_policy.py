"""What a Job's podFailurePolicy says of a failed pod (kubernetes.io: "Pod failure policy"): rules in order, the first that fits decides.

Exact: onExitCodes (In, NotIn, containerName), onPodConditions, actions FailJob, Ignore and Count. FailIndex counts here as Count.
"""

from __future__ import annotations

from dataclasses import dataclass

from .objects import Object, name_of, namespace_of, spec_of, status_of


@dataclass(frozen=True)
class Verdict:
    """The action of the rule that fits, with the message that the Job's condition gets; ``Count`` when none does."""

    action: str
    message: str = ""


_COUNT = Verdict("Count")


def judge(job: Object, pod: Object) -> Verdict:
    """The verdict over one failed pod."""
    for number, rule in enumerate((spec_of(job).get("podFailurePolicy") or {}).get("rules") or ()):
        told = _by_exit(rule.get("onExitCodes"), pod) or _by_condition(rule.get("onPodConditions"), pod)
        if told:
            place = f"{namespace_of(pod)}/{name_of(pod)}"
            return Verdict(rule["action"], f"{told.format(place)} matching {rule['action']} rule at index {number}")
    return _COUNT


def _by_exit(wanted: Object | None, pod: Object) -> str | None:
    if not wanted:
        return None
    for container in (*(status_of(pod).get("initContainerStatuses") or ()), *(status_of(pod).get("containerStatuses") or ())):
        code = ((container.get("state") or {}).get("terminated") or {}).get("exitCode")
        named = wanted.get("containerName") in (None, container["name"])
        if code and named and (code in wanted["values"]) == (wanted["operator"] == "In"):
            return f"Container {container['name']} for pod {{}} failed with exit code {code}"
    return None


def _by_condition(wanted: list[Object] | None, pod: Object) -> str | None:
    for pattern in wanted or ():
        for condition in status_of(pod).get("conditions") or ():
            if (condition["type"], condition["status"]) == (pattern["type"], pattern.get("status", "True")):
                return f"Pod {{}} has condition {condition['type']}"
    return None
