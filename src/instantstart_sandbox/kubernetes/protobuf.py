"""Protobuf bodies as objects: what Go clients with typed kinds send (kubectl create, drain and auth, Helm, operators since 1.32).

Only read: answers are JSON, which those clients take as well. The numbers and names of fields are data (``data/protobuf.json.gz``,
by tools/cut_kubernetes_protobuf.py). As in Go, what is empty and not a pointer is not there, and unknown numbers are passed over.
"""

from __future__ import annotations

import base64
import datetime as dt
import gzip
import json
import struct
from collections.abc import Callable, Iterator
from functools import cache
from pathlib import Path
from typing import Any, Final

#: magic bytes before the envelope (runtime.Unknown)
PREFIX: Final = b"k8s\0"
FILE: Final = Path(__file__).parent / "data" / "protobuf.json.gz"
_OPTIONS: Final = frozenset({"DeleteOptions", "CreateOptions", "UpdateOptions", "PatchOptions"})
_VARINT, _FIXED64, _BYTES, _FIXED32 = 0, 1, 2, 5
Raw = int | bytes | float


class NoProtobufError(ValueError):
    """The bytes are no message."""


class DamagedError(ValueError):
    """The envelope is right, and what it holds cannot be read; in the real server's words."""


class UnknownKindError(LookupError):
    """A message whose fields are not known here."""


@cache
def _table() -> dict[str, dict[str, list[str]]]:
    found: dict[str, dict[str, list[str]]] = json.loads(gzip.decompress(FILE.read_bytes()))
    return found


def decode(data: bytes) -> dict[str, Any]:
    """The object in an envelope. Raises NoProtobufError, DamagedError, UnknownKindError (with apiVersion and kind)."""
    told = dict(_fields(data[len(PREFIX) :]))
    meta = {number: _text(value) for number, value in _fields(_as_bytes(told.get(1, b"")))}
    raw, version, kind = _as_bytes(told.get(2, b"")), meta.get(1, ""), meta.get(2, "")
    if _text(told.get(4, b"")) == "application/json":
        found: dict[str, Any] = json.loads(raw)
        return found
    if not kind:
        raise NoProtobufError("empty body")
    group, _, name = version.rpartition("/")
    message = f"meta/v1.{kind}" if kind in _OPTIONS else f"{group.partition('.')[0] or 'core'}/{name}.{kind}"
    if message not in _table():
        raise UnknownKindError(f"{kind} of {version}")
    try:
        return {"apiVersion": version, "kind": kind, **_message(message, raw)}
    except ValueError as error:
        raise DamagedError(f'{kind} in version "{version}" cannot be handled as a {kind}: {error}') from error


def _fields(data: bytes) -> Iterator[tuple[int, Raw]]:
    """(number, value) of a message, as they come."""
    at = 0
    while at < len(data):
        key, at = _varint(data, at)
        wire = key & 7
        if wire == _VARINT:
            value, at = _varint(data, at)
            yield key >> 3, value
        elif wire == _BYTES:
            size, at = _varint(data, at)
            if at + size > len(data):
                raise NoProtobufError("unexpected EOF")
            yield key >> 3, data[at : at + size]
            at += size
        elif wire in (_FIXED64, _FIXED32):
            size = 8 if wire == _FIXED64 else 4
            if at + size > len(data):
                raise NoProtobufError("unexpected EOF")
            yield key >> 3, struct.unpack("<d" if size == 8 else "<f", data[at : at + size])[0]
            at += size
        else:
            raise NoProtobufError(f"proto: illegal wireType {wire}")


def _varint(data: bytes, at: int) -> tuple[int, int]:
    value = shift = 0
    while True:
        if at >= len(data):
            raise NoProtobufError("unexpected EOF")
        value |= (data[at] & 0x7F) << shift
        shift, at = shift + 7, at + 1
        if not data[at - 1] & 0x80:
            return (value - (1 << 64) if value >= 1 << 63 else value), at
        if shift > 63:
            raise NoProtobufError("proto: integer overflow")


