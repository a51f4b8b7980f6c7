"""Settings: where they come from, and what is refused."""

import json
from pathlib import Path

import pytest

from jaxeval.errors import InputError
from train.config import TrainConfig, check_resumable, flat, parse_command_line

NEEDED = ["--model", "m", "--pairs", "p", "--out", "run"]


def parse(*more: str) -> TrainConfig:
    return parse_command_line("train.lora", "pairs", [*NEEDED, *more])[0]


def test_defaults_are_the_recipe():
    config, out = parse_command_line("train.lora", "pairs", NEEDED)
    assert (config.model, config.data.path, out) == ("m", "p", Path("run"))
    assert (config.lora.rank, config.lora.alpha, config.lora.dropout) == (8, 32, 0.05)
    assert (config.batch, config.data.max_length, config.optimizer.learning_rate) == (16, 2048, 1e-4)


def test_command_line_overrides_file_overrides_default(tmp_path: Path):
    file = tmp_path / "config.json"
    file.write_text(json.dumps({"batch": 8, "seed": 5, "lora": {"rank": 4, "alpha": 16}}))
    config = parse("--config", str(file), "--lora.rank", "2", "--seed=7", "--remat", "true", "--skip-bad")
    assert (config.batch, config.seed, config.lora.rank, config.lora.alpha) == (8, 7, 2, 16.0)
    assert config.remat and config.data.skip_bad


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["--lora.rnk", "4"], "unknown field 'lora.rnk'"),
        (["--lora", "4"], "unknown field 'lora'"),
        (["--batch", "many"], "batch is 'many', expected a whole number"),
        (["--batch", "6"], "batch is 6, expected a multiple of data.micro_batch"),
        (["--batch"], "--batch lacks its value"),
        (["batch", "4"], "unexpected 'batch'"),
        (["--remat", "maybe"], "remat is 'maybe', expected true or false"),
        (["--optimizer.schedule", "linear"], "optimizer.schedule is 'linear', expected one of constant, cosine"),
        (["--optimizer.learning_rate", "nan"], "optimizer.learning_rate is nan"),
        (["--seed", str(2**32)], "seed is 4294967296, expected at most"),
        (["--out", ""], "argument --out: '' is no path"),
        (["--epochs", "0"], "epochs is 0"),
        (["--lora.dropout", "1"], "lora.dropout is 1.0"),
        (["--optimizer.eps", "-1"], "optimizer.eps is -1.0, expected more than 0"),
        (["--lora.alpha", "0"], "lora.alpha is 0.0, expected more than 0"),
        (["--optimizer.b2", "1"], "optimizer.b2 is 1.0"),
        (["--lora.alpha", "inf"], "lora.alpha is inf, expected a finite number"),
        (["--trained", "("], "trained: '\\(' is no regular expression"),
        (["--config", "nowhere.json"], "nowhere.json: no such file"),
    ],
)
def test_wrong_settings_are_named(arguments: list[str], message: str):
    with pytest.raises(InputError, match=message):
        parse(*arguments)


def test_wrong_type_in_a_file_is_named(tmp_path: Path):
    file = tmp_path / "config.json"
    file.write_text('{"data": {"workers": true}}')
    with pytest.raises(InputError, match=r"config.json: data.workers is True, expected a whole number"):
        parse("--config", str(file))


def test_missing_path_is_named():
    with pytest.raises(InputError, match="--pairs is missing"):
        parse_command_line("train.lora", "pairs", ["--model", "m", "--out", "run"])


def test_saved_settings_read_back_as_the_same(tmp_path: Path):
    config = parse("--mesh", "data=2", "--dtype", "bfloat16", "--lora.rslora", "true")
    file = tmp_path / "config.json"
    file.write_text(json.dumps(flat(config)))
    assert parse("--config", str(file)) == config


def test_resuming_may_change_speed_but_not_results():
    saved = json.loads(json.dumps({"seed": 0, **flat(parse())}))
    check_resumable(saved, parse("--data.workers", "0", "--mesh", "fsdp=2"), source="config.json")
    with pytest.raises(InputError, match=r"config.json: this run was started with lora.rank=8, now it is 4"):
        check_resumable(saved, parse("--lora.rank", "4"), source="config.json")
