"""What a request would do before it does it."""

from __future__ import annotations

from instantstart.capabilities.planning import Plan
from instantstart.capabilities.room import Room
from instantstart.capabilities.storage.downloads import rules, specs
from instantstart.ensure.sites import Site


def plan_download(room: Room, where: Site, target: specs.DownloadTarget) -> Plan:
    """What model.download would fetch, and where to."""
    facts = rules.observe(room, where, target)
    found = rules.findings(target, facts)
    place = f"{target.namespace}/{target.claim_name}:{target.place}"
    warnings = () if facts.on_s3 or facts.volume is None else ("The files are written beside their names and renamed when complete.",)
    if facts.repository is None:
        return Plan(make=(f"{target.repository} in {place}",), findings=tuple(found), warnings=warnings)
    taken = rules.chosen(facts.repository.files, target)
    size = sum(f.size for f in taken)
    made = f"{len(taken)} files ({size} bytes) of {target.repository} at {facts.repository.commit} in {place}"
    return Plan(make=(made,), findings=tuple(found), warnings=warnings)


def checked(room: Room, where: Site, target: specs.DownloadTarget) -> specs.DownloadTarget:
    """The same target, when nothing that can be known stands in its way. Raises its refusal."""
    facts = rules.observe(room, where, target)
    refused = rules.refusal(target, facts, rules.findings(target, facts))
    if refused:
        raise refused
    return target
