"""What the converter takes, what it refuses and how, and what is left on the disk when it is stopped."""

import json
import shutil
import signal
import subprocess
import sys
import time
from pathlib import Path

import ml_dtypes
import numpy as np
import orbax.checkpoint as ocp
import pytest
from flax import nnx
from jax.sharding import Mesh
from safetensors.numpy import load_file, save_file

import jaxeval
from jaxeval.checkpoint import AdapterConfig, read_checkpoint_info, save_adapter, variables
from jaxeval.errors import InputError
from jaxeval.models.lora import DECODER_LINEARS, LoraConfig, add_lora, merge_lora
from jaxeval.sharding import make_mesh
from tools.convert_weights.__main__ import main
from tools.convert_weights.adapters import PEFT_CONFIG, PEFT_WEIGHTS, convert_adapter
from tools.convert_weights.exporting import export_checkpoint
from tools.convert_weights.importing import import_checkpoint
from tools.convert_weights.keys import Place, from_hf, from_peft, peft_targets, to_hf, to_peft
from tools.synthetic_checkpoint import Layout, Preset, make_checkpoint

LAYER_0 = "language_model.model.layers.0.self_attn.q_proj.weight"


@pytest.fixture
def folder(tiny_checkpoint, tmp_path):
    """A Hugging Face folder to damage."""
    return Path(shutil.copytree(tiny_checkpoint, tmp_path / "hf"))


def change(folder, **changes):
    """Rewrite the folder's tensors; None removes one."""
    tensors = load_file(folder / "model.safetensors") | changes
    kept = {name: value for name, value in tensors.items() if value is not None}
    save_file(kept, folder / "model.safetensors", {"format": "pt"})


def problems_of(folder, tmp_path, **options):
    """The problems an import lists; nothing may be written."""
    with pytest.raises(InputError) as caught:
        import_checkpoint(folder, tmp_path / "flax", **options)
    assert [path.name for path in tmp_path.iterdir()] == ["hf"]
    return list(caught.value.problems) or [str(caught.value)]


@pytest.mark.parametrize(
    ("key", "place"),
    [
        (LAYER_0, Place("language_model.layers.self_attn.q_proj.weight", 0)),
        ("model.language_model.layers.31.mlp.up_proj.weight", Place("language_model.layers.mlp.up_proj.weight", 31)),
        ("language_model.layers.2.input_layernorm.weight", Place("language_model.layers.input_layernorm.weight", 2)),
        ("language_model.lm_head.weight", Place("lm_head", None)),
        ("lm_head.weight", Place("lm_head", None)),
        ("model.audio_tower.embed_positions.weight", Place("audio_tower.embed_positions", None)),
        ("multi_modal_projector.linear.bias", Place("multi_modal_projector.bias", None)),
        ("vision_tower.conv1.weight", None),
    ],
)
def test_keys_of_every_layout_have_one_place(key, place):
    assert from_hf(key) == place


def test_hub_keys_come_back_from_their_places(tiny_checkpoint):
    keys = list(load_file(tiny_checkpoint / "model.safetensors"))
    places = [from_hf(key) for key in keys]
    assert [place and to_hf(place) for place in places] == keys


def test_the_content_hash_does_not_depend_on_layout_shards_or_mesh(tmp_path):
    hashes = set()
    ways: list[tuple[Layout, int, Mesh | None]]
    ways = [("hub", 1, None), ("in_memory", 3, None), ("mixed", 2, make_mesh({"fsdp": 4}))]
    for layout, shards, mesh in ways:
        make_checkpoint(tmp_path / layout, texts=["Rain."], layout=layout, shards=shards)
        import_checkpoint(tmp_path / layout, tmp_path / f"{layout}-flax", mesh=mesh)
        hashes.add(read_checkpoint_info(tmp_path / f"{layout}-flax").hash)
    assert len(hashes) == 1


