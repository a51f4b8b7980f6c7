"""Whole runs: what they learn, what they leave behind, what stops them."""

import json
import os
import signal
from collections.abc import Callable
from pathlib import Path

import jax
import pytest

from jaxeval.checkpoint import load_model, read_adapter_config
from jaxeval.edits.prompts import TASKS, conversation
from jaxeval.errors import InputError, RunError, exit_code
from jaxeval.generation import generate
from jaxeval.pairs.read import read_pairs
from jaxeval.sharding import make_mesh
from jaxeval.tables import read_table, write_table
from train import loop, prepare
from train.lora import main

Arguments = Callable[..., list[str]]


def metrics(out: Path) -> list[dict]:
    return [json.loads(line) for line in (out / "metrics.jsonl").read_text().splitlines()]


def test_eight_pairs_are_learned_by_heart(arguments: Arguments, checkpoint: Path, pairs: Path, tmp_path: Path):
    """Full tuning: afterwards greedy decoding gives every caption of the training split, letter by letter."""
    full = "--trained .* --lora.rank 0 --batch 16 --data.micro_batch 4 --epochs 150 --validation.every 0"
    fast = (
        "--optimizer.learning_rate 5e-3 --optimizer.warmup_steps 10 --optimizer.weight_decay 0 --checkpoint_every 999"
    )
    main(arguments(tmp_path / "run", *full.split(), *fast.split()))

    model, processor = load_model(checkpoint, adapter=tmp_path / "run" / "adapter")
    learned = [pair for pair in read_pairs(pairs, need_targets=True) if pair.split == "train"]
    for task in TASKS:
        audio = [path for pair in learned for path in (pair.original_audio, pair.edited_audio)]
        batch = processor([conversation(task)] * len(learned), audio, padding_side="left")
        answers = [processor.decode(tokens) for tokens in generate(model, batch, max_new_tokens=48)]
        assert answers == [getattr(pair, task) for pair in learned]


def test_a_run_leaves_everything_it_promises(arguments: Arguments, checkpoint: Path, tmp_path: Path, capsys):
    loud = "--logging.tensorboard true --validation.captions 2 --validation.max_new_tokens 4"
    main(arguments(tmp_path, *loud.split()))
    assert json.loads((tmp_path / "config.json").read_text())["lora"]["rank"] == 8
    assert json.loads((tmp_path / "inputs.json").read_text())["train"] == 16
    assert "jax" in json.loads((tmp_path / "environment.json").read_text())["versions"]
    rows = metrics(tmp_path)
    assert [row["step"] for row in rows] == list(range(1, 9))
    assert [row["step"] for row in rows if "validation_loss" in row] == [4, 8]
    assert {"loss", "difference_loss", "commonality_loss", "learning_rate", "grad_norm", "tokens"} <= rows[0].keys()
    assert read_adapter_config(tmp_path / "adapter").base is not None
    events = next((tmp_path / "tensorboard").iterdir()).read_bytes()
    for tag in (b"validation_loss", b"speed/tokens/s", b"memory_bytes", b"| reference |", b"pair0/audio_2"):
        assert tag in events

    capsys.readouterr()
    main(arguments(tmp_path, *loud.split()))
    assert "complete after 8 steps" in capsys.readouterr().out
    assert metrics(tmp_path) == rows


def test_best_adapter_is_kept_and_the_run_stops_when_validation_gets_worse(arguments: Arguments, tmp_path: Path):
    worse = "--optimizer.learning_rate 0.3 --validation.every 1 --validation.patience 2 --epochs 50"
    main(arguments(tmp_path, *worse.split()))
    losses = [row["validation_loss"] for row in metrics(tmp_path)]
    assert len(losses) < 200
    assert min(losses) == losses[-3] < losses[-2]


