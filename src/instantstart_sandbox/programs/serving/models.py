"""What a model is and needs, told by its name or its folder, and why it cannot be loaded: in the words of the real programs."""

from __future__ import annotations

import json
import os
import re
from dataclasses import dataclass
from pathlib import Path

GPUS, TYPE, IMAGE = "INSTANTSTART_SANDBOX_GPUS", "INSTANTSTART_SANDBOX_INSTANCE_TYPE", "INSTANTSTART_SANDBOX_IMAGE"
#: GiB of one accelerator, by family of instance types (fact sheet A20; larger sizes of a family have more of them, not larger ones)
_GPU_GIB = {
    "g4dn": 16, "g5": 22, "g6": 22, "gr6": 22, "g6e": 45, "g7": 32, "g7e": 96, "p4d": 40, "p4de": 80, "p5": 80, "p5e": 141, "p5en": 141,
    "p6-b200": 179, "p6-b300": 269, "p6e-gb200": 186,
}  # fmt: skip
_SIZE = re.compile(r"(?<![a-z0-9.])(?:(?P<experts>\d+)x)?(?P<number>\d+(?:[.p]\d+)?)(?P<unit>[bm])(?![a-z])", re.IGNORECASE)
_GATED = re.compile(
    r"^(meta-llama/|google/gemma|mistralai/(Mistral-Large|Mixtral-8x22B|Codestral|Ministral)|sandbox/(gated|private)-)", re.I
)
_MISSING = re.compile(r"(^|/)(does-not-exist|no-such-model)")
_EMBEDDING = re.compile(r"(embed|bge-|gte-|/e5-|minilm|sfr-)", re.IGNORECASE)
_DEFAULT_BILLIONS = 7.0
_TOKENS = {"hf_stranger"}


class CannotLoadError(Exception):
    """Why the server exits; the text goes to the log, traceback and all."""


@dataclass(frozen=True)
class Model:
    """``billions`` of parameters; ``context`` tokens at most; ``bytes_each`` of one weight."""

    name: str
    billions: float
    context: int
    bytes_each: float
    embedding: bool
    local: bool

    @property
    def gib(self) -> float:
        """What the weights take."""
        return self.billions * 1e9 * self.bytes_each / 2**30

    @property
    def load_seconds(self) -> float:
        """Virtual seconds from start to the first answer: reading the weights, then capturing graphs."""
        return 8.0 + min(self.gib * 0.7, 900.0)

    @property
    def token_seconds(self) -> float:
        """Virtual seconds for one token of one answer."""
        return 0.004 + self.billions * 0.0005


def find(name: str, quantization: str | None = None, context: int | None = None) -> Model:
    """The model of a repository id or of a folder. CannotLoadError when there is none."""
    folder = Path(name)
    local = name.startswith(("/", "./", "~")) or folder.is_dir()
    config: dict[str, object] = {}
    if local:
        if not (folder / "config.json").is_file() and not (folder / "params.json").is_file():
            raise CannotLoadError(_no_folder(name))
        config = _config(folder)
    elif not name.startswith(("s3://", "gs://")):
        _check_hub(name)
    told = f"{name} {config.get('_name_or_path', '')} {config.get('repository', '')}"
    found = config.get("max_position_embeddings")
    longest = int(found) if isinstance(found, int) else 32768
    size = _weights(folder) if local else 0.0
    return Model(
        name,
        size or _billions(told),
        context or longest,
        0.55 if _quarter(f"{quantization or ''} {told}") else 1.05 if _half(f"{quantization or ''} {told}") else 2.0,
        bool(_EMBEDDING.search(told)),
        local,
    )


def _quarter(text: str) -> bool:
    return bool(re.search(r"awq|gptq|int4|4bit|gguf|nvfp4|mxfp4|bitsandbytes|gpt-oss", text, re.IGNORECASE))


def _half(text: str) -> bool:
    return bool(re.search(r"fp8|int8|w8a8|8bit|deepseek-(v3|r1)", text, re.IGNORECASE))


def _config(folder: Path) -> dict[str, object]:
    try:
        found = json.loads((folder / "config.json").read_text())
    except (OSError, ValueError):
        return {}
    return found if isinstance(found, dict) else {}