def test_plain_orbax_reads_the_stacked_weights(folder, tmp_path):
    import_checkpoint(folder, tmp_path / "flax")
    with ocp.PyTreeCheckpointer() as checkpointer:
        tree = checkpointer.restore(tmp_path / "flax" / "params")
    with ocp.StandardCheckpointer() as checkpointer:
        again = checkpointer.restore(tmp_path / "flax" / "params")
    source = load_file(folder / "model.safetensors")
    for name in ("self_attn.q_proj", "mlp.down_proj"):
        expected = np.stack([source[f"language_model.model.layers.{layer}.{name}.weight"] for layer in range(2)])
        for loaded in (tree, again):
            module = loaded["language_model"]["layers"]
            for part in name.split("."):
                module = module[part]
            np.testing.assert_array_equal(module["weight"], expected)
    np.testing.assert_array_equal(tree["lm_head"], source["language_model.lm_head.weight"])


def test_what_comes_with_the_weights_is_copied_verbatim(folder, tmp_path):
    import_checkpoint(folder, tmp_path / "flax")
    for name in ("config.json", "tokenizer.json", "generation_config.json", "preprocessor_config.json"):
        assert (tmp_path / "flax" / name).read_bytes() == (folder / name).read_bytes()


def test_an_export_gives_back_every_byte(folder, tmp_path):
    import_checkpoint(folder, tmp_path / "flax")
    export_checkpoint(tmp_path / "flax", tmp_path / "back")
    expected, found = load_file(folder / "model.safetensors"), load_file(tmp_path / "back" / "model.safetensors")
    assert found.keys() == expected.keys()
    for name, value in expected.items():
        np.testing.assert_array_equal(found[name], value)
    import_checkpoint(tmp_path / "back", tmp_path / "again")
    assert read_checkpoint_info(tmp_path / "again") == read_checkpoint_info(tmp_path / "flax")


@pytest.mark.parametrize("source", ["float16", "bfloat16"])
@pytest.mark.parametrize("target", [None, "float32", "bfloat16"])
def test_half_precision_is_kept_or_cast_as_asked(folder, tmp_path, source, target):
    tensors = {name: value.astype(source) for name, value in load_file(folder / "model.safetensors").items()}
    change(folder, **tensors)
    import_checkpoint(folder, tmp_path / "flax", dtype=target)
    model, _ = jaxeval.load_model(tmp_path / "flax")
    loaded = model.lm_head.get_value()
    assert loaded.dtype == (target or source)
    np.testing.assert_array_equal(loaded, tensors["language_model.lm_head.weight"].astype(target or source))


@pytest.mark.parametrize(
    ("kept", "value", "target"),
    [("float32", 1e6, "float16"), ("float32", 3.4e38, "bfloat16"), ("bfloat16", 1e30, "float16")],
)
def test_values_too_large_for_a_dtype_are_refused(folder, tmp_path, kept, value, target):
    tensors = {name: array.astype(kept) for name, array in load_file(folder / "model.safetensors").items()}
    change(folder, **tensors | {LAYER_0: np.full((48, 48), value, np.float32).astype(kept)})
    assert f"too large for {target}" in problems_of(folder, tmp_path, dtype=target)[0]


def header(folder, edit):
    """Change the text of the header of the folder's safetensors file."""
    file = folder / "model.safetensors"
    content = file.read_bytes()
    size = int.from_bytes(content[:8], "little")
    text = edit(content[8 : 8 + size].decode().rstrip()).encode()
    file.write_bytes(len(text).to_bytes(8, "little") + text + content[8 + size :])


@pytest.mark.parametrize(
    "edit",
    [
        lambda text: text[:-1] + ',"more":' + json.dumps(json.loads(text)["audio_tower.conv1.bias"]) + "}",
        lambda text: text[:-1] + "," + text[1:],
        lambda text: text.replace('"shape":[48,', '"shape":[48.0,', 1),
        lambda text: '{"a":' * 100_000,
    ],
    ids=["overlap", "twice", "fraction", "depth"],
)
def test_a_header_that_contradicts_itself_is_refused(folder, tmp_path, edit):
    header(folder, edit)
    assert "the safetensors header is damaged" in problems_of(folder, tmp_path)[0]


