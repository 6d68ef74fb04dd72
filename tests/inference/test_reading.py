"""Answers of models read as they come, metrics as the servers write them, and what they say before they die."""

from __future__ import annotations

import json
import shlex
from typing import Any

import pytest

from instantstart.base import problems
from instantstart.capabilities.inference.calls import judging, objects, rules, specs
from instantstart.capabilities.inference.calls.judging import Reader
from instantstart.ensure.inference import meters, serving_trouble
from instantstart.ensure.running.pending_words import Why
from instantstart.faces.mcp import model_answers

MUCH = "a" * 5000


def chunk(text: str = "", **more: Any) -> bytes:
    """One event of a chat."""
    return b"data: " + json.dumps({"choices": [{"index": 0, "delta": {"content": text}, **more}]}).encode() + b"\n\n"


def test_a_stream_is_read_in_whatever_pieces_it_comes() -> None:
    usage = b'data: {"choices": [], "usage": {"prompt_tokens": 5, "completion_tokens": 3}}\n\n'
    whole = chunk() + chunk("Hel") + chunk("lo \xc3") + chunk("\U0001f600", finish_reason="stop") + usage + b"data: [DONE]\n\n"
    for size in (1, 7, 1000):
        reader = Reader()
        for at in range(0, len(whole), size):
            reader.feed(whole[at : at + size], at / len(whole))
        told = reader.figures(1.5)
        assert reader.text == "Hello \xc3\U0001f600"
        assert (told.prompt_tokens, told.completion_tokens, told.finish_reason, told.latency_ms) == (5, 3, "stop", 1500)
        assert told.first_token_ms is not None
        assert told.first_token_ms <= 1000


def test_rubbish_in_a_stream_is_passed_over_and_an_error_is_kept() -> None:
    reader = Reader()
    reader.feed(b'data: not json\n\ndata: 7\n\n: comment\n\ndata: {"choices": ["x"]}\n\ndata: {"error": {"message": "too long"}}\n\n', 0.1)
    assert (reader.text, reader.pieces) == ("", 0)
    assert judging.error_of(200, {"error": reader.error}, "") == "too long"


def test_tokens_a_second_count_from_the_first_to_the_last() -> None:
    reader = Reader()
    for number, text in enumerate(("a", "b", "c")):
        reader.feed(chunk(text), 1.0 + number)
    assert reader.figures(4.0).tokens_per_second == 1.0
    assert reader.figures(4.0).first_token_ms == 1000
    assert Reader().figures(1.0).tokens_per_second is None


@pytest.mark.parametrize(
    ("status", "told", "error"),
    [
        (200, {"choices": []}, None),
        (400, {"error": {"message": "no"}}, "no"),
        (404, {"detail": "Not Found"}, "Not Found"),
        (500, "<html>", "<html>"),
        (200, {"error": "quota"}, "quota"),
    ],
)
def test_what_the_model_says_is_wrong(status: int, told: Any, error: str | None) -> None:
    assert judging.error_of(status, told, told if isinstance(told, str) else "") == error


@pytest.mark.parametrize(
    ("ask", "pointers"),
    [
        ({}, {"/prompt"}),
        ({"prompt": "a", "messages": [{"role": "user", "content": "b"}]}, {"/prompt"}),
        ({"messages": []}, {"/messages"}),
        ({"prompt": "a", "path": "v1/x"}, {"/path"}),
        ({"prompt": "a", "body": {"stream": True}}, {"/body/stream"}),
        ({"api": "completions"}, {"/prompt"}),
        ({"api": "completions", "prompt": "a", "system": "b"}, {"/system"}),
        ({"api": "embeddings"}, {"/prompt"}),
        ({"api": "json"}, {"/path"}),
        ({"api": "json", "path": "a", "method": "GET", "body": {"a": 1}}, {"/body"}),
        ({"api": "json", "path": "a", "prompt": "x"}, {"/prompt"}),
        ({"prompt": "a", "inputs": ["b"]}, {"/inputs"}),
        ({"prompt": "a", "method": "GET"}, {"/method"}),
    ],
)
def test_calls_that_do_not_agree_are_refused_at_their_fields(ask: dict[str, Any], pointers: set[str]) -> None:
    with pytest.raises(problems.Invalid) as refused:
        rules.check(specs.CallModel.model_validate(ask))
    assert {f.pointer for f in refused.value.fields} == pointers


def test_curl_is_one_word_for_each_word() -> None:
    told = objects.curl("http://localhost:8000", "v1/chat/completions", {"prompt": "it's $(id) `x`"}, "kubectl port-forward &")
    assert told.splitlines()[0] == "kubectl port-forward &"
    words = shlex.split(told.splitlines()[1])
    assert words[:3] == ["curl", "-sS", "http://localhost:8000/v1/chat/completions"]
    assert json.loads(words[-1]) == {"prompt": "it's $(id) `x`"}


def test_metrics_of_both_engines_are_added_up_over_labels() -> None:
    text = """# HELP vllm:num_requests_running x
vllm:num_requests_running{model_name="a b",engine="0"} 2.0
vllm:num_requests_running{engine="1"} 1
vllm:kv_cache_usage_perc{engine="0"} 0.75
vllm:kv_cache_usage_perc{engine="1"} 0.25
vllm:generation_tokens_total{x="}"} 1e3
sglang:num_queue_reqs 4
vllm:time_to_first_token_seconds_sum NaN
python_info{version="3"} 1
"""
    assert meters.parse(text) == {
        "vllm:num_requests_running": 3.0,
        "vllm:kv_cache_usage_perc": 0.5,
        "vllm:generation_tokens_total": 1000.0,
        "sglang:num_queue_reqs": 4.0,
    }


@pytest.mark.parametrize(
    ("words", "code"),
    [
        ("huggingface_hub.errors.GatedRepoError: 401 Client Error", "model.gated"),
        ("OSError: org/x is not a local folder and is not a valid model identifier", "model.missing"),
        ("OSError: /models/q does not appear to have a file named config.json", "model.missing"),
        ("torch.OutOfMemoryError: CUDA out of memory. Tried to allocate 2 GiB", "accelerator.out_of_memory"),
        ("ValueError: No available memory for the cache blocks.", "accelerator.out_of_memory"),
        ("vllm: error: unrecognized arguments: --no-such", "server.bad_flag"),
        ("OSError: [Errno 98] Address already in use", "server.port_taken"),
        ("something else", "container.failed"),
    ],
)
def test_why_a_server_died_is_told_by_its_last_words(words: str, code: str) -> None:
    why = Why("container.failed", "failing", "2 of 3 pods: The container x ended.", {"untrusted_last_words": words}, "Read its log.")
    told = serving_trouble.refine(why)
    assert told.code == code
    assert told.text.startswith("2 of 3 pods: ")
    assert words not in told.text
    assert serving_trouble.refine(Why("pod.unseen", "starting", "x")).code == "pod.unseen"


def test_what_a_model_says_is_marked_as_foreign_and_bounded() -> None:
    told = model_answers.told({"ok": True, "served": "default/q", "text": MUCH, "latency_ms": 3, "answer": None})
    assert told["served"] == "default/q"
    assert "text" not in told
    assert sum(len(line) for line in told["untrusted_text"]) < len(MUCH)
    assert "untrusted_answer" in model_answers.told({"ok": True, "answer": {"data": [1]}})
