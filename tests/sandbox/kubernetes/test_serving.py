"""Model servers behind pods: they read their arguments, load, answer, stream, count, fail as the real ones do, and end softly."""

from __future__ import annotations

import asyncio
import json
from functools import partial
from pathlib import Path
from typing import Any

import httpx2
import pytest
from tests.sandbox.kubernetes.loops_bench import Bench, on_bench
from tests.sandbox.kubernetes.serving import MODEL, SERVING, call, deployment, gpus, log_of, ready, server, service, until, url

Object = dict[str, Any]
ASK = {"model": MODEL, "messages": [{"role": "user", "content": "What is in the box?"}]}


def test_vllm_answers_streams_and_counts(tmp_path: Path) -> None:
    async def test(bench: Bench) -> None:
        await gpus(bench)
        await bench.client.create("deployments.apps", deployment("a", server("--model", MODEL, "--max-model-len", "512")))
        await bench.client.create("services", service("a"))
        await until(bench, lambda: ready(bench, "a"))
        listed = (await call(bench, "a", "/v1/models")).json()
        assert [(m["id"], m["max_model_len"]) for m in listed["data"]] == [(MODEL, 512)]
        first = (await call(bench, "a", "/v1/chat/completions", {**ASK, "max_tokens": 12})).json()
        again = (await call(bench, "a", "/v1/chat/completions", {**ASK, "max_tokens": 12})).json()
        assert first["choices"] == again["choices"]
        assert first["choices"][0]["finish_reason"] == "length"
        assert first["usage"]["completion_tokens"] == 12
        assert "What is in the box?" in (await call(bench, "a", "/v1/chat/completions", ASK)).json()["choices"][0]["message"]["content"]
        whole = (await call(bench, "a", "/v1/chat/completions", {**ASK, "stream": True, "stream_options": {"include_usage": True}})).text
        events = [line.removeprefix("data: ") for line in whole.splitlines() if line]
        assert events[-1] == "[DONE]"
        pieces = [json.loads(e) for e in events[:-1]]
        said = "".join(c["delta"].get("content") or "" for p in pieces for c in p["choices"])
        assert said == (await call(bench, "a", "/v1/chat/completions", ASK)).json()["choices"][0]["message"]["content"]
        assert pieces[-1]["usage"]["completion_tokens"] == len(pieces) - 2
        page = (await call(bench, "a", "/metrics")).text
        assert f'vllm:request_success_total{{model_name="{MODEL}",engine="0",finished_reason="length"}} 2.0' in page
        assert 'vllm:num_requests_running{model_name="' + MODEL in page
        assert "vllm:time_to_first_token_seconds_bucket" in page

    on_bench(tmp_path, test)


@pytest.mark.parametrize(
    ("body", "status", "words"),
    [
        ({**ASK, "model": "other"}, 404, "The model `other` does not exist."),
        ({"model": MODEL}, 400, "messages"),
        ({**ASK, "max_tokens": 5000}, 400, "maximum context length is 512 tokens"),
        ({**ASK, "max_tokens": "many"}, 400, "valid integer"),
        ({**ASK, "temperature": -1}, 400, "temperature must be non-negative"),
    ],
)
def test_what_a_server_refuses(body: Object, status: int, words: str) -> None:
    from instantstart_sandbox.programs.serving import native
    from instantstart_sandbox.programs.serving.engine import Engine
    from instantstart_sandbox.programs.serving.models import find
    from instantstart_sandbox.programs.serving.moments import Moments
    from instantstart_sandbox.programs.serving.service import App, Facts, Service
    from instantstart_sandbox.programs.serving.web import Request

    async def ask() -> None:
        app = App(Service(Engine(find(MODEL, None, 512), Moments(""), 4, 1000), Facts("vllm", [MODEL])), native.VLLM)
        answer = await app(Request("POST", "/v1/chat/completions", "", {}, json.dumps(body).encode(), "test"))
        assert answer.status == status
        assert words in json.loads(answer.body)["error"]["message"]

    asyncio.run(ask())


def test_sglang_has_its_own_paths_and_metrics(tmp_path: Path) -> None:
    async def test(bench: Bench) -> None:
        await gpus(bench)
        words = ["python3", "-m", "sglang.launch_server", "--model-path", MODEL, "--host", "0.0.0.0", "--port", "30000", "--enable-metrics"]
        await bench.client.create("deployments.apps", deployment("a", server(image="lmsysorg/sglang:v0.5.4", command=words, port=30000)))
        await bench.client.create("services", service("a"))
        await until(bench, lambda: ready(bench, "a"))
        body = {"text": "Once upon a time", "sampling_params": {"max_new_tokens": 8, "temperature": 0}}
        found = (await call(bench, "a", "/generate", body)).json()
        assert found["meta_info"]["completion_tokens"] == 8
        assert found["meta_info"]["finish_reason"] == {"type": "length", "length": 8}
        assert (await call(bench, "a", "/get_model_info")).json()["model_path"] == MODEL
        assert "sglang:num_queue_reqs{" in (await call(bench, "a", "/metrics")).text
        assert "The server is fired up and ready to roll!" in log_of(bench, "a")

    on_bench(tmp_path, test)


def test_a_line_of_shell_starts_the_server(tmp_path: Path) -> None:
    async def test(bench: Bench) -> None:
        await gpus(bench)
        line = f"export X=1; vllm serve {MODEL} --port 8000 --override-generation-config '{{\"temperature\": 0.1}}'"
        await bench.client.create("deployments.apps", deployment("a", server(command=["/bin/sh", "-c"], args=[line])))
        await bench.client.create("services", service("a"))
        await until(bench, lambda: ready(bench, "a"))
        assert (await call(bench, "a", "/version")).json() == {"version": "0.11.0"}

    on_bench(tmp_path, test)