@pytest.mark.parametrize("value", [5, ["b"], "../hf/model.safetensors"])
def test_an_index_that_names_no_file_of_the_folder_is_refused(folder, tmp_path, value):
    (folder / "model.safetensors").rename(folder / "weights")
    (folder / "model.safetensors.index.json").write_text(json.dumps({"weight_map": {"a": value, "b": "x"}}))
    assert "weight_map must name a file of the folder" in problems_of(folder, tmp_path)[0]


@pytest.mark.parametrize("dtype", [None, "bfloat16"])
def test_a_mesh_gets_the_same_weights(folder, tmp_path, dtype):
    import_checkpoint(folder, tmp_path / "plain", dtype=dtype)
    import_checkpoint(folder, tmp_path / "mesh", dtype=dtype, mesh=make_mesh({"data": 2, "fsdp": 2, "tensor": 2}))
    model, _ = jaxeval.load_model(tmp_path / "plain", mesh=make_mesh({"fsdp": 4}))
    other, _ = jaxeval.load_model(tmp_path / "mesh")
    for name, variable in variables(model).items():
        np.testing.assert_array_equal(variable.get_value(), variables(other)[name].get_value())


def test_every_problem_is_listed_and_nothing_is_written(folder, tmp_path):
    change(
        folder,
        **{
            "language_model.lm_head.weight": None,
            LAYER_0: np.zeros((48, 47), np.float32),
            "model.audio_tower.layer_norm.bias": np.zeros(32, np.float32),  # again, under another layout's name
            "rotary.inv_freq": np.zeros(4, np.float32),
            "language_model.model.layers.7.mlp.up_proj.weight": np.zeros((96, 48), np.float32),
            "language_model.model.norm.weight": np.zeros(48, np.int8),
            "multi_modal_projector.linear.bias": np.zeros(48, ml_dtypes.bfloat16),
        },
    )
    assert problems_of(folder, tmp_path) == [
        "dtype: language_model.model.norm.weight is I8, expected one of F32, F16, BF16",
        "dtype: multi_modal_projector.linear.bias is BF16, most are F32; --dtype casts them all",
        "missing: language_model.lm_head.weight [512, 48]",
        f"shape: {LAYER_0} is [48, 47], expected [48, 48]",
        "twice: audio_tower.layer_norm.bias in model.safetensors and model.audio_tower.layer_norm.bias "
        "in model.safetensors are the same weight",
        "unexpected: language_model.model.layers.7.mlp.up_proj.weight in model.safetensors",
        "unexpected: rotary.inv_freq in model.safetensors",
    ]


def test_the_command_line_prints_one_problem_a_line_and_exits_with_2(folder, tmp_path, capsys):
    change(folder, **{"language_model.lm_head.weight": None, LAYER_0: None})
    assert main(["import", str(folder), str(tmp_path / "flax")]) == 2
    lines = capsys.readouterr().err.splitlines()
    assert lines[0] == f"error: {folder}: the weights do not fit config.json, 2 problems:"
    assert lines[1:] == ["  missing: language_model.lm_head.weight [512, 48]", f"  missing: {LAYER_0} [48, 48]"]


def test_a_tensor_in_two_shards_is_refused(tmp_path):
    folder = make_checkpoint(tmp_path / "hf", texts=["Rain."], shards=2)
    first, second = (folder / f"model-{number:05}-of-00002.safetensors" for number in (1, 2))
    name, value = next(iter(load_file(first).items()))
    save_file(load_file(second) | {name: value}, second)
    assert problems_of(folder, tmp_path) == [
        f"twice: {name} in {first.name} and {name} in {second.name} are the same weight"
    ]


