"""From examples to fixed-shape micro batches."""

import dataclasses
from collections import Counter
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from jaxeval.audio.read import write_flac
from jaxeval.errors import InputError
from jaxeval.pairs.read import read_pairs
from jaxeval.processor import AUDIO, Processor
from train.data import Example, MicroBatches, Row, Shape, check_examples, iterate, plan_shapes
from train.lora import pair_examples

SHAPES = (Shape(102, 192, 32), Shape(202, 256, 32))


@pytest.fixture(scope="module")
def examples(pairs: Path) -> list[Example]:
    return pair_examples(read_pairs(pairs, need_targets=True))["train"]


@pytest.fixture(scope="module")
def processor(checkpoint: Path) -> Processor:
    return Processor.from_folder(checkpoint)


@pytest.fixture(scope="module")
def rows(examples: list[Example], processor: Processor) -> list[Row]:
    return check_examples(examples, processor, max_length=2048, workers=2, skip_bad=False)[0]


def batches_of(rows: list[Row], processor: Processor, **changes: Any) -> MicroBatches:
    shapes = [SHAPES[max(row.frames) > 100] for row in rows]
    settings: dict[str, Any] = {
        "tasks": ["difference", "commonality"],
        "micro_batch": 5,
        "seed": 0,
        "epochs": 3,
    } | changes
    return MicroBatches(rows, shapes, processor, **settings)


def test_a_pair_becomes_an_example_of_each_task(examples: list[Example]):
    assert Counter(example.task for example in examples) == {"difference": 8, "commonality": 8}
    assert examples[0].audio == examples[1].audio


def test_every_example_comes_once_an_epoch_in_an_order_of_the_seed(rows: list[Row], processor: Processor):
    def order(epoch: int, seed: int) -> list[str]:
        batches = batches_of(rows, processor, seed=seed)
        numbers = range(epoch * batches.per_epoch, (epoch + 1) * batches.per_epoch)
        return [f"{row.example.id} {row.example.task}" for number in numbers for row in batches.members(number)[1]]

    assert sorted(order(0, 0)) == sorted(order(1, 0)) == sorted(order(0, 1))
    assert len(set(order(0, 0))) == len(rows)
    assert order(0, 0) == order(0, 0)
    assert order(0, 0) != order(1, 0)
    assert order(0, 0) != order(0, 1)


def test_last_batch_of_a_shape_is_filled_up_with_rows_that_supervise_nothing(rows: list[Row], processor: Processor):
    batches = batches_of(rows, processor)
    fill = [int((batches[number]["targets"] >= 0).any(1).sum()) for number in range(batches.per_epoch)]
    assert sorted(fill) == [2, 4, 5, 5]  # 4 examples of 1.8 s and 12 of 0.6 s, five a batch
    assert sum(fill) == len(rows)
    assert all(batches[number]["targets"].shape == (5, 32) for number in range(batches.per_epoch))


def test_targets_are_the_tokens_after_their_positions(rows: list[Row], processor: Processor):
    batches = batches_of(rows, processor, seed=None)
    _, members = batches.members(0)
    batch = batches[0]
    for index, row in enumerate(members):
        valid = batch["targets"][index] >= 0
        positions, targets = batch["target_positions"][index][valid], batch["targets"][index][valid]
        np.testing.assert_array_equal(batch["input_ids"][index][positions + 1], targets)
        assert processor.decode(targets) == row.example.target
        assert targets[-1] == processor.eos_ids[0]
        assert batch["attention_mask"][index].sum() == row.length == positions[-1] + 2