def test_one_compilation_for_each_bucket_shape(arguments: Arguments, tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    made = []
    make_steps = loop.make_steps

    def remember(*parts):
        made.append(make_steps(*parts))
        return made[0]

    monkeypatch.setattr(loop, "make_steps", remember)
    main(arguments(tmp_path))
    shapes = json.loads((tmp_path / "inputs.json").read_text())["shapes"]
    steps, _ = made[0]
    assert steps.accumulate._cache_size() == steps.evaluate._cache_size() == len(shapes) == 2
    assert steps.start._cache_size() == steps.update._cache_size() == 1


def test_nan_stops_with_the_step_and_the_ids_before_it_is_saved(arguments: Arguments, tmp_path: Path):
    explosive = "--optimizer.learning_rate 1e38 --optimizer.warmup_steps 0 --validation.every 0 --checkpoint_every 1"
    with pytest.raises(
        RunError, match=r"step 2: loss nan, .*examples pair\d, pair\d.*; nothing of this step was saved"
    ):
        main(arguments(tmp_path, *explosive.split()))
    assert len(metrics(tmp_path)) == 1
    assert [path.name for path in (tmp_path / "checkpoints").iterdir()] == ["1"]
    assert not (tmp_path / "adapter").exists()


def test_interruption_saves_a_checkpoint_and_says_how_to_go_on(
    arguments: Arguments, tmp_path: Path, capsys, monkeypatch: pytest.MonkeyPatch
):
    step = loop.Trainer._step

    def interrupted(self, number, *rest):
        if number == 1:
            os.kill(os.getpid(), signal.SIGINT)
        return step(self, number, *rest)

    monkeypatch.setattr(loop.Trainer, "_step", interrupted)
    assert exit_code(lambda: main(arguments(tmp_path))) == 130
    assert "run the same command again" in capsys.readouterr().err
    assert [path.name for path in (tmp_path / "checkpoints").iterdir()] == ["2"]
    monkeypatch.undo()
    main(arguments(tmp_path))
    assert [row["step"] for row in metrics(tmp_path)] == list(range(1, 9))


def test_a_run_is_not_resumed_with_other_settings_or_other_data(arguments: Arguments, pairs: Path, tmp_path: Path):
    run = tmp_path / "run"
    short = ("--validation.every", "0", "--epochs", "1")
    main(arguments(run, *short))
    with pytest.raises(InputError, match="this run was started with seed=0, now it is 1"):
        main(arguments(run, *short, "--seed", "1"))
    rows = read_table(pairs)
    for row in rows:
        row |= {key: str(pairs.parent / row[key]) for key in ("original_audio", "edited_audio")}
    write_table(tmp_path / "other.jsonl", rows[1:])
    with pytest.raises(InputError, match=r"inputs.json: this run was started with other examples"):
        main(arguments(run, *short, "--pairs", str(tmp_path / "other.jsonl")))


@pytest.mark.parametrize(
    ("more", "message"),
    [
        (["--trained", "nothing"], "trained: 'nothing' matches no variable"),
        (["--mesh", "data=4"], r"data.micro_batch is 2, expected a multiple of data×fsdp of the mesh \(4\)"),
        (["--model", "nowhere"], "nowhere"),
        (["--data.max_length", "100"], r"20 of 20 rows cannot be used .*more than data.max_length \(100\)"),
    ],
)
def test_what_cannot_work_is_refused_before_the_run_folder_exists(
    arguments: Arguments, tmp_path: Path, more: list[str], message: str
):
    with pytest.raises(InputError, match=message):
        main(arguments(tmp_path / "run", *more))
    assert not (tmp_path / "run").exists()


def test_missing_validation_split_is_an_error_unless_none_is_wanted(arguments: Arguments, pairs: Path, tmp_path: Path):
    rows = [row for row in read_table(pairs) if row["split"] == "train"]
    for row in rows:
        row |= {key: str(pairs.parent / row[key]) for key in ("original_audio", "edited_audio")}
    write_table(tmp_path / "pairs.jsonl", rows)
    with pytest.raises(InputError, match="no rows with split 'validation'"):
        main(arguments(tmp_path / "run", "--pairs", str(tmp_path / "pairs.jsonl")))


def test_each_process_reads_the_rows_of_its_devices():
    assert prepare.local_rows(make_mesh({"data": 2, "fsdp": 2}, jax.devices()), 8) == slice(0, 8)


def test_an_epoch_is_cut_into_steps_without_a_remainder_lost():
    plan = loop.StepPlan(per_epoch=5, accumulated=2, epochs=2)
    assert [list(plan.micro_batches(step)) for step in range(plan.total)] == [[0, 1], [2, 3], [4], [5, 6], [7, 8], [9]]
