"""Checkpoints and adapters come back as they were written, and a damaged folder is one clear line."""

import json
import shutil
from pathlib import Path

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from flax import nnx

import jaxeval
from jaxeval.checkpoint import (
    LORA_VARIABLES,
    AdapterConfig,
    load_adapter,
    read_adapter_config,
    read_checkpoint_info,
    save_adapter,
    save_tree,
    trained_variables,
    variables,
)
from jaxeval.checksums import write_checksums
from jaxeval.errors import InputError
from jaxeval.models.lora import LoraConfig, add_lora
from jaxeval.sharding import make_mesh, state_shardings
from tools.convert_weights.adapters import convert_adapter
from tools.convert_weights.exporting import export_checkpoint
from tools.convert_weights.importing import import_checkpoint

BATCH = {"input_ids": np.arange(1, 9)[None], "attention_mask": np.ones((1, 8), np.int32)}


@pytest.fixture(scope="session")
def converted(tiny_checkpoint, tmp_path_factory):
    folder = tmp_path_factory.mktemp("converted") / "flax"
    import_checkpoint(tiny_checkpoint, folder)
    return folder


@pytest.fixture
def copy(converted, tmp_path):
    """A checkpoint to damage."""
    return Path(shutil.copytree(converted, tmp_path / "flax"))


def with_adapter(converted, config):
    model, _ = jaxeval.load_model(converted)
    add_lora(model, config, rngs=nnx.Rngs(0))
    for variable in trained_variables(model, LORA_VARIABLES).values():
        variable.set_value(jnp.asarray(np.random.default_rng(1).normal(0, 0.1, variable.shape), jnp.float32))
    return model


def test_every_weight_lies_on_the_mesh_where_the_rule_table_says(converted):
    mesh = make_mesh({"data": 2, "fsdp": 2, "tensor": 2})
    model, _ = jaxeval.load_model(converted, mesh=mesh)
    expected = dict(nnx.to_flat_state(state_shardings(nnx.state(model), mesh)))
    for path, variable in nnx.to_flat_state(nnx.state(model)):
        assert variable.get_value().sharding == expected[path].get_value(), path
    assert model.lm_head.get_value().sharding.spec == jax.sharding.PartitionSpec("tensor", "fsdp")


def test_weights_and_activations_take_the_dtype_asked_for(converted):
    model, _ = jaxeval.load_model(converted, dtype="bfloat16")
    assert {variable.dtype.name for variable in variables(model).values()} == {"bfloat16"}
    assert model.config.dtype == "bfloat16"


def test_the_processor_comes_along(converted):
    model, processor = jaxeval.load_model(converted)
    assert processor.ids["<|AUDIO|>"] == model.config.audio_token_id


@pytest.mark.parametrize("rslora", [False, True])
def test_an_adapter_comes_back_with_its_settings(converted, tmp_path, rslora):
    lora = LoraConfig(rank=3, alpha=5.0, dropout=0.2, targets=r"language_model\..*\.(q_proj|up_proj)", rslora=rslora)
    model = with_adapter(converted, lora)
    config = AdapterConfig(lora, base=read_checkpoint_info(converted).hash)
    save_adapter(tmp_path / "adapter", model, config)
    assert read_adapter_config(tmp_path / "adapter") == config
    again, _ = jaxeval.load_model(converted, adapter=tmp_path / "adapter")
    plain, _ = jaxeval.load_model(converted)
    np.testing.assert_array_equal(again(BATCH), model(BATCH))
    assert np.abs(again(BATCH) - plain(BATCH)).max() > 1e-4


def test_an_adapter_is_placed_on_the_mesh_of_its_base(converted, tmp_path):
    model = with_adapter(converted, LoraConfig(rank=2))
    save_adapter(tmp_path / "adapter", model, AdapterConfig(LoraConfig(rank=2)))
    mesh = make_mesh({"fsdp": 2, "tensor": 2})
    sharded, _ = jaxeval.load_model(converted, mesh=mesh, adapter=tmp_path / "adapter")
    up = sharded.language_model.layers.mlp.up_proj.lora.lora_b.get_value()
    assert up.sharding.mesh == mesh
    assert up.sharding.spec == jax.sharding.PartitionSpec(None, "tensor", None)


