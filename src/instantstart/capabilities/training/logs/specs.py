"""Whose logs, and which part of them."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Annotated

from pydantic import BaseModel, ConfigDict, Field, field_validator

from instantstart.base import patterns, problems
from instantstart.base.problems import Violation
from instantstart.capabilities.vocabulary import Namespace
from instantstart.kube.log_lines import Position

#: lines of each container, without a word; and when something is searched for
TAIL, SEARCHED = 100, 5000
_PART = re.compile(
    r"^([A-Za-z0-9_./-]+( ?(=|==|!=) ?[A-Za-z0-9_.-]*)?|[A-Za-z0-9_./-]+ (in|notin) \([A-Za-z0-9_., -]+\)|![A-Za-z0-9_./-]+)$"
)
_PARTS = re.compile(r",(?![^(]*\))")
Name = Annotated[str, Field(min_length=1, max_length=253, pattern=patterns.OBJECT_NAME)]


class JobKind(StrEnum):
    """What a job is."""

    pytorch = "pytorch"
    ray_job = "ray_job"
    ray_cluster = "ray_cluster"
    batch = "batch"


class LogsAsk(BaseModel):
    """Parameters of a reading: exactly one of pod, job, deployment, endpoint and selector says whose logs."""

    model_config = ConfigDict(frozen=True, extra="ignore")

    namespace: Namespace = Field("default", description="Kubernetes namespace of the pods.")
    pod: Name | None = Field(None, description="The log of this pod.")
    job: Name | None = Field(None, description="The logs of all pods of this training job.")
    job_kind: JobKind | None = Field(None, description="What the job is; left out: whichever has that name.")
    deployment: Name | None = Field(None, description="The logs of all pods of this Deployment.")
    endpoint: Name | None = Field(None, description="The logs of all pods of this inference endpoint.")
    selector: Annotated[str, Field(min_length=1, max_length=500, pattern=patterns.LABEL_SELECTOR)] | None = Field(
        None, description="The logs of all pods with these labels, such as app=web,tier!=db."
    )
    container: Name | None = Field(None, description="Only this container of each pod; left out: all.")
    tail: Annotated[int, Field(ge=0, le=SEARCHED)] | None = Field(
        None, description="The last lines of each container; left out: 100, or 5000 when something is searched for."
    )
    since_seconds: Annotated[int, Field(ge=1, le=31_536_000)] | None = Field(None, description="Only lines of the last so many seconds.")
    search: Annotated[str, Field(min_length=1, max_length=200, pattern=patterns.PRINTABLE)] | None = Field(
        None, description="Only lines that contain this text, in large or small letters."
    )
    context: Annotated[int, Field(ge=0, le=20)] = Field(0, description="With search: so many lines before and after each that is found.")

    @field_validator("selector")
    @classmethod
    def _a_selector(cls, value: str | None) -> str | None:
        wrong = [part for part in _PARTS.split(value or "") if value and not _PART.match(part.strip())]
        if wrong:
            raise ValueError(f"must be a label selector, such as app=web,tier!=db: {wrong[0]!r} is none")
        return value

    @property
    def lines(self) -> int:
        """How many of the last lines of each container."""
        return self.tail if self.tail is not None else SEARCHED if self.search else TAIL

    def check(self) -> None:
        """Raises Invalid unless exactly one target is named, and nothing that belongs to another."""
        named = [name for name in ("pod", "job", "deployment", "endpoint", "selector") if getattr(self, name) is not None]
        told = []
        if not named:
            told.append(Violation("/query/pod", "Say whose logs: pod, job, deployment, endpoint or selector."))
        told += [Violation(f"/query/{name}", f"Only one of {', '.join(named)} can be given.") for name in named[1:]]
        if self.job_kind is not None and self.job is None:
            told.append(Violation("/query/job_kind", "This belongs to job: name a job, or leave it out."))
        if self.context and not self.search:
            told.append(Violation("/query/context", "Context is of what is found: give search, too, or leave it out."))
        if told:
            raise problems.Invalid("log.target", " ".join(v.message for v in told), fields=told)


@dataclass(frozen=True)
class Resumed:
    """What a reader has had already: places by container."""

    after: Mapping[str, Position] = field(default_factory=dict)


def resumed(document: object) -> Resumed:
    """The first message of a reader that comes back: ``{"after": {container: place}}``. What is no place is left out."""
    told = document.get("after") if isinstance(document, Mapping) else None
    pairs = told.items() if isinstance(told, Mapping) else ()
    places = {str(name): Position.parse(str(place)) for name, place in pairs}
    return Resumed({name: place for name, place in places.items() if place is not None})