def test_files_that_are_cut_short_missing_or_no_safetensors_are_named(tmp_path):
    folder = make_checkpoint(tmp_path / "hf", texts=["Rain."], shards=2)
    shard = folder / "model-00002-of-00002.safetensors"
    content = shard.read_bytes()
    shard.write_bytes(content[:-1])
    assert f"{shard}: cut short: {len(content) - 1} bytes, where its header says {len(content)}" in problems_of(
        folder, tmp_path
    )
    shard.write_bytes(content[:100])
    assert "cut short inside of its header" in problems_of(folder, tmp_path)[0]
    shard.write_bytes((20).to_bytes(8, "little") + b"{not json and padded")
    assert f"{shard}: the safetensors header is damaged" in problems_of(folder, tmp_path)[0]
    shard.unlink()
    assert f"{shard}: no such file" in problems_of(folder, tmp_path)
    (folder / "model.safetensors.index.json").unlink()
    assert "neither model.safetensors nor model.safetensors.index.json" in problems_of(folder, tmp_path)[0]


@pytest.mark.parametrize("name", ["tokenizer.json", "config.json"])
def test_a_folder_without_tokenizer_or_config_is_refused_before_any_work(folder, tmp_path, name):
    (folder / name).unlink()
    assert str(folder) in problems_of(folder, tmp_path)[0]


@pytest.mark.parametrize(
    ("name", "content", "message"),
    [
        ("tokenizer.json", "{}", "tokenizer.json: no tokenizer"),
        ("tokenizer.json", "{", "tokenizer.json: not JSON"),
        ("tokenizer_config.json", "[]", "tokenizer_config.json: expected a JSON object"),
        ("generation_config.json", "", "generation_config.json: not JSON"),
    ],
)
def test_a_damaged_file_beside_the_weights_is_refused_before_any_work(folder, tmp_path, name, content, message):
    (folder / name).write_text(content)
    assert message in problems_of(folder, tmp_path)[0]


def test_a_finished_target_is_left_alone_and_another_is_refused(folder, tmp_path):
    import_checkpoint(folder, tmp_path / "flax")
    before = (tmp_path / "flax").stat().st_ino
    assert "holds this conversion already" in import_checkpoint(folder, tmp_path / "flax")
    assert (tmp_path / "flax").stat().st_ino == before
    with pytest.raises(InputError, match="holds other weights"):
        import_checkpoint(folder, tmp_path / "flax", dtype="bfloat16")
    with pytest.raises(InputError, match="holds something else"):
        import_checkpoint(folder, folder)
    with pytest.raises(InputError, match="is there already"):
        export_checkpoint(tmp_path / "flax", folder)


def test_a_finished_target_that_was_damaged_or_changed_is_not_called_finished(folder, tmp_path):
    def changed(name, change):
        target = tmp_path / name
        import_checkpoint(folder, target)
        change(target)
        with pytest.raises(InputError) as caught:
            import_checkpoint(folder, target)
        return str(caught.value)

    assert "which is not there" in changed("a", lambda target: shutil.rmtree(target / "params"))
    assert "damaged" in changed("b", lambda target: (target / "params" / "lm_head" / "0.0").write_bytes(b"no"))
    assert "tokenizer.json: differs from" in changed("c", lambda target: (target / "tokenizer.json").unlink())
    assert "config.json: differs from" in changed("d", lambda target: (target / "config.json").write_text("{}"))


def test_of_two_imports_at_once_one_wins(folder, tmp_path):
    command = [sys.executable, "-m", "tools.convert_weights", "import", str(folder), str(tmp_path / "flax")]
    root = Path(__file__).resolve().parents[2]
    runs = [subprocess.Popen(command, stderr=subprocess.PIPE, text=True, cwd=root) for _ in range(3)]
    outputs = [run.communicate(timeout=120)[1] for run in runs]
    assert min(run.returncode for run in runs) == 0
    for run, output in zip(runs, outputs, strict=True):
        assert run.returncode == 0 or "another process is writing here" in output, output
    jaxeval.load_model(tmp_path / "flax")
    assert sorted(path.name for path in tmp_path.iterdir()) == ["flax", "hf"]


def test_the_current_folder_is_not_a_target(folder, tmp_path, monkeypatch):
    import_checkpoint(folder, tmp_path / "flax")
    (tmp_path / "empty").mkdir()
    monkeypatch.chdir(tmp_path / "empty")
    for convert in (lambda: import_checkpoint(folder, Path()), lambda: export_checkpoint(tmp_path / "flax", Path())):
        with pytest.raises(InputError, match="the current folder cannot be made anew"):
            convert()


