"""A spec from its model: what must be said is known or made up from the field, what may be said is left out or drawn."""

from __future__ import annotations

import enum
import types
import typing
from collections.abc import Mapping
from typing import Any

import annotated_types
from hypothesis import strategies as st
from pydantic import BaseModel
from pydantic.fields import FieldInfo


def minimal(model: type[BaseModel], known: Mapping[str, Any]) -> BaseModel:
    """The shortest spec: every field that ``known`` has, and of the rest only what the model wants.

    A field that is wanted, not known and without an example, an enum or a bound raises LookupError: its scenario must say it.
    """
    given = {name: known[name] for name in model.model_fields if name in known}
    for name, field in model.model_fields.items():
        if field.is_required() and name not in given:
            given[name] = _made_up(model, name, field)
    return model.model_validate(given)


def drawn(model: type[BaseModel], known: Mapping[str, Any]) -> st.SearchStrategy[BaseModel]:
    """Specs whose switches and choices are drawn: booleans, literals and enums that ``known`` leaves open."""
    fixed = minimal(model, known).model_dump()
    open_fields = {
        name: st.sampled_from(choices)
        for name, field in model.model_fields.items()
        if name not in known and len(choices := _choices(field.annotation)) > 1
    }
    return st.fixed_dictionaries(open_fields).map(lambda chosen: model.model_validate({**fixed, **chosen}))


def _choices(annotation: Any) -> list[Any]:
    if annotation is bool:
        return [False, True]
    if typing.get_origin(annotation) is typing.Literal:
        return list(typing.get_args(annotation))
    if isinstance(annotation, type) and issubclass(annotation, enum.Enum):
        return list(annotation)
    return []


def _made_up(model: type[BaseModel], name: str, field: FieldInfo) -> Any:
    if field.examples:
        return field.examples[0]
    annotation = field.annotation
    if typing.get_origin(annotation) in (typing.Union, types.UnionType):
        annotation = next(each for each in typing.get_args(annotation) if each is not type(None))
    choices = _choices(annotation)
    if choices:
        return choices[0]
    lowest = next((m.ge for m in field.metadata if isinstance(m, annotated_types.Ge)), None)
    if annotation in (int, float) and lowest is not None:
        return lowest
    if isinstance(annotation, type) and issubclass(annotation, BaseModel):
        return minimal(annotation, {})
    raise LookupError(f"{model.__name__}.{name} has no example; the scenario must say it")
