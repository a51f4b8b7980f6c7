"""What we export computes in transformers and PEFT what it computes here, and the other way round."""

import json

import jax.numpy as jnp
import numpy as np
import pytest
import torch
from flax import nnx
from peft import LoraConfig as PeftConfig
from peft import PeftModel, get_peft_model
from safetensors.numpy import load_file, save_file
from transformers import AutoProcessor, Qwen2AudioForConditionalGeneration

import jaxeval
from jaxeval.checkpoint import AdapterConfig, load_adapter, read_checkpoint_info, save_adapter, variables
from jaxeval.models.lora import LoraConfig, add_lora
from tests.parity.test_model import TOLERANCE, make_batch
from tools.convert_weights.adapters import PEFT_CONFIG, PEFT_WEIGHTS, convert_adapter
from tools.convert_weights.exporting import export_checkpoint

DECODER = r".*language_model.*\.(q_proj|k_proj|v_proj|o_proj|gate_proj|up_proj|down_proj)"
EVERYWHERE = r".*\.(q_proj|v_proj|out_proj|fc1|linear|down_proj)"  # encoder, projector and decoder
ATTENTION = r".*language_model.*\.(q_proj|v_proj)"


def reload(folder):
    return Qwen2AudioForConditionalGeneration.from_pretrained(folder, dtype="auto").eval()


def peft_adapter(base, folder, *, targets=DECODER, rslora=False):
    """A PEFT adapter that does something, saved; returns the model with it."""
    torch.manual_seed(0)
    config = PeftConfig(r=4, lora_alpha=12, lora_dropout=0.1, target_modules=targets, use_rslora=rslora)
    model = get_peft_model(reload(base), config).eval()
    with torch.no_grad():
        for name, value in model.named_parameters():
            if "lora_B" in name:
                value.normal_(std=0.2)
    model.save_pretrained(folder)
    return model


def torch_logits(model, batch):
    with torch.no_grad():
        return model(**{name: torch.from_numpy(value) for name, value in batch.items()}).logits.numpy()


def check_logits(pair, model, reference):
    batch = make_batch(pair)
    valid = batch["attention_mask"] == 1
    expected = torch_logits(reference, batch)[valid]
    plain = torch_logits(pair.reference, batch)[valid]
    assert np.abs(expected - plain).max() > 100 * TOLERANCE  # the adapter does something
    np.testing.assert_allclose(np.asarray(model(batch))[valid], expected, rtol=0, atol=TOLERANCE)


@pytest.mark.parametrize("shape", ["grouped", "multi-query"])
@pytest.mark.parametrize("shard_bytes", [10**9, 10**5])
def test_an_exported_checkpoint_reloads_bit_exactly(pair, shape, shard_bytes, tmp_path):
    both = pair(shape)
    export_checkpoint(both.checkpoint, tmp_path / "hf", shard_bytes=shard_bytes)
    assert (len(list((tmp_path / "hf").glob("*.safetensors"))) > 1) == (shard_bytes < 10**6)
    exported, expected = reload(tmp_path / "hf").state_dict(), both.reference.state_dict()
    assert exported.keys() == expected.keys()
    for name, value in expected.items():
        assert torch.equal(exported[name], value), name
    assert type(AutoProcessor.from_pretrained(tmp_path / "hf")).__name__ == "Qwen2AudioProcessor"


@pytest.mark.parametrize(
    ("targets", "rslora"), [(DECODER, False), (DECODER, True), (EVERYWHERE, False), (ATTENTION, False)]
)
def test_a_peft_adapter_computes_the_same_here_and_goes_back_unchanged(pair, targets, rslora, tmp_path):
    both = pair("grouped")
    reference = peft_adapter(both.folder, tmp_path / "peft", targets=targets, rslora=rslora)
    convert_adapter(tmp_path / "peft", tmp_path / "ours", base=both.checkpoint)
    model, _ = jaxeval.load_model(both.checkpoint, adapter=tmp_path / "ours")
    check_logits(both, model, reference)
    convert_adapter(tmp_path / "ours", tmp_path / "back")
    back = PeftModel.from_pretrained(reload(both.folder), tmp_path / "back").eval()
    expected = dict(reference.named_parameters())
    lora = {name: value for name, value in back.named_parameters() if "lora_" in name}
    assert lora.keys() == {name for name in expected if "lora_" in name}
    for name, value in lora.items():
        assert torch.equal(value, expected[name]), name
    batch = make_batch(both)
    np.testing.assert_array_equal(torch_logits(back, batch), torch_logits(reference, batch))