def test_audio_tokens_match_the_features_of_each_clip(rows: list[Row], processor: Processor):
    batch = batches_of(rows, processor)[0]
    frames = batch["feature_attention_mask"].sum(1)
    tokens = (((frames - 1) // 2 + 1) // 2).reshape(-1, 2).sum(1)
    np.testing.assert_array_equal((batch["input_ids"] == processor.ids[AUDIO]).sum(1), np.maximum(tokens, 0))


def test_processes_read_their_own_rows_of_the_same_batch(rows: list[Row], processor: Processor):
    whole = batches_of(rows, processor, micro_batch=4)
    parts = [batches_of(rows, processor, micro_batch=4, local=part) for part in (slice(0, 2), slice(2, 4))]
    for number in range(whole.per_epoch):
        for name, value in whole[number].items():
            np.testing.assert_array_equal(np.concatenate([part[number][name] for part in parts]), value)


@pytest.mark.parametrize("workers", [0, 2])
def test_iterator_goes_on_where_its_state_was_taken(rows: list[Row], processor: Processor, workers: int):
    batches = batches_of(rows, processor)
    first = iterate(batches, workers)
    for _ in range(5):
        next(first)
    state, second = first.get_state(), iterate(batches, 2 - workers)
    second.set_state(state)
    rest, resumed = list(first), list(second)
    assert len(rest) == len(resumed) == len(batches) - 5
    for one, other in zip(rest, resumed, strict=True):
        np.testing.assert_array_equal(one["input_ids"], other["input_ids"])


def test_a_bad_row_stops_before_work_starts_or_is_counted(
    examples: list[Example], processor: Processor, tmp_path: Path
):
    missing = dataclasses.replace(examples[0], id="gone", audio=(tmp_path / "gone.wav", examples[0].audio[1]))
    long = dataclasses.replace(examples[0], id="long", target="and on " * 600)
    settings: dict[str, Any] = {"max_length": 1024, "workers": 1}
    with pytest.raises(
        InputError, match=r"2 of 18 rows cannot be used .*gone \(difference\): .*gone.wav: no such file"
    ):
        check_examples([*examples, missing, long], processor, **settings, skip_bad=False)
    rows, bad = check_examples([*examples, missing, long], processor, **settings, skip_bad=True)
    assert len(rows) == 16
    assert "long (difference)" in bad[1]
    assert "more than data.max_length (1024)" in bad[1]


def test_a_recording_that_changes_under_a_run_is_named(examples: list[Example], processor: Processor, tmp_path: Path):
    write_flac(tmp_path / "a.flac", np.zeros(8000))
    changing = dataclasses.replace(examples[0], audio=(tmp_path / "a.flac", examples[0].audio[1]))
    rows, _ = check_examples([changing], processor, max_length=2048, workers=0, skip_bad=False)
    write_flac(tmp_path / "a.flac", np.zeros(4000))
    with pytest.raises(InputError, match=r"a\.flac: its length has changed"):
        batches_of(rows, processor)[0]


def cost(shape: Shape) -> float:
    return shape.length


def test_shapes_are_joined_where_it_adds_least_work():
    needs = [Shape(102, 128, 32)] * 8 + [Shape(102, 192, 32)] * 8 + [Shape(1002, 640, 64)] * 8
    chosen = plan_shapes(needs, limit=2, micro_batch=4, cost=cost)
    assert chosen[Shape(102, 128, 32)] == chosen[Shape(102, 192, 32)] == Shape(102, 192, 32)
    assert chosen[Shape(1002, 640, 64)] == Shape(1002, 640, 64)


def test_a_joined_shape_holds_both_in_every_dimension():
    chosen = plan_shapes([Shape(502, 256, 32), Shape(102, 128, 96)], limit=1, micro_batch=1, cost=cost)
    assert set(chosen.values()) == {Shape(502, 256, 96)}


def test_small_groups_share_a_batch_rather_than_being_filled_up():
    needs = [Shape(102, 128, 32)] * 3 + [Shape(102, 192, 32)]
    assert len(set(plan_shapes(needs, limit=8, micro_batch=4, cost=cost).values())) == 1


def test_shapes_that_save_work_are_kept():
    needs = [Shape(102, 128, 32)] * 4 + [Shape(102, 192, 32)] * 4
    assert len(set(plan_shapes(needs, limit=8, micro_batch=4, cost=cost).values())) == 2
