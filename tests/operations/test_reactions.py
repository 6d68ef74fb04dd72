"""What a stage is blocked with when its deadline passes: its own word, when it has one and can say it."""

from __future__ import annotations

from instantstart.base import problems
from instantstart.base.outcome import Wait
from instantstart.operations import reactions


def test_a_wait_without_a_word_of_its_own_took_too_long() -> None:
    told = reactions.last_word("nodes", 90, Wait(1, "1/2 nodes"))
    assert (told.code, told.detail) == ("operation.stage_overdue", "Stage nodes has not come true within 90 seconds. Last seen: 1/2 nodes")


def test_a_wait_with_a_word_of_its_own_has_it() -> None:
    own = problems.NoCapacity("capacity.exhausted", "none")
    assert reactions.last_word("nodes", 90, Wait(1, "1/2 nodes", overdue=lambda: own)) is own


def test_a_word_that_cannot_be_said_is_told_with_what_was_known() -> None:
    def cannot() -> problems.Problem:
        raise problems.Unreachable("aws.unreachable", "nobody answers")

    told = reactions.last_word("nodes", 90, Wait(1, "1/2 nodes", overdue=cannot))
    assert told.code == "operation.stage_overdue"
    assert told.detail.endswith("Last seen: 1/2 nodes (nobody answers)")
