"""ControllerRevisions: the templates that a DaemonSet or StatefulSet has had, which ``kubectl rollout undo`` goes back to."""

from __future__ import annotations

from .engine import Controller
from .objects import Object, labels_of, meta, name_of, namespace_of, owner_reference, short_hash, spec_of, uid_of

RESOURCE = "controllerrevisions.apps"
HASH = "controller-revision-hash"


def template_hash(owner: Object) -> str:
    """The hash that pods of the present template bear."""
    return short_hash(spec_of(owner)["template"])


async def keep_revisions(controller: Controller, owner: Object) -> None:
    """Make or renew the revision of the present template; forget old ones beyond the history limit."""
    mark, space = template_hash(owner), namespace_of(owner)
    known = [
        r
        for r in controller.cluster.read_all(RESOURCE, space)
        if any(o["uid"] == uid_of(owner) for o in meta(r).get("ownerReferences") or [])
    ]
    known.sort(key=lambda r: int(r["revision"]))
    present = next((r for r in known if labels_of(r).get(HASH) == mark), None)
    newest = int(known[-1]["revision"]) if known else 0
    if present is None:
        await controller.client.create(RESOURCE, _revision(owner, mark, newest + 1))
        limit = int(spec_of(owner).get("revisionHistoryLimit", 10))
        for old in known[: max(len(known) - limit, 0)]:
            await controller.client.delete(RESOURCE, name_of(old), space)
    elif int(present["revision"]) < newest:
        await controller.client.patch(RESOURCE, name_of(present), {"revision": newest + 1}, space)


def _revision(owner: Object, mark: str, number: int) -> Object:
    labels = {**(meta(spec_of(owner)["template"]).get("labels") or {}), HASH: mark}
    return {
        "metadata": {
            "name": f"{name_of(owner)}-{mark}",
            "namespace": namespace_of(owner),
            "labels": labels,
            "ownerReferences": [owner_reference(owner)],
        },
        "data": {"spec": {"template": {**spec_of(owner)["template"], "$patch": "replace"}}},
        "revision": number,
    }