def test_full_tuning_saves_the_trained_weights_alone(converted, tmp_path):
    model, _ = jaxeval.load_model(converted)
    model.multi_modal_projector.weight.set_value(model.multi_modal_projector.weight.get_value() + 1)
    save_adapter(tmp_path / "tuned", model, AdapterConfig(None, r"multi_modal_projector\..*"))
    again, _ = jaxeval.load_model(converted, adapter=tmp_path / "tuned")
    for name, variable in variables(again).items():
        np.testing.assert_array_equal(variable.get_value(), variables(model)[name].get_value())


def test_saving_again_replaces_the_adapter(converted, tmp_path):
    model = with_adapter(converted, LoraConfig(rank=2))
    save_adapter(tmp_path / "adapter", model, AdapterConfig(LoraConfig(rank=2)))
    model.language_model.layers.mlp.up_proj.lora.lora_b.set_value(jnp.ones((2, 96, 2)))
    save_adapter(tmp_path / "adapter", model, AdapterConfig(LoraConfig(rank=2)))
    again, _ = jaxeval.load_model(converted, adapter=tmp_path / "adapter")
    assert (again.language_model.layers.mlp.up_proj.lora.lora_b.get_value() == 1).all()
    assert [path.name for path in tmp_path.iterdir()] == ["adapter"]


def test_an_adapter_that_cannot_be_written_leaves_the_old_one(converted, tmp_path, monkeypatch):
    model = with_adapter(converted, LoraConfig(rank=2))
    save_adapter(tmp_path / "adapter", model, AdapterConfig(LoraConfig(rank=2)))

    def fail(*args):
        raise OSError(28, "No space left on device")

    monkeypatch.setattr("jaxeval.checkpoint.write_json", fail)
    with pytest.raises(OSError, match="No space left"):
        save_adapter(tmp_path / "adapter", model, AdapterConfig(LoraConfig(rank=2)))
    assert [path.name for path in tmp_path.iterdir()] == ["adapter"]
    jaxeval.load_model(converted, adapter=tmp_path / "adapter")


def test_an_adapter_of_another_base_is_refused_with_both_hashes(converted, tmp_path):
    model = with_adapter(converted, LoraConfig(rank=2))
    save_adapter(tmp_path / "adapter", model, AdapterConfig(LoraConfig(rank=2), base="sha256:other"))
    found = read_checkpoint_info(converted).hash
    with pytest.raises(InputError, match=rf"adapter\.json: base is sha256:other, .* hash is {found}"):
        jaxeval.load_model(converted, adapter=tmp_path / "adapter")


def test_an_adapter_of_other_shapes_or_without_weights_is_refused(converted, tmp_path):
    model = with_adapter(converted, LoraConfig(rank=2))
    save_adapter(tmp_path / "adapter", model, AdapterConfig(LoraConfig(rank=2)))
    file = tmp_path / "adapter" / "adapter.json"
    content = json.loads(file.read_text())
    file.write_text(json.dumps(content | {"lora": content["lora"] | {"rank": 4}}))
    with pytest.raises(InputError, match=r"lora_a has shape .* expected"):
        jaxeval.load_model(converted, adapter=tmp_path / "adapter")
    file.write_text(json.dumps(content | {"lora": content["lora"] | {"ranks": 4}}))
    with pytest.raises(InputError, match=r"adapter\.json: lora: .*ranks"):
        jaxeval.load_model(converted, adapter=tmp_path / "adapter")
    file.write_text(json.dumps(content))
    shutil.rmtree(tmp_path / "adapter" / "params")
    with pytest.raises(InputError, match=r"checksums\.json: names 'params/.*', which is not there"):
        jaxeval.load_model(converted, adapter=tmp_path / "adapter")
    with pytest.raises(InputError, match=r"adapter\.json: no such file"):
        jaxeval.load_model(converted, adapter=tmp_path)


