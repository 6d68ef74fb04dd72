"""Rules of x-kubernetes-validations beside what the corpus holds: functions, names, and what is said of what is not enforced."""

from __future__ import annotations

import copy
from typing import Any

import httpx2
import pytest

from instantstart_sandbox.kubernetes import expressions
from instantstart_sandbox.kubernetes.schema import Node

from .objects import DEFINITIONS, WIDGETS, widget, widget_definition

WORDS = Node({"type": "array", "items": {"type": "string"}})
NUMBERS = Node({"type": "array", "items": {"type": "integer"}})


def says(rule: str, value: Any, node: Node) -> Any:
    return expressions.evaluate(expressions.compiled(rule, node), expressions.cel_value(value, node), [])


@pytest.mark.parametrize(
    ("rule", "value", "node", "wanted"),
    [
        ("self.sum() == 6", [1, 2, 3], NUMBERS, True),
        ("self.min() == 1 && self.max() == 3", [1, 2, 3], NUMBERS, True),
        ("self.isSorted()", [2, 1], NUMBERS, False),
        ("self.all(w, w.find('[0-9]+') == '')", ["a", "b1"], WORDS, False),
        ("self[0].findAll('[0-9]') == ['1', '2']", ["a1b2"], WORDS, True),
        ("self[0].findAll('[0-9]', 1) == ['1']", ["a1b2"], WORDS, True),
        ("self.exists_one(w, w == 'a')", ["a", "a"], WORDS, False),
        ("self[0].lowerAscii() == 'ab'", ["AB"], WORDS, True),
    ],
)
def test_the_functions_that_kubernetes_adds(rule: str, value: Any, node: Node, wanted: bool) -> None:
    assert says(rule, value, node) is wanted


@pytest.mark.parametrize(
    ("name", "escaped"),
    [
        ("namespace", "__namespace__"),
        ("a-b", "a__dash__b"),
        ("a.b/c", "a__dot__b__slash__c"),
        ("a__b", "a__underscores__b"),
        ("plain", "plain"),
    ],
)
def test_names_that_are_no_identifiers_are_escaped(name: str, escaped: str) -> None:
    node = Node({"type": "object", "properties": {name: {"type": "integer"}}})
    assert expressions.escape(name) == escaped
    assert says(f"self.{escaped} == 1", {name: 1}, node) is True


@pytest.mark.parametrize(
    ("rule", "value", "told"),
    [("self[5] == 1", [1], "index out of bounds: 5"), ("self[0] / 0 == 1", [1], "division by zero")],
)
def test_what_cannot_be_evaluated_is_told_in_kubernetes_words(rule: str, value: Any, told: str) -> None:
    with pytest.raises(expressions.RuleError, match=told):
        says(rule, value, NUMBERS)


def test_a_rule_that_is_not_evaluated_is_taken_with_a_warning_and_not_enforced(http: httpx2.Client) -> None:
    definition = copy.deepcopy(widget_definition())
    color = definition["spec"]["versions"][0]["schema"]["openAPIV3Schema"]["properties"]["spec"]["properties"]["color"]
    color["x-kubernetes-validations"] = [{"rule": "isURL(self)"}]
    answer = http.post(DEFINITIONS, json=definition)
    assert answer.status_code == 201, answer.text
    assert "does not evaluate the rule" in answer.headers["warning"]
    assert "isURL" in answer.headers["warning"]
    assert http.post(WIDGETS, json=widget(color="red")).status_code == 201
