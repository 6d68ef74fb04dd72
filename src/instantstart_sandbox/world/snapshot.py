"""The world on disk: one file, replaced whole, so that a kill at any moment leaves the last complete state.

The file is a header line, one line of JSON (clock, settings, owned state) and a pickle of moto's backends. Pickles run
code when read: the file lies in the sandbox's own data folder with mode 0600 and is refused when it is not ours.
"""

from __future__ import annotations

import datetime as dt
import importlib
import io
import json
import os
import pickle
import threading
import time
from pathlib import Path
from typing import TYPE_CHECKING, Any

import cloudpickle
from moto.core.base_backend import BackendDict, BaseBackend

from instantstart_sandbox.gateway import wire

if TYPE_CHECKING:
    from instantstart_sandbox.world.state import World

_HEADER = b"instantstart-sandbox snapshot 1\n"
_LOCKS = (type(threading.Lock()), type(threading.RLock()))
#: a save that takes longer than this (seconds of CPU) is put off and several changes are saved at once
_QUICK_SECONDS = 0.03
_DEBOUNCE_SECONDS = 0.2
#: big objects in S3 make a save dear; it then happens so rarely that it takes a sixth of the time at most
_SHARE = 5.0
Place = tuple[str, str, str, str]


class Snapshot:
    """Saves after each mutating call while that is quick, else at most every 200 ms."""

    def __init__(self, world: World, path: Path) -> None:
        self._world, self._path = world, path
        self._moto = b""
        self._cost = 0.0
        self._saved_at = 0.0

    def after_change(self) -> None:
        """Called under the world's lock after a call that changed something."""
        if self._cost < _QUICK_SECONDS:
            self.save()

    def tick(self) -> None:
        """Called ten times a second: saves what was put off."""
        pause = max(_DEBOUNCE_SECONDS, _SHARE * self._cost)
        if self._world.dirty and time.monotonic() - self._saved_at >= pause:
            self.save()

    def save(self) -> None:
        """Write everything now. Raises OSError when the disk refuses; the old file then stays."""
        with self._world.clock.lock:
            started = time.thread_time()
            if self._world.moto_dirty or not self._moto:
                self._moto = _dump_backends()
            owned = {"clock": self._world.clock.dump(), "settings": self._world.settings.dump(), "state": self._world.state}
            line = json.dumps(owned, default=_encode, separators=(",", ":")).encode()
            _replace(self._path, b"".join((_HEADER, line, b"\n", self._moto)))
            self._world.dirty = self._world.moto_dirty = False
            self._saved_at = time.monotonic()
            self._cost = time.thread_time() - started

    def restore(self) -> bool:
        """Take over the saved world; False when there is none. ValueError when the file is not one of ours."""
        if not self._path.exists():
            return False
        if self._path.stat().st_uid != os.getuid():
            raise ValueError(f"{self._path} belongs to another user; it is not read.")
        data = self._path.read_bytes()
        if not data.startswith(_HEADER):
            raise ValueError(f"{self._path} is not a snapshot of this version of the sandbox.")
        line, _, moto = data[len(_HEADER) :].partition(b"\n")
        owned = json.loads(line, object_hook=_decode)
        with self._world.clock.lock:
            self._world.settings.update(owned["settings"])
            for name, section in owned["state"].items():
                self._world.section(name).update(section)
            self._world.clock.load(owned["clock"])
            _load_backends(moto)
            self._moto = moto
        return True


def _replace(path: Path, data: bytes) -> None:
    temporary = path.with_suffix(".new")
    with os.fdopen(os.open(temporary, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600), "wb") as file:
        file.write(data)
    temporary.replace(path)


def _encode(value: object) -> Any:
    if isinstance(value, dt.datetime):
        return {"$datetime": value.isoformat()}
    if isinstance(value, set):
        raise TypeError("a set is in the world's state; use a list")
    raise TypeError(f"{type(value).__name__} is in the world's state and cannot be saved: {value!r:.100}")


def _decode(value: dict[str, Any]) -> Any:
    if len(value) == 1 and "$datetime" in value:
        return dt.datetime.fromisoformat(value["$datetime"])
    return value


def _backends() -> list[tuple[Place, BaseBackend]]:
    found = []
    for backends in wire.live_backends():
        for account, regions in backends.items():
            for region, backend in regions.items():
                found.append(((type(backend).__module__, backends.service_name, account, region), backend))
    return found


class _Pickler(cloudpickle.Pickler):  # type: ignore[misc]
    """Pickles what backends hold; a backend itself is written as its place."""

    def __init__(self, file: io.BytesIO, places: dict[int, Place]) -> None:
        super().__init__(file, protocol=5)
        self._places = places

    def persistent_id(self, value: object) -> Place | None:
        return self._places.get(id(value)) if isinstance(value, BaseBackend) else None

    def reducer_override(self, value: object) -> Any:
        if isinstance(value, _LOCKS):
            return (threading.Lock if type(value) is _LOCKS[0] else threading.RLock), ()
        if type(value).__name__ == "ParameterDict":  # moto's SSM store: a dict that wants arguments to be made
            store: Any = value
            return type(value), (store.account_id, store.region_name), store.__dict__, None, iter(list(dict.items(store)))
        return super().reducer_override(value)


class _Unpickler(pickle.Unpickler):
    """The way back: a place is the live backend of this process."""

    def persistent_load(self, place: Place) -> BaseBackend:
        return _backend_at(place)


def _backend_at(place: Place) -> BaseBackend:
    module, service, account, region = place
    for value in vars(importlib.import_module(module)).values():
        if isinstance(value, BackendDict) and value.service_name == service:
            found: BaseBackend = value[account][region]
            return found
    raise ValueError(f"moto has no backend of {service} in {module}; the snapshot is of another version")


def _dump_backends() -> bytes:
    backends = _backends()
    file = io.BytesIO()
    _Pickler(file, {id(backend): place for place, backend in backends}).dump({place: backend.__dict__ for place, backend in backends})
    return file.getvalue()


def _load_backends(data: bytes) -> None:
    for place, state in _Unpickler(io.BytesIO(data)).load().items():
        backend = _backend_at(place)
        backend.__dict__.clear()
        backend.__dict__.update(state)