@pytest.mark.parametrize("trained", ["nothing", "*"])
def test_an_expression_that_trains_nothing_is_refused(converted, trained):
    model, _ = jaxeval.load_model(converted)
    with pytest.raises(InputError, match=r"trained: "):
        trained_variables(model, trained)


@pytest.mark.parametrize(
    ("missing", "message"),
    [
        ("config.json", r"config\.json: no such file"),
        ("tokenizer.json", r"flax: no tokenizer"),
        ("checkpoint.json", r"flax: checkpoint\.json is missing \(not a converted checkpoint, or half of one\)"),
        ("params", r"checksums\.json: names 'params/.*', which is not there; the folder is incomplete"),
        ("params/_METADATA", r"checksums\.json: names 'params/_METADATA', which is not there"),
        ("params/lm_head/0.0", r"checksums\.json: names 'params/lm_head/0\.0', which is not there"),
        ("checksums.json", r"checksums\.json: no such file"),
    ],
)
def test_a_folder_that_lacks_something_is_refused_in_one_line(copy, missing, message):
    path = copy / missing
    shutil.rmtree(path) if path.is_dir() else path.unlink()
    with pytest.raises(InputError, match=message) as caught:
        jaxeval.load_model(copy)
    assert "\n" not in str(caught.value)


def spoil(file):
    """Change one bit in the middle."""
    content = bytearray(file.read_bytes())
    content[len(content) // 2] ^= 1
    file.write_bytes(content)


@pytest.mark.parametrize("damage", [spoil, lambda file: file.write_bytes(file.read_bytes()[:-1])])
def test_damaged_weights_are_never_used(copy, tmp_path, damage, capfd):
    damage(copy / "params" / "lm_head" / "0.0")
    with pytest.raises(InputError, match=r"lm_head/0\.0: damaged"):
        jaxeval.load_model(copy)
    with pytest.raises(InputError, match=r"lm_head/0\.0: damaged"):
        export_checkpoint(copy, tmp_path / "hf")
    assert capfd.readouterr().err == ""  # Orbax has not come to see it


@pytest.mark.parametrize("name", ["../outside", "/dev/zero", "a\0b", "x" * 5000])
def test_checksums_of_files_that_are_not_there_are_never_opened(copy, name):
    content = json.loads((copy / "checksums.json").read_text())
    (copy / "checksums.json").write_text(json.dumps(content | {name: "00000000"}))
    with pytest.raises(InputError, match=r"checksums\.json: names .*, which is not there"):
        jaxeval.load_model(copy)


def test_checksums_that_leave_a_file_out_check_nothing_and_are_refused(copy):
    (copy / "checksums.json").write_text("{}")
    with pytest.raises(InputError, match=r"checksums\.json: does not know params/"):
        jaxeval.load_model(copy)


def test_weights_of_another_dtype_than_stated_are_refused(copy, tmp_path):
    info = json.loads((copy / "checkpoint.json").read_text())
    (copy / "checkpoint.json").write_text(json.dumps(info | {"dtype": "bfloat16"}))
    for use in (lambda: jaxeval.load_model(copy), lambda: export_checkpoint(copy, tmp_path / "hf")):
        with pytest.raises(InputError, match="is float32, expected bfloat16"):
            use()


def test_a_damaged_adapter_is_never_used(converted, tmp_path):
    save_adapter(tmp_path / "ours", with_adapter(converted, LoraConfig(rank=2)), AdapterConfig(LoraConfig(rank=2)))
    spoil(max((tmp_path / "ours" / "params").rglob("*"), key=lambda file: file.stat().st_size * file.is_file()))
    for use in (
        lambda: jaxeval.load_model(converted, adapter=tmp_path / "ours"),
        lambda: export_checkpoint(converted, tmp_path / "hf", adapter=tmp_path / "ours"),
        lambda: convert_adapter(tmp_path / "ours", tmp_path / "peft"),
    ):
        with pytest.raises(InputError, match="damaged"):
            use()


@pytest.mark.parametrize(
    ("file", "content", "message"),
    [
        ("adapter.json", {"lora": {"rank": "x"}}, "lora: rank is 'x', expected a whole number"),
        ("adapter.json", {"lora": {"rank": 0}}, "lora: rank is 0, expected at least 1"),
        ("adapter.json", {"lora": {"rank": "2"}}, "lora: rank is '2', expected a whole number"),
        ("adapter.json", {"lora": None, "trained": "("}, r"trained: '\(' is no regular expression"),
        ("adapter.json", {"lora": {"targets": "("}}, r"lora: targets: '\(' is no regular expression"),
        ("adapter.json", {"lora": 3}, "lora is 3, expected an object"),
        ("adapter.json", {}, "the field 'lora' is missing"),
        ("adapter.json", {"lora": None, "base": 7}, "base is 7, expected text"),
        ("adapter.json", {"lora": {"alpha": 10**400}}, "lora: alpha is inf, expected a finite number"),
        ("checkpoint.json", {"hash": "h", "dtype": "int8"}, "dtype is 'int8', expected one of float32"),
        ("checkpoint.json", {"hash": "h", "dtype": "float32", "more": 1}, "unknown field 'more'"),
    ],
)
def test_settings_of_a_wrong_type_are_named(tmp_path, file, content, message):
    (tmp_path / file).write_text(json.dumps(content))
    read = read_adapter_config if file == "adapter.json" else read_checkpoint_info
    with pytest.raises(InputError, match=f"{file}: {message}"):
        read(tmp_path)


def test_cudnn_attention_is_refused_where_there_is_no_gpu(converted):
    with pytest.raises(InputError, match="attention: cudnn needs a GPU and bfloat16 or float16, this is cpu"):
        jaxeval.load_model(converted, attention="cudnn")


def test_what_is_no_checkpoint_at_all_is_told_apart(tiny_checkpoint, tmp_path):
    with pytest.raises(InputError, match=r"convert it first: python -m tools.convert_weights import"):
        jaxeval.load_model(tiny_checkpoint)
    with pytest.raises(InputError, match="no such folder"):
        jaxeval.load_model(tmp_path / "nowhere")
    with pytest.raises(InputError, match="not a converted checkpoint"):
        jaxeval.load_model(tmp_path)


def test_weights_that_do_not_fit_the_config_are_named(copy):
    config = json.loads((copy / "config.json").read_text())
    config["text_config"]["num_hidden_layers"] = 3
    (copy / "config.json").write_text(json.dumps(config))
    with pytest.raises(InputError, match=r"has shape \(2, 48\), expected \(3, 48\).* and \d+ more problems"):
        jaxeval.load_model(copy)


def test_missing_and_unexpected_weights_are_named(copy):
    model, _ = jaxeval.load_model(copy)
    values = {name: variable.get_value() for name, variable in variables(model).items()}
    values["lm_tail"] = values.pop("lm_head")
    shutil.rmtree(copy / "params")
    save_tree(copy / "params", values)
    write_checksums(copy, "params")
    with pytest.raises(InputError, match="lm_head is missing; lm_tail is unexpected"):
        jaxeval.load_model(copy)


def test_a_model_that_has_its_adapter_already_can_be_given_the_saved_one(converted, tmp_path):
    model = with_adapter(converted, LoraConfig(rank=2))
    config = AdapterConfig(LoraConfig(rank=2))
    save_adapter(tmp_path / "adapter", model, config)
    before = np.asarray(model(BATCH))
    for variable in trained_variables(model, LORA_VARIABLES).values():
        variable.set_value(variable.get_value() * 0)
    assert load_adapter(tmp_path / "adapter", model) == config
    np.testing.assert_array_equal(model(BATCH), before)