def test_both_generations_of_peft_names_mean_the_same(pair, tmp_path):
    both = pair("grouped")
    reference = peft_adapter(both.folder, tmp_path / "one")
    (tmp_path / "two").mkdir()
    (tmp_path / "two" / PEFT_CONFIG).write_bytes((tmp_path / "one" / PEFT_CONFIG).read_bytes())
    old, new = "base_model.model.language_model.model.", "base_model.model.model.language_model."
    tensors = load_file(tmp_path / "one" / PEFT_WEIGHTS)
    saved_old = all(name.startswith(old) for name in tensors)
    before, after = (old, new) if saved_old else (new, old)
    assert all(name.startswith(before) for name in tensors)
    save_file({name.replace(before, after): value for name, value in tensors.items()}, tmp_path / "two" / PEFT_WEIGHTS)
    for name in ("one", "two"):
        convert_adapter(tmp_path / name, tmp_path / f"{name}-ours", base=both.checkpoint)
        model, _ = jaxeval.load_model(both.checkpoint, adapter=tmp_path / f"{name}-ours")
        check_logits(both, model, reference)


def test_our_adapter_computes_the_same_in_peft_under_its_old_names(pair, tmp_path):
    both = pair("grouped")
    model, _ = jaxeval.load_model(both.checkpoint)
    config = LoraConfig(rank=3, alpha=6.0)
    add_lora(model, config, rngs=nnx.Rngs(0))
    for name, variable in variables(model).items():
        if name.endswith("lora_b"):
            noise = np.random.default_rng(len(name)).normal(0, 0.2, variable.shape)
            variable.set_value(jnp.asarray(noise, jnp.float32))
    save_adapter(tmp_path / "ours", model, AdapterConfig(config, base=read_checkpoint_info(both.checkpoint).hash))
    convert_adapter(tmp_path / "ours", tmp_path / "peft", base=both.checkpoint)
    names = load_file(tmp_path / "peft" / PEFT_WEIGHTS)
    assert "base_model.model.language_model.model.layers.1.self_attn.q_proj.lora_A.weight" in names
    check_logits(both, model, PeftModel.from_pretrained(reload(both.folder), tmp_path / "peft").eval())
    mixin = reload(both.folder)
    mixin.load_adapter(str(tmp_path / "peft"))
    check_logits(both, model, mixin)


@pytest.mark.parametrize("rslora", [False, True])
def test_a_merged_export_equals_what_peft_merges(pair, rslora, tmp_path):
    both = pair("grouped")
    reference = peft_adapter(both.folder, tmp_path / "peft", targets=EVERYWHERE, rslora=rslora)
    convert_adapter(tmp_path / "peft", tmp_path / "ours", base=both.checkpoint)
    export_checkpoint(both.checkpoint, tmp_path / "hf", adapter=tmp_path / "ours")
    exported, merged = reload(tmp_path / "hf").state_dict(), reference.merge_and_unload().state_dict()
    assert exported.keys() == merged.keys()
    for name, value in merged.items():
        torch.testing.assert_close(exported[name], value, rtol=0, atol=1e-6)


def test_fully_tuned_weights_are_exported_in_place_of_those_of_the_base(pair, tmp_path):
    both = pair("grouped")
    model, _ = jaxeval.load_model(both.checkpoint)
    tuned = r"multi_modal_projector\..*|language_model\.layers\.mlp\..*"
    for name, variable in variables(model).items():
        if name.startswith(("multi_modal_projector", "language_model.layers.mlp")):
            variable.set_value(variable.get_value() * 1.5)
    save_adapter(tmp_path / "tuned", model, AdapterConfig(None, tuned, read_checkpoint_info(both.checkpoint).hash))
    again, _ = jaxeval.load_model(both.checkpoint)
    load_adapter(tmp_path / "tuned", again)
    export_checkpoint(both.checkpoint, tmp_path / "hf", adapter=tmp_path / "tuned")
    check_logits(both, again, reload(tmp_path / "hf"))


def test_a_checkpoint_cast_on_import_reloads_as_what_it_became(pair, tmp_path):
    from tools.convert_weights.importing import import_checkpoint

    both = pair("grouped")
    import_checkpoint(both.folder, tmp_path / "flax", dtype="bfloat16")
    export_checkpoint(tmp_path / "flax", tmp_path / "hf")
    assert json.loads((tmp_path / "flax" / "config.json").read_text())["torch_dtype"] == "float32"
    for name, value in reload(tmp_path / "hf").state_dict().items():
        assert torch.equal(value, both.reference.state_dict()[name].to(torch.bfloat16)), name
