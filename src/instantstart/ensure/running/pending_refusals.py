"""Why no pod is made at all: what quotas, admission and the queue of a team say. Pure."""

from __future__ import annotations

import re

from instantstart.ensure.running.pending_words import Resource, Why, short


def refused(message: str, owner: Resource | None = None) -> Why:
    """Why the API server does not let pods be made, from the controller's event."""
    name = f"{owner['kind']} {owner['metadata']['name']}" if owner else "The workload"
    told = {"untrusted_message": short(message)}
    for pattern, code, text, step in _REFUSALS:
        match = re.search(pattern, message)
        if match:
            parts = {"name": name, **{k: v or "?" for k, v in match.groupdict().items()}}
            return Why(code, "blocked", text.format(**parts), told, step.format(**parts))
    return Why("pod.not_created", "blocked", f"{name} cannot make its pods: {short(message)}", told, "Mend what the message names.")


#: (pattern of the event, code, sentence, next step)
_REFUSALS: tuple[tuple[str, str, str, str], ...] = (
    (
        r"exceeded quota: (?P<quota>[\w.-]+), requested: (?P<asked>[^,]+(?:,[\w./-]+=[^,]+)*), used: (?P<used>.+?), limited: (?P<limit>.+)",
        "quota.exceeded",
        "{name} has no pods: the ResourceQuota {quota} of the namespace is used up (asked {asked}; used {used}; limit {limit}).",
        "End other work of the namespace, ask for less, or let an administrator raise the ResourceQuota {quota}.",
    ),
    (
        r"failed quota: (?P<quota>[\w.-]+): must specify (?P<what>.+)",
        "quota.must_specify",
        "{name} has no pods: the ResourceQuota {quota} demands that pods say {what}.",
        "Give these resources, or set a LimitRange with defaults.",
    ),
    (
        r'admission webhook "(?P<hook>[^"]+)" denied the request: ?(?P<said>.*)',
        "admission.denied",
        "{name} has no pods: the policy {hook} refuses them: {said}",
        "Change what the policy names, or the policy.",
    ),
    (
        r'failed calling webhook "(?P<hook>[^"]+)"',
        "admission.webhook_unreachable",
        "{name} has no pods: the webhook {hook}, which must agree to each pod, does not answer.",
        "Look at the pods of the webhook's service; what needs it goes on when it answers.",
    ),
    (
        r'serviceaccount "(?P<account>[^"]+)" not found',
        "service_account.missing",
        "{name} has no pods: the service account {account} is not in the namespace.",
        "Make the service account {account}, or submit without it.",
    ),
    (
        r"no PriorityClass with name (?P<priority>[\w.-]+) was found",
        "priority_class.missing",
        "{name} has no pods: there is no PriorityClass {priority}.",
        "Choose one of the cluster's priority classes.",
    ),
    (
        r"(?:maximum|minimum) (?P<what>[\w./-]+) usage per (?:Container|Pod) is (?P<limit>[\w.]+)",
        "limit_range.broken",
        "{name} has no pods: a LimitRange of the namespace bounds {what} at {limit}.",
        "Ask for no more than the LimitRange allows.",
    ),
    (
        r"violates PodSecurity \"(?P<level>[^\"]+)\": (?P<said>.+)",
        "pod_security.violated",
        "{name} has no pods: the namespace enforces PodSecurity {level}: {said}",
        "Use another namespace, or let an administrator change its level.",
    ),
    (
        r"namespace (?P<space>[\w-]+) .*being terminated",
        "namespace.terminating",
        "{name} has no pods: the namespace {space} is being removed.",
        "Use another namespace.",
    ),
)


def gated(workload: Resource) -> Why | None:
    """Why Kueue does not admit a workload; None when it has."""
    conditions = {c["type"]: c for c in (workload.get("status") or {}).get("conditions") or ()}
    if (conditions.get("Admitted") or {}).get("status") == "True":
        return None
    queue = str(workload["spec"].get("queueName") or "")
    told = next((c for t in ("Evicted", "QuotaReserved", "Admitted") if (c := conditions.get(t)) and c.get("message")), None)
    message = short(str((told or {}).get("message") or ""))
    evidence = {"queue": queue, "workload": workload["metadata"]["name"], "untrusted_message": message}
    if (conditions.get("Evicted") or {}).get("status") == "True":
        text = f"The queue {queue} took its quota back ({(conditions['Evicted'].get('reason') or 'evicted')}): {message}"
        return Why("queue.preempted", "waiting", text, evidence, "It starts again when its turn comes; a higher priority keeps its place.")
    if "doesn't exist" in message or "not found" in message:
        return Why("queue.missing", "blocked", f"The queue {queue} is not there: {message}", evidence, "Choose a queue of the namespace.")
    if "inactive" in message.lower():
        return Why("queue.inactive", "blocked", f"The queue {queue} admits nothing now: {message}", evidence, "Ask its administrator.")
    text = f"It waits in the queue {queue}: {message or 'Kueue has not looked at it yet.'}"
    return Why("queue.waiting", "waiting", text, evidence, "It starts when quota is free; ask for less, or raise its priority.")
