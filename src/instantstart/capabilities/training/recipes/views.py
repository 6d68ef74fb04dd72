"""What can be read: the recipes with their fields, and the forms that a person keeps."""

from __future__ import annotations

import datetime as dt
import json
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from pydantic.fields import FieldInfo

from instantstart.base import problems
from instantstart.base.problems import Violation
from instantstart.capabilities.room import Room
from instantstart.ensure.training import recipe_scripts
from instantstart.ensure.training.recipe_specs import FORMS, ON, RecipeForm
from instantstart.store.records import FormRow

MOST_FORMS, _LARGEST_BYTES = 200, 100_000
_TITLES = {
    "pytorch": "PyTorch script",
    "llama_factory": "LLaMA-Factory",
    "ms_swift": "MS-Swift",
    "verl": "VERL",
    "container": "Any container",
}
#: what is asked for first; the rest is for those who want more
_FIRST = ("script", "module", "command", "config_file", "settings", "arguments", "project")


@dataclass(frozen=True)
class RecipeField:
    """One field of a recipe: ``type`` text, number, flag, choice, list or settings; ``choices`` of a choice."""

    name: str
    says: str
    type: str
    required: bool
    default: Any
    choices: tuple[str, ...]


@dataclass(frozen=True)
class RecipeCommand:
    """A command of a framework, and the module that it starts."""

    command: str
    module: str


@dataclass(frozen=True)
class RecipeItem:
    """A framework that a job can run: on which kinds of job, with which fields."""

    framework: str
    title: str
    says: str
    kinds: tuple[str, ...]
    fields: tuple[RecipeField, ...]
    commands: tuple[RecipeCommand, ...]


@dataclass(frozen=True)
class RecipeList:
    """Every recipe, and the variables that jobs may not set since the launcher gives them."""

    items: tuple[RecipeItem, ...]
    reserved_variables: tuple[str, ...]


@dataclass(frozen=True)
class SavedForm:
    """A form that the caller keeps."""

    kind: str
    name: str
    content: dict[str, Any]
    created_at: dt.datetime
    updated_at: dt.datetime


@dataclass(frozen=True)
class SavedFormList:
    """The caller's forms, by kind and name."""

    items: tuple[SavedForm, ...]


def list_recipes() -> RecipeList:
    """The recipes, from the forms that the door checks."""
    return RecipeList(tuple(_recipe(name, form) for name, form in FORMS.items()), tuple(sorted(recipe_scripts.plan().RESERVED)))


def _recipe(name: str, form: type[RecipeForm]) -> RecipeItem:
    fields = {key: info for key, info in form.model_fields.items() if key != "framework"}
    order = sorted(fields, key=lambda key: (_FIRST.index(key) if key in _FIRST else len(_FIRST), list(fields).index(key)))
    commands: Mapping[str, str] = recipe_scripts.plan().SWIFT_COMMANDS if name == "ms_swift" else {}
    schema = form.model_json_schema()["properties"]
    return RecipeItem(
        name, _TITLES[name], " ".join((form.__doc__ or "").split()), ON[name],
        tuple(_field(key, fields[key], schema[key]) for key in order),
        tuple(RecipeCommand(command, module) for command, module in commands.items()),
    )  # fmt: skip


def _field(name: str, info: FieldInfo, schema: Mapping[str, Any]) -> RecipeField:
    real = next((each for each in schema.get("anyOf", ()) if each.get("type") != "null"), schema)
    choices = tuple(real.get("enum") or ())
    words = {"string": "text", "boolean": "flag", "integer": "number", "array": "list", "object": "settings"}
    kind = "choice" if choices else words.get(str(real.get("type")), "text")
    default = None if info.is_required() else info.get_default(call_default_factory=True)
    return RecipeField(
        name, info.description or "", kind, info.is_required(), list(default) if isinstance(default, tuple) else default, choices
    )


def list_forms(room: Room, identity: str, kind: str | None) -> SavedFormList:
    """The caller's own forms."""
    return SavedFormList(tuple(_form(row) for row in room.store.forms.list(identity, kind)))


def get_form(room: Room, identity: str, kind: str, name: str) -> SavedForm:
    """One form of the caller. Raises NotFound ``saved_form.unknown``."""
    row = room.store.forms.find(identity, kind, name)
    if row is None:
        raise _unknown(kind, name)
    return _form(row)


def put_form(room: Room, identity: str, kind: str, name: str, content: Mapping[str, Any]) -> SavedForm:
    """Keep a form. Raises Invalid ``saved_form.too_large``, Conflict ``saved_form.too_many``."""
    size = len(json.dumps(content).encode())
    if size > _LARGEST_BYTES:
        told = f"The form has {size} bytes; {_LARGEST_BYTES} are kept at most."
        raise problems.Invalid("saved_form.too_large", told, fields=[Violation("/content", told)])
    return _form(room.store.forms.put(identity, kind, name, dict(content), MOST_FORMS))


def delete_form(room: Room, identity: str, kind: str, name: str) -> None:
    """Forget a form. Raises NotFound ``saved_form.unknown``."""
    if not room.store.forms.delete(identity, kind, name):
        raise _unknown(kind, name)


def _unknown(kind: str, name: str) -> problems.NotFound:
    return problems.NotFound("saved_form.unknown", f"You keep no form {name} of {kind}.", hint="List your saved forms.")


def _form(row: FormRow) -> SavedForm:
    return SavedForm(row.kind, row.name, dict(row.content), row.created_at, row.updated_at)
