"""No sentence of the library reaches a person: what is wrong is said in ours, with what to do, and never with what was sent."""

from __future__ import annotations

import datetime as dt
from decimal import Decimal
from enum import StrEnum
from typing import Annotated, Any, Literal
from uuid import UUID

import pytest
from pydantic import AnyHttpUrl, AwareDatetime, BaseModel, ConfigDict, Field, TypeAdapter, ValidationError

from instantstart.base import sentences


class Colour(StrEnum):
    red = "red"
    blue = "blue"


class Cat(BaseModel):
    kind: Literal["cat"]
    lives: int


class Dog(BaseModel):
    kind: Literal["dog"]


class Ask(BaseModel):
    model_config = ConfigDict(extra="forbid")

    text: str = Field(default="ok", min_length=2, max_length=4)
    count: int = Field(default=1, ge=1, le=9)
    share: float = Field(default=0.5, gt=0, lt=1)
    even: int = Field(default=2, multiple_of=2)
    colour: Colour = Colour.red
    at: AwareDatetime | None = None
    plain: dt.datetime | None = None
    day: dt.date = dt.date(2026, 1, 1)
    hour: dt.time = dt.time(3)
    lasts: dt.timedelta = dt.timedelta(0)
    where: AnyHttpUrl = AnyHttpUrl("https://example.com")
    money: Decimal = Field(default=Decimal(1), max_digits=4, decimal_places=2)
    names: list[str] = Field(default_factory=list, min_length=0, max_length=2)
    by_name: dict[str, int] = Field(default_factory=dict)
    tagged: Annotated[Cat | Dog, Field(discriminator="kind")] | None = None
    some: set[str] = Field(default_factory=set)
    which: UUID | None = None
    raw: bytes = b""
    said: bool = False


@pytest.mark.parametrize(
    ("field", "value", "told"),
    [
        ("text", 1, "text must be text."),
        ("text", "a", "text must have at least 2 characters."),
        ("text", "abcde", "text must have at most 4 characters."),
        ("count", "x", "count must be a whole number."),
        ("count", "9" * 5000, "count is too large a number."),
        ("count", 0, "count must be at least 1."),
        ("count", 10, "count must be at most 9."),
        ("share", 0, "share must be more than 0.0."),
        ("share", 1, "share must be less than 1.0."),
        ("even", 3, "even must be a multiple of 2."),
        ("colour", "green", "colour must be one of 'red' or 'blue'."),
        ("at", "yesterday", "at must be a moment with its time zone, such as 2026-11-30T12:00:00Z."),
        ("at", "2026-11-30T12:00:00", "at must say its time zone, as 2026-11-30T12:00:00Z does with Z for UTC."),
        ("plain", [], "plain must be a moment with its time zone, such as 2026-11-30T12:00:00Z."),
        ("day", "soon", "day must be a date, such as 2026-11-30."),
        ("hour", "late", "hour must be a time of the day, such as 03:30."),
        ("lasts", "long", "lasts must be a duration in seconds."),
        ("where", "nowhere", "where must be an address, such as https://example.com."),
        ("where", "ftp://x", "where must be an address that begins with 'http' or 'https'."),
        ("money", "much", "money must be a number."),
        ("money", "12345", "money must have at most 4 digits."),
        ("money", "1.234", "money must have at most 2 digits after the point."),
        ("names", "a", "names must be a list."),
        ("names", ["a"] * 3, "names must have at most 2 items."),
        ("by_name", [], "by_name must be an object."),
        ("by_name", {"a": "x"}, "by_name.a must be a whole number."),
        ("tagged", {}, "tagged needs kind, which says what the rest is."),
        ("tagged", {"kind": "cow"}, "tagged must have as kind one of 'cat', 'dog'."),
        ("tagged", {"kind": "cat"}, "tagged.cat.lives is required."),
        ("some", 1, "some must be a list."),
        ("which", "x", "which must be a UUID, such as 123e4567-e89b-42d3-a456-426614174000."),
        ("raw", 1, "raw must be a valid bytes."),
        ("said", "maybe", "said must be true or false."),
        ("unknown", 1, "unknown is not a field of this request."),
    ],
)
def test_each_kind_of_mistake_has_a_sentence_of_ours(field: str, value: Any, told: str) -> None:
    with pytest.raises(ValidationError) as caught:
        Ask.model_validate({field: value})
    found = sentences.violations(caught.value.errors())
    assert [each.message for each in found] == [told]
    assert "should" not in told


def test_one_sentence_for_each_place() -> None:
    with pytest.raises(ValidationError) as caught:
        TypeAdapter(Annotated[int, Field(ge=1)] | bool).validate_python("x")
    assert [each.message for each in sentences.violations([{**e, "loc": ("body", "a")} for e in caught.value.errors()])] == [
        "a must be a whole number."
    ]


def test_a_kind_that_is_not_known_is_still_told() -> None:
    assert sentences.sentence({"type": "odd", "loc": ("a",), "msg": "Something odd happened."}) == "a is wrong: something odd happened."
