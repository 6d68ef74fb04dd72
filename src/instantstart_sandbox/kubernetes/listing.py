"""Lists: selectors, pages that see one snapshot, old revisions, Tables and metadata-only answers."""

from __future__ import annotations

import base64
import binascii
from dataclasses import dataclass
from typing import Any, Final

import orjson

from instantstart_sandbox.kubernetes.errors import ApiError, Cause, bad_option, bad_request, expired, forbidden_field, unsupported
from instantstart_sandbox.kubernetes.http import Request
from instantstart_sandbox.kubernetes.pipeline import Pipeline
from instantstart_sandbox.kubernetes.resources import Resource
from instantstart_sandbox.kubernetes.selectors import Match, matcher
from instantstart_sandbox.kubernetes.store import Collection, Entry
from instantstart_sandbox.kubernetes.tables import table
from instantstart_sandbox.kubernetes.watch import versioned

Object = dict[str, Any]
_EXPIRED_TEXT: Final = (
    "The provided continue parameter is too old to display a consistent list result. You can start a new list without the continue "
    "parameter, "
    "or use the continue token in this response to retrieve the remainder of the results. Continuing with the provided token results in an "
    "inconsistent list - objects that were created, modified, or deleted between the time the first chunk was returned and now may show "
    "up in the list."
)


_NO_NUMBER: Final = 'resourceVersion: Invalid value: "{0}": strconv.ParseUint: parsing "{0}": invalid syntax'


@dataclass(frozen=True)
class Page:
    """Which part of which snapshot is asked for. ``revision`` None: now."""

    revision: int | None
    start: str = ""
    limit: int = 0


def _token(revision: int, start: str) -> str:
    body = orjson.dumps({"v": "meta.k8s.io/v1", "rv": revision, "start": f"{start}\x00"})
    return base64.urlsafe_b64encode(body).rstrip(b"=").decode()


def _read_token(text: str) -> tuple[int, str]:
    try:
        body = orjson.loads(base64.urlsafe_b64decode(text + "=" * (-len(text) % 4)))
        return int(body["rv"]), str(body["start"])
    except (binascii.Error, ValueError, KeyError, TypeError):
        raise bad_request("continue key is not valid: illegal base64 data or JSON") from None


def check_revision(revision: int, current: int) -> None:
    """504 for a revision of the future."""
    if revision > current:
        causes = [{"reason": "ResourceVersionTooLarge", "message": "Too large resource version"}]
        details = {"causes": causes, "retryAfterSeconds": 1}
        raise ApiError(504, "Timeout", f"Timeout: Too large resource version: {revision}, current: {current}", details)


def revision_of(text: str) -> int | None:
    """A resourceVersion of a query; None for none or 0. 400 for what is no number."""
    if text in ("", "0"):
        return None
    if not text.isdigit():
        raise ApiError(500, "", _NO_NUMBER.format(text))
    return int(text)


def page_of(request: Request, collection: Collection, current: int) -> Page:
    """The page that a request asks for. 410 when its snapshot is no longer kept."""
    limit, version = request.number("limit") or 0, request.query.get("resourceVersion", "")
    check_options(request.query)
    if request.query.get("continue") and version not in ("", "0"):
        raise bad_request("specifying resource version is not allowed when using continue")
    limit = max(limit, 0)
    if request.query.get("continue"):
        revision, start = _read_token(request.query["continue"])
        if revision == -1:
            return Page(None, start, limit)
        if revision < collection.floor:
            error = expired(_EXPIRED_TEXT)
            status = error.status()
            status["metadata"] = {"continue": _token(-1, start.rstrip("\x00"))}
            raise ExpiredPageError(error, status)
        return Page(revision, start, limit)
    if version and not version.isdigit():
        raise bad_request(f"invalid resource version: {_NO_NUMBER.format(version)}")
    wanted = revision_of(version)
    if wanted is None:
        return Page(None, "", 0 if version == "0" else limit)
    check_revision(wanted, current)
    if request.query.get("resourceVersionMatch") == "Exact":
        if wanted < collection.floor:
            raise expired("The resourceVersion for the provided list is too old.")
        return Page(wanted, "", limit)
    return Page(None, "", limit)