def _as_bytes(value: Raw) -> bytes:
    if not isinstance(value, bytes):
        raise NoProtobufError("proto: wrong wireType")
    return value


def _text(value: Raw) -> str:
    return _as_bytes(value).decode()


def _message(name: str, data: bytes) -> Any:
    """One message as JSON has it."""
    known, found = _table()[name], dict[str, Any]()
    for number, raw in _fields(data):
        if (told := known.get(str(number))) is None:
            continue
        json_name, type_, flags = told
        if "l" in flags:  # a list with a name of its own
            found.setdefault("", []).append(_value(type_[2:], raw))
        elif "i" in flags:
            found.update(_value(type_, raw) or {})
        elif type_.startswith("[]"):
            found.setdefault(json_name, []).extend(_items(type_[2:], raw))
        elif type_.startswith("{}"):
            key, value = _entry(type_[2:], _as_bytes(raw))
            found.setdefault(json_name, {})[key] = value
        else:
            _put(found, json_name, _value(type_, raw), flags)
    return found.get("", []) if any("l" in told[2] for told in known.values()) else found


def _put(found: dict[str, Any], name: str, value: Any, flags: str) -> None:
    """Go writes no pointer that is nil, and writes everything else always: what is empty then means that nothing was said."""
    if "p" in flags or value not in (None, "", 0, False, {}) or ("z" in flags and isinstance(value, (str, bool, int))):
        found[name] = value


def _items(type_: str, raw: Raw) -> list[Any]:
    if type_ in ("int", "bool") and isinstance(raw, bytes):  # packed
        values, at = [], 0
        while at < len(raw):
            value, at = _varint(raw, at)
            values.append(_value(type_, value))
        return values
    return [_value(type_, raw)]


def _entry(type_: str, data: bytes) -> tuple[str, Any]:
    told = dict(_fields(data))
    empty: Raw = b"" if type_ not in ("int", "bool", "double") else 0
    return _text(told.get(1, b"")), _value(type_, told.get(2, empty))


def _value(type_: str, raw: Raw) -> Any:
    make = _VALUES.get(type_)
    if make is not None:
        return make(raw)
    if type_ not in _table():
        raise UnknownKindError(type_)
    return _message(type_, _as_bytes(raw))


def _time(raw: Raw, form: str = "%Y-%m-%dT%H:%M:%SZ") -> str | None:
    told = dict(_fields(_as_bytes(raw)))
    if not told:
        return None
    return (dt.datetime.fromtimestamp(int(told.get(1, 0)), dt.UTC) + dt.timedelta(microseconds=int(told.get(2, 0)) // 1000)).strftime(form)


def _int_or_string(raw: Raw) -> int | str:
    told = dict(_fields(_as_bytes(raw)))
    return _text(told.get(3, b"")) if told.get(1) else int(told.get(2, 0))


def _first(raw: Raw) -> bytes:
    return _as_bytes(dict(_fields(_as_bytes(raw))).get(1, b""))


_VALUES: Final[dict[str, Callable[[Raw], Any]]] = {
    "string": _text,
    "int": int,
    "bool": bool,
    "double": float,
    "bytes": lambda raw: base64.b64encode(_as_bytes(raw)).decode(),
    "meta/v1.Time": _time,
    "meta/v1.MicroTime": lambda raw: _time(raw, "%Y-%m-%dT%H:%M:%S.%fZ"),
    "meta/v1.FieldsV1": lambda raw: json.loads(_first(raw) or b"{}"),
    "meta/v1.Duration": lambda raw: f"{int(dict(_fields(_as_bytes(raw))).get(1, 0)) / 1e9:g}s",
    "RawExtension": lambda raw: json.loads(_first(raw) or b"null"),
    "Quantity": lambda raw: _first(raw).decode(),
    "IntOrString": _int_or_string,
}