def test_the_real_reasons_stand_in_the_log(tmp_path: Path) -> None:
    cases = {
        "flag": (["--model", MODEL, "--no-such-flag"], 2, "error: unrecognized arguments: --no-such-flag"),
        "number": (["--model", MODEL, "--max-model-len", "many"], 2, "argument --max-model-len: invalid human_int value: 'many'"),
        "parts": (["--model", MODEL, "--tensor-parallel-size", "4"], 1, "World size (4) is larger than the number of available GPUs (1)"),
        "gated": (["--model", "meta-llama/Llama-3.1-8B-Instruct"], 1, "You are trying to access a gated repo."),
        "folder": (["--model", "/models/none"], 1, "Invalid repository ID or local directory specified: '/models/none'"),
        "memory": (["--model", "Qwen/Qwen2.5-72B-Instruct"], 1, "torch.OutOfMemoryError: CUDA out of memory."),
    }

    async def test(bench: Bench) -> None:
        await gpus(bench, nodes=2)
        for name, (given, _, _) in cases.items():
            await bench.client.create(
                "pods", {"metadata": {"name": name, "namespace": "default"}, "spec": {**server(*given), "restartPolicy": "Never"}}
            )
        await until(bench, lambda: all(p["status"].get("phase") == "Failed" for p in bench.pods()))
        for name, (_, code, words) in cases.items():
            ended = bench.get("pods", name, "default")["status"]["containerStatuses"][0]["state"]["terminated"]
            assert (name, ended["exitCode"]) == (name, code)
            assert words in log_of(bench, name), name

    on_bench(tmp_path, test)


def test_it_can_be_slow_broken_and_out_of_memory_on_request(tmp_path: Path) -> None:
    async def test(bench: Bench) -> None:
        await gpus(bench)
        await bench.client.create("deployments.apps", deployment("a", server("--model", MODEL, "--max-num-seqs", "1")))
        await bench.client.create("services", service("a"))
        await until(bench, lambda: ready(bench, "a"))
        assert (await call(bench, "a", "/v1/chat/completions", ASK, **{"x-sandbox-serving": "status=500"})).status_code == 500
        base = await url(bench, "a")
        async with httpx2.AsyncClient(timeout=30) as client:
            (await client.post(base + "/_sandbox/serving", content="fail=0.5")).raise_for_status()
            codes = [(await client.post(base + "/v1/chat/completions", json=ASK)).status_code for _ in range(4)]
            assert sorted(codes) == [200, 200, 500, 500]
            # two who wait for the one place are seen in the queue
            await client.post(base + "/_sandbox/serving", content="delay=30")
            waiting = [asyncio.create_task(client.post(base + "/v1/chat/completions", json=ASK)) for _ in range(3)]
            while f'vllm:num_requests_waiting{{model_name="{MODEL}",engine="0"}} 2.0' not in (await client.get(base + "/metrics")).text:
                await asyncio.sleep(0.02)
            while not all(w.done() for w in waiting):
                bench.clock.warp(31)
                await asyncio.sleep(0.02)
            assert [w.result().status_code for w in waiting] == [200, 200, 200]
            await client.post(base + "/_sandbox/serving", content="oom=1")
            with pytest.raises(httpx2.TransportError):
                await client.post(base + "/v1/chat/completions", json=ASK)
        last = await until(bench, lambda: bench.pods()[0]["status"]["containerStatuses"][0]["lastState"].get("terminated"))
        assert (last["reason"], last["exitCode"]) == ("OOMKilled", 137)

    on_bench(tmp_path, test)


def test_loading_takes_its_virtual_time(tmp_path: Path) -> None:
    async def test(bench: Bench) -> None:
        await gpus(bench)
        await bench.client.create("deployments.apps", deployment("a", server("--model", MODEL), notes={SERVING: "load=300"}))
        await until(bench, lambda: "Starting to load model" in log_of(bench, "a"))
        await bench.wait(120)
        assert not ready(bench, "a")
        await bench.wait(200)
        await until(bench, lambda: ready(bench, "a"))

    on_bench(tmp_path, test)


def test_a_rolling_update_under_load_fails_no_request(tmp_path: Path) -> None:
    async def test(bench: Bench) -> None:
        await gpus(bench, nodes=2)
        spec = server("--model", MODEL, lifecycle={"preStop": {"sleep": {"seconds": 5}}})
        wave: Object = {"strategy": {"type": "RollingUpdate", "rollingUpdate": {"maxUnavailable": 0, "maxSurge": 1}}}
        await bench.client.create("deployments.apps", deployment("a", spec, replicas=2, **wave))
        await bench.client.create("services", service("a"))
        await until(bench, lambda: ready(bench, "a", 2))
        before, stop, codes = {p["metadata"]["uid"] for p in bench.pods()}, asyncio.Event(), []

        async def load() -> None:
            async with httpx2.AsyncClient(timeout=30) as client:
                while not stop.is_set():
                    answer = await client.post(f"{await url(bench, 'a')}/v1/chat/completions", json={**ASK, "max_tokens": 30})
                    codes.append(answer.status_code)

        def answered_since(seen: int) -> bool:
            return len(codes) > seen

        callers = [asyncio.create_task(load()) for _ in range(3)]
        patch = {"spec": {"template": {"metadata": {"annotations": {"round": "2"}}}}}
        await bench.client.patch("deployments.apps", "a", patch, "default")
        while not ready(bench, "a", 2) or before & {p["metadata"]["uid"] for p in bench.pods()}:
            await bench.wait(0.5)
            await until(bench, partial(answered_since, len(codes)), seconds=0.0)  # at every step of the wave somebody was answered
        stop.set()
        await asyncio.gather(*callers)
        assert set(codes) == {200}

    on_bench(tmp_path, test)