LARGER = Preset(256, 8, 4, 1024, dim=512, layers=16, heads=8, kv_heads=8, ffn=2048, vocab=2048)


@pytest.mark.parametrize("stop", [signal.SIGKILL, signal.SIGINT])
def test_an_import_that_is_stopped_leaves_no_checkpoint_and_the_next_one_cleans_up(tmp_path, stop):
    folder = make_checkpoint(tmp_path / "hf", preset=LARGER, texts=["Rain."])
    command = [sys.executable, "-m", "tools.convert_weights", "import", str(folder), str(tmp_path / "flax")]
    inherited = signal.signal(signal.SIGINT, signal.default_int_handler)  # a shell's background jobs ignore it
    process = subprocess.Popen(command, stderr=subprocess.PIPE, cwd=Path(__file__).resolve().parents[2])
    signal.signal(signal.SIGINT, inherited)
    partial = tmp_path / ".flax.partial"
    deadline = time.monotonic() + 60
    while not (partial.exists() and any(partial.iterdir())):  # from here on it writes
        assert process.poll() is None and time.monotonic() < deadline
        time.sleep(0.001)
    process.send_signal(stop)
    process.communicate(timeout=60)
    assert process.returncode == (130 if stop == signal.SIGINT else -signal.SIGKILL)
    assert not (tmp_path / "flax").exists()
    assert partial.exists() == (stop == signal.SIGKILL)
    import_checkpoint(folder, tmp_path / "flax")
    assert sorted(path.name for path in tmp_path.iterdir()) == ["flax", "hf"]
    jaxeval.load_model(tmp_path / "flax")


@pytest.mark.parametrize("command", ["import", "export"])
def test_a_disk_that_fills_up_fails_in_one_line_and_leaves_nothing(folder, tmp_path, command):
    source, target = folder, tmp_path / "out"
    if command == "export":
        source = tmp_path / "flax"
        import_checkpoint(folder, source)
    before = sorted(path.name for path in tmp_path.iterdir())
    # No file may grow over 64 kB: every write beyond fails, as it does on a full disk.
    code = (
        "import resource, signal, sys; signal.signal(signal.SIGXFSZ, signal.SIG_IGN);"
        "resource.setrlimit(resource.RLIMIT_FSIZE, (1 << 16, 1 << 16));"
        "from tools.convert_weights.__main__ import main; sys.exit(main(sys.argv[1:]))"
    )
    result = subprocess.run(
        [sys.executable, "-c", code, command, str(source), str(target)],
        capture_output=True,
        text=True,
        cwd=Path(__file__).resolve().parents[2],
    )
    assert result.returncode == 1, result.stderr
    assert any(line.startswith("failed: ") for line in result.stderr.splitlines()), result.stderr
    assert "Traceback" not in result.stderr
    assert sorted(path.name for path in tmp_path.iterdir()) == before


def write_peft(folder, tensors, **options):
    folder.mkdir()
    save_file(tensors, folder / PEFT_WEIGHTS, {"format": "pt"})
    config = {"peft_type": "LORA", "r": 2, "lora_alpha": 8, "bias": "none", "modules_to_save": None} | options
    (folder / PEFT_CONFIG).write_text(json.dumps(config))
    return folder


def lora_tensors(prefix="base_model.model.language_model.model.layers", modules=("q_proj",), layers=2):
    rng = np.random.default_rng(0)
    return {
        f"{prefix}.{layer}.self_attn.{module}.lora_{ab}.weight": rng.normal(size=shape).astype(np.float32)
        for layer in range(layers)
        for module in modules
        for ab, shape in (("A", (2, 48)), ("B", (48, 2)))
    }


