"""One training step equals that of PEFT: loss, gradient norm, and every adapter after AdamW."""

import jax
import numpy as np
import pytest
import torch
from peft import LoraConfig as PeftConfig
from peft import get_peft_model
from safetensors.numpy import load_file

import jaxeval
from jaxeval.sharding import put_batch
from tests.parity.conftest import SHAPES
from tests.parity.test_convert import DECODER
from tests.parity.test_model import bucketed, make_batch
from tools.convert_weights.adapters import PEFT_CONFIG, PEFT_WEIGHTS, convert_adapter
from train.config import OptimizerConfig
from train.step import make_optimizer, make_steps

ANSWERS = 4
RATE, DECAY = 1e-3, 0.01


@pytest.mark.parametrize("shape", SHAPES)
def test_loss_gradient_and_adapters_after_one_step(pair, shape, tmp_path):
    models = pair(shape)
    batch = make_batch(models)
    reference = peft_model(models)
    reference.save_pretrained(tmp_path / "before")
    loss, norm = peft_step(reference, batch)
    reference.save_pretrained(tmp_path / "after")
    convert_adapter(tmp_path / "before", tmp_path / "ours", base=models.checkpoint)

    model, _ = jaxeval.load_model(models.checkpoint, adapter=tmp_path / "ours")
    mesh = model.lm_head.get_value().sharding.mesh
    optimizer, _ = make_optimizer(
        OptimizerConfig(learning_rate=RATE, weight_decay=DECAY, warmup_steps=0, clip_norm=1e9), 1
    )
    with jax.set_mesh(mesh):
        steps, state = make_steps(model, r".*\.lora\.lora_[ab]", optimizer, 1, mesh)
        sums = steps.accumulate(
            state.trained, steps.frozen, steps.start(), put_batch(supervised(bucketed(batch)), mesh), None
        )
        state, metrics = steps.update(state, sums)
    np.testing.assert_allclose(float(metrics["loss"]), loss, rtol=1e-4)
    np.testing.assert_allclose(float(metrics["grad_norm"]), norm, rtol=1e-4)
    compare(state.trained, tmp_path)


def peft_model(models):
    """The reference with adapters on the decoder, B not zero so that A has a gradient too."""
    torch.manual_seed(0)
    fresh = type(models.reference).from_pretrained(models.folder, dtype=torch.float32)
    config = PeftConfig(r=4, lora_alpha=8, lora_dropout=0.0, target_modules=DECODER)
    model = get_peft_model(fresh, config).train()
    with torch.no_grad():
        for name, value in model.named_parameters():
            if "lora_B" in name:
                value.normal_(std=0.1)
    return model


def peft_step(model, batch):
    """Loss and gradient norm before one AdamW step, which is taken."""
    parameters = [value for value in model.parameters() if value.requires_grad]
    optimizer = torch.optim.AdamW(parameters, lr=RATE, weight_decay=DECAY)
    labels = np.full_like(batch["input_ids"], -100)
    for row, mask in enumerate(batch["attention_mask"]):
        labels[row, mask.sum() - ANSWERS : mask.sum()] = batch["input_ids"][row, mask.sum() - ANSWERS : mask.sum()]
    tensors = {name: torch.from_numpy(value) for name, value in (batch | {"labels": labels}).items()}
    loss = model(**tensors).loss
    loss.backward()
    norm = torch.stack([value.grad.norm() for value in parameters]).norm()
    optimizer.step()
    return loss.item(), norm.item()


def supervised(batch):
    """The last tokens of every row as targets, as `train.data` lays them out."""
    ends = batch["attention_mask"].sum(-1)
    places = ends[:, None] - ANSWERS + np.arange(ANSWERS)
    return batch | {
        "target_positions": (places - 1).astype(np.int32),
        "targets": np.take_along_axis(batch["input_ids"], places, axis=1),
        "task": np.zeros(len(ends), np.int32),
    }


def compare(trained, folder):
    """Adapters after the step within 1e-4 relative L2 of PEFT's, tensor by tensor; the step itself is visible."""
    before, after = (load_file(folder / name / PEFT_WEIGHTS) for name in ("before", "after"))
    assert (folder / "after" / PEFT_CONFIG).exists()
    checked = 0
    for name, value in trained.items():
        module, _, kind = name.removeprefix("language_model.layers.").rpartition(".lora.")
        for layer, ours in enumerate(np.asarray(value)):
            key = next(k for k in after if f"layers.{layer}.{module}.lora_{kind[-1].upper()}." in k)
            assert np.linalg.norm(after[key] - before[key]) > 1e-3 * np.linalg.norm(before[key])
            assert np.linalg.norm(ours - after[key]) <= 1e-4 * np.linalg.norm(after[key])
            checked += 1
    assert checked == len(after)