def _weights(folder: Path) -> float:
    """Billions of parameters by the size of real weights; 0 when they are a stand-in's few bytes."""
    size = sum(f.stat().st_size for f in folder.glob("*.safetensors"))
    return size / 2e9 if size > 50_000_000 else 0.0


def _billions(text: str) -> float:
    found = _SIZE.search(text.replace("_", "-"))
    if found is None:
        return _DEFAULT_BILLIONS if "tiny" not in text else 0.1
    number = float(found["number"].lower().replace("p", "."))
    whole = number / 1000 if found["unit"].lower() == "m" else number
    return whole * int(found["experts"] or 1)


def _check_hub(name: str) -> None:
    """A repository that is not there, and one that wants a token."""
    token = os.environ.get("HF_TOKEN") or os.environ.get("HUGGING_FACE_HUB_TOKEN") or ""
    if os.environ.get("HF_HUB_OFFLINE") == "1":
        raise CannotLoadError(
            f"OSError: We couldn't connect to 'https://huggingface.co' to load the files, and couldn't find them in the cached files.\n"
            f"huggingface_hub.errors.LocalEntryNotFoundError: HF_HUB_OFFLINE is set and {name} is not in the cache."
        )
    if _MISSING.search(name) or name.count("/") > 1:
        raise CannotLoadError(
            f"huggingface_hub.errors.RepositoryNotFoundError: 401 Client Error.\n"
            f"Repository Not Found for url: https://huggingface.co/{name}/resolve/main/config.json.\n"
            f"OSError: {name} is not a local folder and is not a valid model identifier listed on 'https://huggingface.co/models'\n"
            "If this is a private repository, make sure to pass a token having permission to this repo."
        )
    if _GATED.match(name) and (not token or token in _TOKENS):
        code, why = (403, "Your request to access it is awaiting a review.") if token else (401, "Please log in.")
        raise CannotLoadError(
            f"OSError: You are trying to access a gated repo.\nMake sure to have access to it at https://huggingface.co/{name}.\n"
            f"{code} Client Error.\n\nCannot access gated repo for url https://huggingface.co/{name}/resolve/main/config.json.\n"
            f"Access to model {name} is restricted. You must have access to it and be authenticated to access it. {why}"
        )


def _no_folder(name: str) -> str:
    return (
        f"ValueError: Invalid repository ID or local directory specified: '{name}'.\n"
        "Please verify the following requirements:\n"
        "1. Provide a valid Hugging Face repository ID.\n"
        "2. Specify a local directory that contains a recognized configuration file.\n"
        "   - For Hugging Face models: ensure the presence of a 'config.json'.\n"
        "   - For Mistral models: ensure the presence of a 'params.json'."
    )


@dataclass(frozen=True)
class Accelerators:
    """What the container has: ``count`` GPUs of ``gib`` each (0: unknown)."""

    count: int
    gib: float
    cpu_image: bool

    @classmethod
    def here(cls) -> Accelerators:
        """As the kubelet says in the environment; without a word, as many as needed."""
        told = os.environ.get(GPUS)
        family = os.environ.get(TYPE, "").removeprefix("ml.").partition(".")[0]
        return cls(int(told) if told else 1024, _GPU_GIB.get(family, 0), "cpu" in os.environ.get(IMAGE, "").rpartition("/")[2])


def check_memory(model: Model, parts: int, gib: float, share: float) -> None:
    """CannotLoadError when the weights alone do not fit into ``share`` of each of ``parts`` accelerators."""
    needed = model.gib / max(parts, 1)
    if gib and needed > gib * share:
        raise CannotLoadError(
            f"torch.OutOfMemoryError: CUDA out of memory. Tried to allocate {max(needed / 32, 0.1):.2f} GiB. GPU 0 has a total capacity "
            f"of {gib:.2f} GiB of which {gib * 0.02:.2f} GiB is free. Including non-PyTorch memory, this process has {gib * 0.98:.2f} GiB "
            "memory in use. If reserved but unallocated memory is large try setting PYTORCH_CUDA_ALLOC_CONF=expandable_segments:True to "
            "avoid fragmentation."
        )