def check_options(query: dict[str, str]) -> None:
    """422 for options of a list that contradict each other."""
    match, version = query.get("resourceVersionMatch", ""), query.get("resourceVersion", "")
    causes: list[Cause] = []
    if match and query.get("continue"):
        causes.append(forbidden_field("resourceVersionMatch", "resourceVersionMatch is forbidden when continue is provided"))
    elif match and not version:
        causes.append(forbidden_field("resourceVersionMatch", "resourceVersionMatch is forbidden unless resourceVersion is provided"))
    elif match not in ("", "Exact", "NotOlderThan"):
        causes.append(unsupported("resourceVersionMatch", match, ("Exact", "NotOlderThan", "")))
    elif match == "Exact" and version == "0":
        text = 'resourceVersionMatch "exact" is forbidden for resourceVersion "0"'
        causes.append(forbidden_field("resourceVersionMatch", text))
    if "sendInitialEvents" in query:
        causes.append(forbidden_field("sendInitialEvents", "sendInitialEvents is forbidden for list"))
    if causes:
        raise bad_option("ListOptions", *causes)


class ExpiredPageError(ApiError):
    """410 for a continue token, with the token that goes on inconsistently."""

    def __init__(self, error: ApiError, body: Object) -> None:
        super().__init__(error.code, error.reason, error.message)
        self.body = body

    def status(self) -> Object:
        """The body of the answer."""
        return self.body


class Listing:
    """Answers lists of one cluster."""

    def __init__(self, pipeline: Pipeline) -> None:
        self.pipeline = pipeline

    def answer(self, resource: Resource, namespace: str | None, request: Request, now: float) -> bytes | Object:
        """The list as bytes, or as a Table."""
        collection, current = self.pipeline.collection(resource), self.pipeline.store.revision
        match = matcher(resource, request.query.get("labelSelector", ""), request.query.get("fieldSelector", ""))
        page = page_of(request, collection, current)
        entries, following, left = self._select(collection, namespace, match, page)
        metadata: Object = {"resourceVersion": str(page.revision or current)}
        if resource.custom and not request.table_wanted:
            metadata = {"continue": "", **metadata}  # unstructured lists say it even when it is empty
        if following:
            metadata["continue"] = _token(page.revision or current, following)
            if match is None:
                metadata["remainingItemCount"] = left
        if request.table_wanted:
            objects = [orjson.loads(versioned(e.raw, resource)) for e in entries]
            return table(resource, objects, metadata, now, request.included)
        if request.metadata_wanted:
            return _metadata_list(entries, metadata)
        return _encoded(resource, entries, metadata)

    @staticmethod
    def _select(collection: Collection, namespace: str | None, match: Match | None, page: Page) -> tuple[list[Entry], str, int]:
        """(entries of the page, key of the last one if more follow, how many follow)."""
        out: list[Entry] = []
        last, left = "", 0
        prefix = f"{namespace}/" if namespace else ""
        for key, entry in collection.scan(prefix, page.start, page.revision):
            if match is not None and not match(entry):
                continue
            if page.limit and len(out) >= page.limit:
                left = collection.count(prefix, key, page.revision) if match is None else 1
                break
            out.append(entry)
            last = key
        return out, last if left else "", left


def _metadata_list(entries: list[Entry], metadata: Object) -> Object:
    head = {"kind": "PartialObjectMetadata", "apiVersion": "meta.k8s.io/v1"}
    items = [{**head, "metadata": e.object()["metadata"]} for e in entries]
    return {"kind": "PartialObjectMetadataList", "apiVersion": "meta.k8s.io/v1", "metadata": metadata, "items": items}


def _encoded(resource: Resource, entries: list[Entry], metadata: Object) -> bytes:
    """The list put together from the stored bytes; items of built-in kinds carry no kind and apiVersion, as Go prints them."""
    if resource.custom:
        items = [versioned(e.raw, resource) for e in entries]
    else:
        head = len(f'{{"kind":"{resource.kind}","apiVersion":"{resource.storage_api_version}",')
        items = [b"{" + e.raw[head:] for e in entries]
    kind = resource.list_kind or f"{resource.kind}List"
    start = orjson.dumps({"kind": kind, "apiVersion": resource.api_version, "metadata": metadata})[:-1]
    return b"".join((start, b',"items":[', b",".join(items), b"]}"))
