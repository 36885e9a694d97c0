"""The engines that a pruned model may be made for (target=): what each of them loads, and how sizes are rounded for it.

`TARGETS` is the one table; the files that say so are in `sources`. docs/targets.md explains it, `aire targets` prints it.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from typing import Any

from aireprune.errors import AireError, did_you_mean

TRANSFORMERS = "a folder of transformers"
MAMBA_SSM = "a folder of mamba_ssm"
FLAX = "a Flax checkpoint of the official S5"
TORCH = "a file of PyTorch or safetensors"
OWN = "our own format"


@dataclass(frozen=True, kw_only=True)
class Sizes:
    """The state sizes N of a layer (per group) that an engine runs, or runs faster than the next larger one.

    step: multiples of it. power: powers of two from here on; 0: no such rule. most: the largest. strict: other sizes do
    not run at all; otherwise they do, and cost as much as the next one.
    """

    step: int = 1
    power: int = 0
    most: int | None = None
    strict: bool = True

    @property
    def words(self) -> str:
        if self.power:
            return f"powers of two from {self.power} on"
        if self.step > 1:
            return f"multiples of {self.step}"
        return "any" if self.most is None else f"any up to {self.most}"

    @property
    def rounds(self) -> bool:
        return self.power > 0 or self.step > 1

    @property
    def takes_all(self) -> bool:
        return not self.rounds and self.most is None

    def steps(self, largest: int) -> tuple[int, ...]:
        """The sizes up to `largest` that counts are rounded up to, or it alone; none if nothing is rounded."""
        if not self.rounds:
            return ()
        powers = (
            (self.power << k for k in range(largest.bit_length())) if self.power else range(0, largest + 1, self.step)
        )
        return tuple(size for size in powers if 0 < size <= largest) or (largest,)

    def runs(self, size: int) -> bool:
        """Whether a layer of this size runs there at all."""
        if self.strict and self.power and (size < self.power or size & (size - 1)):
            return False
        return size % self.step == 0 and (self.most is None or size <= self.most)


@dataclass(frozen=True, kw_only=True)
class Target:
    """One engine.

    families: those it has, with the sizes of their layers. one_size: all layers of a model have one. reads: the kinds of
    checkpoints that become something for it. model_types: of transformers' models, those alone. on_gpu: by family, sizes
    that are needed beyond `families` for some of its kernels, and which ones. load: what to do with the result, if that
    is not what its kind of file asks for anyway.
    """

    name: str
    summary: str
    families: Mapping[str, Sizes]
    one_size: bool
    reads: tuple[str, ...]
    sources: tuple[str, ...]
    load: str | None = None
    model_types: tuple[str, ...] = ()
    on_gpu: Mapping[str, tuple[tuple[int, ...], str]] = field(default_factory=dict)

    def to_dict(self) -> dict[str, Any]:
        """As JSON has it."""
        known = asdict(self)
        known["families"] = {name: {**asdict(sizes), "sizes": sizes.words} for name, sizes in self.families.items()}
        known["on_gpu"] = {
            family: {"sizes": list(sizes), "where": where} for family, (sizes, where) in self.on_gpu.items()
        }
        return {
            **known,
            "reads": list(self.reads),
            "sources": list(self.sources),
            "model_types": list(self.model_types),
        }


ANY = Sizes()
SELECTIVE = {"mamba": ANY, "mamba2": ANY}

TARGETS: dict[str, Target] = {
    target.name: target
    for target in (
        Target(
            name="mamba-ssm",
            summary="the CUDA and Triton kernels of the Mamba authors",
            families={"mamba": Sizes(most=256), "mamba2": Sizes(power=16, strict=False)},
            one_size=True,
            reads=(MAMBA_SSM, TORCH),
            sources=(
                "state-spaces/mamba csrc/selective_scan/selective_scan.cpp: state dimension <= 256",
                "state-spaces/mamba mamba_ssm/ops/triton/ssd_chunk_scan.py: BLOCK_SIZE_DSTATE = "
                "max(next_power_of_2(dstate), 16)",
                "state-spaces/mamba mamba_ssm/models/config_mamba.py: one ssm_cfg for all layers",
            ),
        ),
        Target(
            name="transformers",
            summary="Hugging Face transformers, from_pretrained",
            families=SELECTIVE,
            one_size=True,
            reads=(TRANSFORMERS,),
            sources=("huggingface/transformers models/mamba/configuration_mamba.py: one state_size",),
        ),
        Target(
            name="vllm",
            summary="vLLM, which serves folders of transformers",
            families={"mamba": Sizes(most=256), "mamba2": ANY},
            one_size=True,
            reads=(TRANSFORMERS,),
            load='vllm.LLM("{out}")',
            sources=(
                "vllm-project/vllm csrc/mamba/mamba_ssm/selective_scan_fwd.cu: state dimension <= 256",
                "vllm-project/vllm vllm/model_executor/layers/mamba/mamba_utils.py: one state_size gives every cache",
                "flashinfer-ai/flashinfer include/flashinfer/mamba/kernel_selective_state_update_stp.cuh: DSTATE / 32 "
                "states a thread; older versions have 64, 128 and 256 alone",
            ),
            on_gpu={"mamba2": (tuple(range(32, 257, 32)), "with its FlashInfer kernels; its own take any size")},
        ),
        Target(
            name="llama.cpp",
            summary="llama.cpp, through a GGUF file that aire export writes",
            families=SELECTIVE,
            one_size=True,
            reads=(TRANSFORMERS,),
            model_types=("mamba", "mamba2"),
            load='aireprune.export("{out}", "model.gguf")',
            sources=(
                "ggml-org/llama.cpp gguf-py/gguf/constants.py: one {arch}.ssm.state_size",
                "ggml-org/llama.cpp ggml/src/ggml-cuda/ssm-scan.cu: d_state 16 (Mamba), 128 or 256 (Mamba-2)",
            ),
            on_gpu={
                "mamba": ((16,), "on CUDA; CPUs take any size"),
                "mamba2": ((128, 256), "on CUDA; CPUs take any size"),
            },
        ),
        Target(
            name="mlx",
            summary="mlx-lm on Apple hardware",
            families={"mamba": ANY, "mamba2": Sizes(step=32)},
            one_size=True,
            reads=(TRANSFORMERS,),
            load='mlx_lm.load("{out}")',
            sources=(
                "ml-explore/mlx-lm mlx_lm/models/ssm.py: 32 threads with Ds / 32 states each; the others are skipped "
                "without an error",
            ),
        ),
        Target(
            name="onnx",
            summary="onnxruntime, through a graph that aire export writes",
            families={"s5": ANY, "s4d": ANY, "lru": ANY, **SELECTIVE},
            one_size=False,
            reads=(OWN, TRANSFORMERS, FLAX, TORCH),
            model_types=("mamba", "mamba2"),
            load='aireprune.export("{out}", "model.onnx")',
            sources=("src/aireprune/exports/onnx: every node has the size of its layer",),
        ),
        Target(
            name="official-s5",
            summary="the official S5 in JAX",
            families={"s5": ANY},
            one_size=True,
            reads=(FLAX,),
            sources=("lindermanlab/S5 s5/train.py: one ssm_size_base makes every layer",),
        ),
        Target(
            name="s5-pytorch",
            summary="the PyTorch package s5-pytorch",
            families={"s5": ANY},
            one_size=False,
            reads=(TORCH,),
            sources=("i404788/s5-pytorch s5/s5_model.py: state_width of every S5 module",),
        ),
    )
}


def find_target(name: str) -> Target:
    """The target of this name; an error names those that there are."""
    if name not in TARGETS:
        raise AireError(f"There is no target {name!r}.{did_you_mean(name, TARGETS)} Targets: {', '.join(TARGETS)}.")
    return TARGETS[name]
