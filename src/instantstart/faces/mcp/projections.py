"""Answers small enough for a model: what decides the next step, bounded, with foreign text marked as untrusted.

Every string is cut and stripped of control and invisible characters; text that others wrote (events, reasons, evidence)
stands under a key that begins with ``untrusted_``.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from typing import Any

from instantstart.base import terminal
from instantstart.faces.mcp import model_answers, recorded
from instantstart.faces.mcp.tool import Shape

Json = dict[str, Any]
MAX_TEXT = 400
MAX_ITEMS = 60
#: about 2,000 tokens
MAX_BYTES = 7000
#: of log lines, so that they are not cut again
MAX_LOG_BYTES = 5500
#: sentences that quote AWS, Kubernetes or a program
_FOREIGN = frozenset({"because", "groups_because", "reasons", "status_message", "told", "trouble", "why"})
#: what an event says; a violation, which points at a field, is ours
_OF_EVENTS = frozenset({"message", "reason"})
_DONE = frozenset({"done", "skipped"})
_AT_REST = frozenset({"succeeded", "failed", "cancelled", "blocked"})


def plain(text: str, limit: int = MAX_TEXT) -> str:
    """``text`` in printable characters, cut at ``limit``."""
    clean = "".join(c if c.isprintable() else " " for c in text[: limit * 2])
    clean = " ".join(clean.split())
    return clean if len(clean) <= limit else clean[: limit - 1] + "…"


def compact(value: Any, items: int = MAX_ITEMS) -> Any:
    """``value`` without empty fields, long texts or long lists. Zero, false and "no items" are kept: they tell something."""
    if isinstance(value, str):
        return plain(value)
    if isinstance(value, Mapping):
        told = {key: inner for key, inner in value.items() if key == "items" or inner not in (None, "", [], {}, ())}
        kept = {_named(str(key), value): compact(inner, items) for key, inner in told.items()}
        for key, inner in value.items():
            if isinstance(inner, list) and len(inner) > items:
                kept[f"{key}_omitted"] = len(inner) - items + int(value.get(f"{key}_omitted") or 0)
        return kept
    if isinstance(value, list):
        return [compact(each, items) for each in value[:items]]
    return round(value, 1) if isinstance(value, float) else value


def _named(key: str, beside: Mapping[str, Any]) -> str:
    of_a_bucket = (key == "key" and "size_bytes" in beside) or set(beside) == {"prefix"}
    foreign = key in _FOREIGN or of_a_bucket or (key in _OF_EVENTS and "pointer" not in beside)
    return f"untrusted_{key}" if foreign else plain(key, 80)


def problem(document: Mapping[str, Any]) -> Json:
    """A problem without what a model does not need; its evidence marked."""
    kept = {key: document[key] for key in ("code", "kind", "detail", "hint", "fields", "retryable") if document.get(key) not in (None, [])}
    return compact(kept | ({"untrusted_evidence": document["evidence"]} if document.get("evidence") else {}))  # type: ignore[no-any-return]


def operation(document: Mapping[str, Any]) -> Json:
    """An operation: where it stands, what it waits for, and which tool to call next."""
    if "workflow" not in document or "stages" not in document:  # a plan, or "already so"; its manifests are for people
        return compact({key: value for key, value in document.items() if key != "objects"})  # type: ignore[no-any-return]
    stages = document["stages"]
    told = {
        "operation_id": document["id"],
        "workflow": document["workflow"],
        "cluster": document.get("cluster"),
        "status": document["status"],
        "elapsed_seconds": int(document["elapsed_seconds"]),
        "typical_seconds": int(document["typical_seconds"]),
        "slow": document["slow"] or None,
        "done": [s["name"] for s in stages if s["status"] in _DONE],
        "now": [_stage(s) for s in stages if s["status"] not in (*_DONE, "pending")],
        "to_come": [s["name"] for s in stages if s["status"] == "pending"],
        "problem": problem(document["problem"]) if document.get("problem") else None,
        "next_step": document.get("next_step"),
        "result": document.get("result") if document["status"] == "succeeded" else None,
    }
    if document["status"] not in _AT_REST:
        told |= {"status_tool": "operation_wait", "check_again_in_seconds": document["next_check_in_seconds"]}
    return compact(told)  # type: ignore[no-any-return]


def progress(document: Mapping[str, Any]) -> Json:
    """An operation that is waited for: at rest all of it; until then a few words, for a model reads them every 50 seconds."""
    if document["status"] in _AT_REST:
        return operation(document)
    stages = document["stages"]
    told = {
        "operation_id": document["id"],
        "status": document["status"],
        "elapsed_seconds": int(document["elapsed_seconds"]),
        "slow": document["slow"] or None,
        "stages_done": f"{sum(s['status'] in _DONE for s in stages)} of {len(stages)}",
        "now": [_going(s) for s in stages if s["status"] not in (*_DONE, "pending")],
        "next_step": document.get("next_step"),
        "status_tool": "operation_wait",
        "check_again_in_seconds": document["next_check_in_seconds"],
    }
    return compact(told)  # type: ignore[no-any-return]


def _going(stage: Mapping[str, Any]) -> Json:
    counted = stage.get("progress") or {}
    return {
        "stage": stage["name"],
        "seconds": f"{int(stage['elapsed_seconds'])} of typically {int(stage['typical_seconds'])}",
        "progress": f"{counted['done']}/{counted['total']} {counted['unit']}" if counted else None,
        "untrusted_because": stage.get("because"),
    }


def _stage(stage: Mapping[str, Any]) -> Json:
    progress = stage.get("progress") or {}
    return {
        "stage": stage["name"],
        "says": stage["says"],
        "status": stage["status"],
        "elapsed_seconds": int(stage["elapsed_seconds"]),
        "typical_seconds": int(stage["typical_seconds"]),
        "progress": f"{progress['done']}/{progress['total']} {progress['unit']}" if progress else None,
        "untrusted_because": stage.get("because"),
    }


def operations(document: Mapping[str, Any]) -> Json:
    """A list of operations, one line of facts each."""
    keys = ("id", "workflow", "cluster", "status", "created_at", "next_step")
    items = [{key: each.get(key) for key in keys} for each in document["items"]]
    return compact({"shown": len(items), "items": items, "cursor": document.get("cursor")})  # type: ignore[no-any-return]


def events(document: Mapping[str, Any]) -> Json:
    """Events: time, subject, and the text, which may quote AWS or Kubernetes."""
    keys = ("seq", "at", "stage", "source", "subject")
    items = [
        {key: e.get(key) for key in keys}
        | {"level": e["level"] if e["level"].lower() != "info" else None, "untrusted_message": e["message"]}
        | {"untrusted_because": e.get("because")}
        for e in document["items"]
    ]
    return compact({"shown": len(items), "last_seq": document.get("last_seq"), "items": items})  # type: ignore[no-any-return]


def instance_types(document: Mapping[str, Any]) -> Json:
    """Instance types on a line each; an unknown quota is said to be unknown."""
    items = [
        {
            "name": o["name"],
            "quota": "unknown" if o["quota"] is None else o["quota"],
            "accelerators": f"{o['accelerators']} x {o['accelerator']}" if o["accelerators"] else None,
            "vcpus": o["vcpus"],
            "memory_gib": o["memory_gib"],
            "zones": "unknown" if o["zones"] is None else ", ".join(o["zones"]),
        }
        for o in document["items"]
    ]
    return compact({"region": document["region"], "total": document["total"], "shown": len(items), "items": items})  # type: ignore[no-any-return]


def clusters(document: Mapping[str, Any]) -> Json:
    """Clusters on a line each, and where was looked."""
    keys = ("tag", "region", "state", "managed", "why", "eks_name", "hyperpod_name", "selected")
    items = [
        {key: c.get(key) for key in keys}
        | {"nodes": ", ".join(f"{g['name']} {g['current']}/{g['target']} {g['instance_type']}" for g in c.get("groups", ()))}
        | {"operation_id": (c.get("operation") or {}).get("id")}
        for c in document["items"]
    ]
    where = {key: document.get(key) for key in ("account", "regions", "total", "cursor")}
    return compact(where | {"shown": len(items), "items": items})  # type: ignore[no-any-return]


def nodes(document: Mapping[str, Any]) -> Json:
    """Nodes on a line each; a reason only for those that have one."""
    keys = ("instance_id", "group", "instance_type", "capacity_type", "status", "because")
    items = [
        {key: n.get(key) for key in keys}
        | {"logical_id": None if n.get("instance_id") else n.get("logical_id"), "health": n.get("health_state") or n.get("health")}
        | {"faults": n.get("faults"), "gpus": n.get("gpus")}
        for n in document["items"]
    ]
    told = {key: document.get(key) for key in ("total", "ready", "counts", "unknown", "cursor")}
    return compact(told | {"shown": len(items), "items": items})  # type: ignore[no-any-return]


def fleet(document: Mapping[str, Any]) -> Json:
    """A fleet: totals, and a line of counts for each group that has nodes, wants some, or is waited for."""
    items = [
        {
            "group": g["group"] or "(not HyperPod)",
            "instance_type": g["instance_type"],
            "capacity_type": g["capacity_type"],
            "nodes": _nodes(g["nodes"]),
            "accelerators": [_accelerators(a) for a in g["accelerators"]],
            "idle": _idle(g["idle"]),
        }
        for g in document["groups"]
    ]
    told = {
        "cluster": document["cluster"],
        "freshness": {key: document["freshness"][key] for key in ("state", "since", "because")},
        "nodes": _nodes(document["nodes"]),
        "accelerators": [_accelerators(a) for a in document["accelerators"]],
        "idle": _idle(document["idle"]),
        "pending": [_wish(p) for p in document["pending"]],
        "pods_waiting": document["pods_waiting"],
    }
    return compact(told | {"shown": len(items), "items": items})  # type: ignore[no-any-return]


def logs(document: Mapping[str, Any]) -> Json:
    """Log lines as one list of foreign text, the newest that fit; whose they are in front of each."""
    several = len(document["containers"]) > 1
    lines = [_log_line(line, several) for line in document["items"]]
    kept: list[str] = []
    size = 0
    for line in reversed(lines):
        size += len(line.encode()) + 8
        if size > MAX_LOG_BYTES or len(kept) == MAX_ITEMS:
            break
        kept.append(line)
    silent = [f"{c['pod']}/{c['container']}: {c['unread']}" for c in document["containers"] if c["unread"]]
    told = {
        "namespace": document["namespace"],
        "containers": [f"{c['pod']}/{c['container']} {c['state']}" for c in document["containers"]][:20],
        "containers_more": max(len(document["containers"]) - 20, 0) + document["containers_omitted"] or None,
        "untrusted_not_read": silent[:5],
        "shown": len(kept),
        "older_lines_left_out": document["omitted"] + len(lines) - len(kept),
        "untrusted_lines": kept[::-1],
    }
    return compact(told, MAX_ITEMS)  # type: ignore[no-any-return]


def _log_line(line: Mapping[str, Any], several: bool) -> str:
    whose = f" {line['pod']}/{line['container']}" if several else ""
    return plain(f"{line['at'][:19]}{whose} {terminal.shown(line['text'])}")


def _nodes(counts: Mapping[str, Any]) -> str:
    wrong = [
        f"{counts[name]} {name}" for name in ("cordoned", "not_ready", "checking", "repairing", "unhealthy", "leaving") if counts[name]
    ]
    wanted = f" of {counts['wanted']} wanted" if counts["wanted"] is not None else ""
    return ", ".join([f"{counts['joined']} joined{wanted}, {counts['usable']} usable", *wrong])


def _accelerators(counts: Mapping[str, Any]) -> str:
    told = ", ".join(f"{counts[name]} {name}" for name in ("total", "allocatable", "used", "idle", "pending"))
    return f"{counts['resource']}: {told}"


def _idle(hint: Mapping[str, Any]) -> str | None:
    if not hint["nodes"]:
        return None
    return f"{hint['nodes']} nodes with {hint['accelerators']} accelerators idle, {hint['accelerator_hours']} accelerator-hours at least"


def _wish(pending: Mapping[str, Any]) -> str:
    where = " ".join(text for text in (pending["group"], pending["instance_type"]) if text) or "anywhere"
    return f"{pending['accelerators']} {pending['resource']} in {pending['pods']} pods, {where}"


_SHAPES: Mapping[Shape, Callable[[Mapping[str, Any]], Json]] = {
    Shape.compact: compact,
    Shape.operation: operation,
    Shape.progress: progress,
    Shape.operations: operations,
    Shape.events: events,
    Shape.instance_types: instance_types,
    Shape.clusters: clusters,
    Shape.fleet: fleet,
    Shape.nodes: nodes,
    Shape.model_answer: lambda document: compact(model_answers.told(document)),
    Shape.logs: logs,
    Shape.recorded: lambda document: compact(recorded.told(document)),
}


def shaped(shape: Shape, document: Any) -> Json:
    """The answer of a tool: projected, and cut to about 2,000 tokens with a note when it was more."""
    if not isinstance(document, Mapping):
        document = {"items": document} if isinstance(document, list) else {"ok": True}
    told = _SHAPES[shape](document)
    items = MAX_ITEMS
    while len(json.dumps(told, ensure_ascii=False).encode()) > MAX_BYTES and items > 1:
        items //= 2
        told = {**compact(told, items), "cut": "The answer was too long; filter, or ask for less."}
        told |= {"shown": len(told["items"])} if "shown" in told else {}
    return told