@pytest.mark.parametrize("prefix", ["language_model.model", "model.language_model"])
def test_a_peft_adapter_goes_there_and_back_under_both_generations_of_names(tmp_path, prefix):
    tensors = lora_tensors(f"base_model.model.{prefix}.layers", modules=("q_proj", "o_proj"))
    convert_adapter(write_peft(tmp_path / "peft", tensors, use_rslora=True, lora_dropout=0.1), tmp_path / "ours")
    adapter = json.loads((tmp_path / "ours" / "adapter.json").read_text())
    targets = r"language_model\.layers\.self_attn\.o_proj|language_model\.layers\.self_attn\.q_proj"
    assert adapter["lora"] == {"rank": 2, "alpha": 8.0, "dropout": 0.1, "targets": targets, "rslora": True}
    convert_adapter(tmp_path / "ours", tmp_path / "back")
    back = load_file(tmp_path / "back" / PEFT_WEIGHTS)
    old = {name.replace(prefix, "language_model.model"): value for name, value in tensors.items()}
    assert back.keys() == old.keys()
    for name, value in old.items():
        np.testing.assert_array_equal(back[name], value)


def test_the_usual_targets_are_recognised(folder, tmp_path):
    import_checkpoint(folder, tmp_path / "flax")
    model, _ = jaxeval.load_model(tmp_path / "flax")
    add_lora(model, LoraConfig(rank=2), rngs=nnx.Rngs(0))
    save_adapter(tmp_path / "ours", model, AdapterConfig(LoraConfig(rank=2)))
    convert_adapter(tmp_path / "ours", tmp_path / "peft")
    convert_adapter(tmp_path / "peft", tmp_path / "again", base=tmp_path / "flax")
    again = json.loads((tmp_path / "again" / "adapter.json").read_text())
    assert again["lora"]["targets"] == DECODER_LINEARS
    assert again["base"] == read_checkpoint_info(tmp_path / "flax").hash


def test_an_adapter_whose_rank_is_not_that_of_its_tensors_is_refused(tmp_path):
    convert_adapter(write_peft(tmp_path / "peft", lora_tensors()), tmp_path / "ours")
    file = tmp_path / "ours" / "adapter.json"
    content = json.loads(file.read_text())
    file.write_text(json.dumps(content | {"lora": content["lora"] | {"rank": 3}}))
    with pytest.raises(InputError, match=r"adapter\.json: lora: rank is 3, the tensors have \[2\]"):
        convert_adapter(tmp_path / "ours", tmp_path / "back")


def test_the_layout_without_effect_is_refused_by_name(tmp_path, capsys):
    source = write_peft(tmp_path / "peft", lora_tensors("base_model.model.language_model.layers"))
    assert main(["adapter", str(source), str(tmp_path / "ours")]) == 2
    assert "PEFT itself ignores adapters under base_model.model.language_model.layers.*" in capsys.readouterr().err
    assert not (tmp_path / "ours").exists()


@pytest.mark.parametrize(
    "option",
    [
        {"use_dora": True},
        {"bias": "all"},
        {"modules_to_save": ["lm_head"]},
        {"rank_pattern": {"q_proj": 4}},
        {"alpha_pattern": {"q_proj": 4}},
        {"layers_to_transform": [0]},
        {"init_lora_weights": "pissa"},
        {"fan_in_fan_out": True},
    ],
)
def test_options_of_peft_that_we_do_not_compute_are_refused_by_name(tmp_path, option):
    source = write_peft(tmp_path / "peft", lora_tensors(), **option)
    with pytest.raises(InputError, match=f"adapter_config.json: not supported: {next(iter(option))} = "):
        convert_adapter(source, tmp_path / "ours")


