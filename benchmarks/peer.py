"""The other side of a benchmark: the same work in transformers and PEFT, the way their users run it.

The same shapes, the same tokens and features, AdamW with clipping on the adapters of the decoder. As in any run of
theirs, recordings are padded to 30 s and logits are made at every position: that ours does neither is part of what is
compared. Started by `benchmarks.sides` as `python -m benchmarks.peer sdpa|eager`.
"""

from __future__ import annotations

import functools
import sys
import warnings
from importlib.metadata import version
from typing import Any

import torch
from peft import LoraConfig, get_peft_model
from transformers import Qwen2AudioConfig, Qwen2AudioForConditionalGeneration

from benchmarks.sides import Run, serve
from benchmarks.workload import Workload, make_batch
from jaxeval.audio.lengths import MAX_FRAMES

TARGETS = r".*language_model.*\.(q_proj|k_proj|v_proj|o_proj|gate_proj|up_proj|down_proj)"
DEVICE = torch.device("cuda" if torch.cuda.is_available() else "cpu")


def prepare(implementation: str, task: str, work: Workload) -> tuple[dict[str, Any], Run]:
    """Set a task up and warm it up; see `benchmarks.sides.serve`."""
    run = {"lora_step": lora_step, "decode": decode}[task](implementation, work)
    run()
    return about(), run


def lora_step(implementation: str, work: Workload) -> Run:
    """Forward, backward, clip, AdamW."""
    base = random_model(work.preset, work.dtype, implementation)
    lora = LoraConfig(r=work.rank, lora_alpha=2 * work.rank, lora_dropout=0.0, target_modules=TARGETS)
    model = get_peft_model(base, lora)
    if work.remat:
        model.enable_input_require_grads()
        base.gradient_checkpointing_enable(gradient_checkpointing_kwargs={"use_reentrant": False})
    model.train()
    trained = [parameter for parameter in model.parameters() if parameter.requires_grad]
    optimizer = torch.optim.AdamW(trained, lr=1e-4, weight_decay=0.01)
    batch = tensors(work)
    labels = batch["input_ids"].clone()
    labels[:, : -work.answer] = -100

    def run() -> dict[str, Any]:
        optimizer.zero_grad(set_to_none=True)
        loss = model(**batch, labels=labels, use_cache=False).loss
        loss.backward()
        torch.nn.utils.clip_grad_norm_(trained, 1.0)
        optimizer.step()
        return {"loss": loss.item(), "tokens": work.batch * work.length, "peak_bytes": peak_bytes()}

    return run


def decode(implementation: str, work: Workload) -> Run:
    """Greedy answers of `new_tokens` tokens a row; no token ends them."""
    model = random_model(work.preset, work.dtype, implementation).eval()
    batch = tensors(work)
    count = work.new_tokens

    @torch.no_grad()
    def run() -> dict[str, Any]:
        tokens = model.generate(
            **batch, max_new_tokens=count, min_new_tokens=count, do_sample=False, eos_token_id=None, pad_token_id=0
        )
        return {"tokens": tokens[:, work.length :].numel(), "peak_bytes": peak_bytes()}

    return run


@functools.lru_cache(maxsize=1)
def random_model(preset: Any, dtype: Any, implementation: str) -> Qwen2AudioForConditionalGeneration:
    """A model with random weights, made on the device."""
    config = Qwen2AudioConfig(**Workload(preset=preset).hf_config())
    config._attn_implementation = implementation
    torch.manual_seed(0)
    with torch.device(DEVICE):
        return Qwen2AudioForConditionalGeneration._from_config(config, dtype=getattr(torch, dtype))


def tensors(work: Workload) -> dict[str, torch.Tensor]:
    """The batch on the device."""
    batch = make_batch(work, work.hf_config(), MAX_FRAMES)
    found = {name: torch.from_numpy(value).to(DEVICE) for name, value in batch.items()}
    found["input_ids"] = found["input_ids"].long()
    found["input_features"] = found["input_features"].to(getattr(torch, work.dtype))
    return found


def about() -> dict[str, Any]:
    """What the figures were measured on."""
    return {
        "platform": "gpu" if DEVICE.type == "cuda" else "cpu",
        "device": torch.cuda.get_device_name(DEVICE) if DEVICE.type == "cuda" else "1 × cpu",
        "threads": torch.get_num_threads(),
        "versions": f"torch {torch.__version__}, transformers {version('transformers')}, peft {version('peft')}",
    }


def peak_bytes() -> int | None:
    """Most memory the GPU has held for this process."""
    return torch.cuda.max_memory_allocated(DEVICE) if DEVICE.type == "cuda" else None


if __name__ == "__main__":
    warnings.filterwarnings("ignore", category=FutureWarning)  # of transformers, about itself
    serve(functools.partial(prepare, sys.argv[1]))