def test_an_incomplete_or_foreign_adapter_is_refused_with_every_problem(folder, tmp_path):
    tensors = lora_tensors(layers=3)
    names = list(tensors)
    del tensors[names[3]]
    tensors["base_model.model.lm_head.modules_to_save.weight"] = np.zeros(2, np.float32)
    with pytest.raises(InputError) as caught:
        convert_adapter(write_peft(tmp_path / "one", tensors), tmp_path / "ours")
    assert caught.value.problems == (
        "unexpected: base_model.model.lm_head.modules_to_save.weight is no LoRA tensor of a known linear map",
    )
    del tensors["base_model.model.lm_head.modules_to_save.weight"]
    with pytest.raises(InputError) as caught:
        convert_adapter(write_peft(tmp_path / "two", tensors), tmp_path / "ours")
    assert caught.value.problems == (f"missing: {names[3]}",)
    import_checkpoint(folder, tmp_path / "flax")  # of two layers
    with pytest.raises(InputError, match="does not fit"):
        convert_adapter(
            write_peft(tmp_path / "three", lora_tensors(layers=3)), tmp_path / "ours", base=tmp_path / "flax"
        )
    with pytest.raises(InputError, match="no adapter"):
        convert_adapter(folder, tmp_path / "ours")


def test_adapter_names_of_every_tower_come_back(tmp_path):
    for path in ("audio_tower.layers.self_attn.q_proj", "language_model.layers.mlp.up_proj"):
        place = Place(f"{path}.lora.lora_b", 5)
        assert from_peft(to_peft(place)) == place
    place = Place("multi_modal_projector.lora.lora_a", None)
    assert from_peft(to_peft(place)) == place


def test_peft_targets_match_the_modules_of_every_generation_and_no_others():
    import re

    pattern = peft_targets(["language_model.layers.self_attn.q_proj", "multi_modal_projector"])
    for name in (
        "language_model.model.layers.3.self_attn.q_proj",
        "model.language_model.layers.12.self_attn.q_proj",
        "model.multi_modal_projector.linear",
    ):
        assert re.fullmatch(pattern, name)
    for name in ("model.audio_tower.layers.3.self_attn.q_proj", "model.language_model.layers.1.self_attn.k_proj"):
        assert not re.fullmatch(pattern, name)


def test_fully_tuned_weights_cannot_become_a_peft_adapter(folder, tmp_path):
    import_checkpoint(folder, tmp_path / "flax")
    model, _ = jaxeval.load_model(tmp_path / "flax")
    save_adapter(tmp_path / "ours", model, AdapterConfig(None, r"multi_modal_projector\..*"))
    with pytest.raises(InputError, match="export CKPT HF_DIR --adapter"):
        convert_adapter(tmp_path / "ours", tmp_path / "peft")


def test_weights_trained_in_float32_are_exported_in_the_dtype_of_the_base(folder, tmp_path):
    import_checkpoint(folder, tmp_path / "flax", dtype="bfloat16")
    model, _ = jaxeval.load_model(tmp_path / "flax", dtype="float32")  # as training keeps them
    save_adapter(tmp_path / "ours", model, AdapterConfig(None, r"multi_modal_projector\..*"))
    export_checkpoint(tmp_path / "flax", tmp_path / "plain")
    export_checkpoint(tmp_path / "flax", tmp_path / "merged", adapter=tmp_path / "ours")
    plain, merged = (tmp_path / name / "model.safetensors" for name in ("plain", "merged"))
    assert merged.read_bytes() == plain.read_bytes()


def test_low_rank_adapters_are_merged_into_weights_that_were_trained_themselves(folder, tmp_path):
    import_checkpoint(folder, tmp_path / "flax")
    model, _ = jaxeval.load_model(tmp_path / "flax")
    config = LoraConfig(rank=2, targets=r".*\.q_proj|multi_modal_projector")
    add_lora(model, config, rngs=nnx.Rngs(0))
    for name, variable in variables(model).items():
        if name.endswith("lora_b") or "q_proj.weight" in name:
            variable.set_value(variable.get_value() + 0.01)
    save_adapter(tmp_path / "ours", model, AdapterConfig(config, ".*"))
    export_checkpoint(tmp_path / "flax", tmp_path / "out", adapter=tmp_path / "ours")
    import_checkpoint(tmp_path / "out", tmp_path / "merged")
    merge_lora(model)
    merged, _ = jaxeval.load_model(tmp_path / "merged")
    for name, variable in variables(model).items():
        np.testing.assert_allclose(variables(merged)[name].get_value(), variable.get_value(), atol=1e-6)
