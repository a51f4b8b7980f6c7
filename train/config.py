"""What a training run is told: typed settings, from defaults, a JSON file and the command line, in that order.

Every start of the loop (`train.lora` and its siblings) reads its command line here. The settings that result are
saved as `config.json` in the run folder, and a run is only resumed with settings that lead to the same result.
"""

from __future__ import annotations

import argparse
import dataclasses
import re
import typing
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, Literal

from jaxeval.arguments import LARGEST_SEED, MAX_NEW_TOKENS, Parser, path
from jaxeval.checkpoint import LORA_VARIABLES
from jaxeval.errors import InputError
from jaxeval.files import read_json
from jaxeval.models.lora import LoraConfig
from jaxeval.typed import convert


@dataclasses.dataclass(frozen=True)
class DataConfig:
    """What is read, and the fixed shapes it is padded to.

    Attributes:
        path: the table of pairs, examples or clips.
        micro_batch: rows of one forward and backward pass, over all devices; the effective batch is a multiple of it.
        max_length: longest row in tokens, audio and answer included; a longer one is a bad row.
        shapes: at most so many (frames, length, answers) shapes, each compiled once.
        workers: threads that read and tokenise ahead; 0 reads when a batch is asked for.
        skip_bad: leave bad rows out, and count them, instead of stopping before work starts.
    """

    path: str = ""
    micro_batch: int = 4
    max_length: int = 2048
    shapes: int = 8
    workers: int = 4
    skip_bad: bool = False


@dataclasses.dataclass(frozen=True)
class OptimizerConfig:
    """AdamW with warm-up and clipping.

    Attributes:
        learning_rate: reached after `warmup_steps`, linearly from 0.
        schedule: `constant` afterwards, since early stopping decides when a run ends; or `cosine`, down to 0 at the
            last step of the last epoch.
        weight_decay: decoupled, on every trained variable.
        clip_norm: largest global norm of a gradient.
        b1, b2, eps: of Adam.
    """

    learning_rate: float = 1e-4
    schedule: Literal["constant", "cosine"] = "constant"
    warmup_steps: int = 100
    weight_decay: float = 0.01
    clip_norm: float = 1.0
    b1: float = 0.9
    b2: float = 0.999
    eps: float = 1e-8


@dataclasses.dataclass(frozen=True)
class ValidationConfig:
    """When to validate, and when to stop.

    Attributes:
        every: steps between two validations; the last step is always followed by one. 0 trains all epochs without.
        patience: stop after so many validations in a row without a better loss.
        captions: validation examples whose answers are written out beside the reference each time.
        max_new_tokens: length of those answers.
    """

    every: int = 200
    patience: int = 5
    captions: int = 4
    max_new_tokens: int = 96


@dataclasses.dataclass(frozen=True)
class LoggingConfig:
    """What is logged beyond `metrics.jsonl`.

    Attributes:
        tensorboard: write TensorBoard events.
        audio: training examples whose recordings can be heard there.
    """

    tensorboard: bool = True
    audio: int = 4


@dataclasses.dataclass(frozen=True)
class TrainConfig:
    """All settings of a run.

    Attributes:
        model: the converted checkpoint to start from.
        trained: regular expression that the dotted path of a variable must match from its beginning to its end to be
            trained; `.*` trains everything. Trained variables and their moments are float32, whatever `dtype` is.
        batch: examples an optimizer step learns from, over all devices.
        epochs: at most so many passes over the training examples.
        seed: of the adapters' start, the order of examples and dropout.
        mesh: such as `data=1,fsdp=4`; default every device along fsdp.
        dtype: of the frozen weights, of activations and matrix products; default that of the checkpoint.
        attention, remat: see `jaxeval.models.config`.
        checkpoint_every: steps between two checkpoints.
        lora: adapters; rank 0 adds none.
    """

    model: str = ""
    trained: str = LORA_VARIABLES
    batch: int = 16
    epochs: int = 20
    seed: int = 0
    mesh: str | None = None
    dtype: Literal["float32", "bfloat16"] | None = None
    attention: Literal["xla", "cudnn"] = "xla"
    remat: bool = False
    checkpoint_every: int = 100
    data: DataConfig = DataConfig()
    lora: LoraConfig = dataclasses.field(default_factory=LoraConfig)
    optimizer: OptimizerConfig = OptimizerConfig()
    validation: ValidationConfig = ValidationConfig()
    logging: LoggingConfig = LoggingConfig()


MAY_CHANGE = ("model", "data.path", "data.workers", "mesh", "checkpoint_every", "logging.tensorboard", "logging.audio")
"""Fields that a resumed run may set anew: they say where things are and how fast, not what comes out.

That the files at `model` and `data.path` are still the same is checked by their content.
"""

_POSITIVE = (
    "batch",
    "epochs",
    "checkpoint_every",
    "data.micro_batch",
    "data.max_length",
    "data.shapes",
    "optimizer.learning_rate",
    "optimizer.clip_norm",
    "optimizer.eps",
    "lora.alpha",
    "validation.patience",
    "validation.max_new_tokens",
)
_NOT_NEGATIVE = (
    "seed",
    "data.workers",
    "lora.rank",
    "optimizer.warmup_steps",
    "optimizer.weight_decay",
    "validation.every",
    "validation.captions",
    "logging.audio",
)


def parse_command_line(
    program: str, table: str, arguments: Sequence[str] | None = None, defaults: TrainConfig = TrainConfig()
) -> tuple[TrainConfig, Path]:
    """Read `--model CKPT --TABLE FILE --out RUN [--config FILE] [--any.field VALUE]`.

    Args:
        program: as it is started, such as `train.lora`.
        table: what the table option is called, such as `pairs`.
        arguments: default those of the process.
        defaults: of this start.

    Returns:
        The checked settings, and the run folder.

    Raises:
        InputError: a field is unknown or its value is of the wrong type or out of range.
    """
    fields = "\n".join(f"  --{name} {value!r}" for name, value in flat(defaults).items())
    parser = Parser(
        prog=f"python -m {program}",
        allow_abbrev=False,
        formatter_class=argparse.RawDescriptionHelpFormatter,
        epilog=f"fields and their defaults (train/config.py explains them):\n{fields}",
    )
    parser.add_argument("--model", metavar="CKPT", type=path, help="the converted checkpoint to start from")
    parser.add_argument(f"--{table}", metavar="FILE", dest="table", type=path, help=f"the table of {table}")
    parser.add_argument("--out", metavar="RUN", required=True, type=path, help="the run folder; run again to resume")
    parser.add_argument(
        "--config", metavar="FILE", type=path, help="JSON file with fields that differ from the defaults"
    )
    parser.add_argument("--skip-bad", action="store_true", help="count and skip bad rows instead of stopping")
    known, rest = parser.parse_known_args(arguments)

    config = defaults
    if known.config is not None:
        config = updated(config, _flat_json(read_json(known.config)), source=known.config)
    typed = dict(_pairs(rest))
    for name, value in (("model", known.model), ("data.path", known.table)):
        if value is not None:
            typed[name] = value
    if known.skip_bad:
        typed["data.skip_bad"] = "true"
    config = updated(config, typed, source="command line")
    for name, option in (("model", "--model"), ("data.path", f"--{table}")):
        if not flat(config)[name]:
            raise InputError(f"{option} is missing")
    check(config)
    return config, Path(known.out)


def updated(config: TrainConfig, values: Mapping[str, Any], *, source: str) -> TrainConfig:
    """A copy of `config` with dotted fields set to JSON values, or to text as typed on a command line.

    Raises:
        InputError: a field is unknown, or its value is of the wrong type.
    """
    known = flat(config)
    for name in values:
        if name not in known:
            raise InputError(f"{source}: unknown field {name!r}; the fields are {', '.join(known)}")
    return _replace(config, values, source, "")


def check(config: TrainConfig) -> None:
    """Raise `InputError` where values of the right type make no sense."""
    values = flat(config)
    for name in _POSITIVE:
        if not values[name] > 0:
            raise InputError(f"{name} is {values[name]!r}, expected more than 0")
    for name in _NOT_NEGATIVE:
        if values[name] < 0:
            raise InputError(f"{name} is {values[name]!r}, expected 0 or more")
    for name in ("lora.dropout", "optimizer.b1", "optimizer.b2"):
        if not 0 <= values[name] < 1:
            raise InputError(f"{name} is {values[name]!r}, expected at least 0 and less than 1")
    if config.validation.max_new_tokens > MAX_NEW_TOKENS:
        raise InputError(
            f"validation.max_new_tokens is {config.validation.max_new_tokens}, expected at most {MAX_NEW_TOKENS}"
        )
    if config.seed > LARGEST_SEED:
        raise InputError(f"seed is {config.seed}, expected at most {LARGEST_SEED}")
    if config.batch % config.data.micro_batch:
        raise InputError(
            f"batch is {config.batch}, expected a multiple of data.micro_batch ({config.data.micro_batch})"
        )
    try:
        re.compile(config.trained)
    except re.error as error:
        raise InputError(f"trained: {config.trained!r} is no regular expression ({error})") from None


def check_resumable(found: Mapping[str, Any], config: TrainConfig, *, source: str) -> None:
    """Raise `InputError` if a run saved with the settings `found` (nested) cannot go on with `config`."""
    old, new = _flat_json(found), flat(config)
    for name in sorted(old.keys() | new.keys()):
        if name not in MAY_CHANGE and old.get(name) != new.get(name):
            raise InputError(
                f"{source}: this run was started with {name}={old.get(name)!r}, now it is {new.get(name)!r}; "
                "resume it with the old value, or choose another --out"
            )


def flat(config: TrainConfig) -> dict[str, Any]:
    """All fields by their dotted names."""
    return _flat_json(dataclasses.asdict(config))


def _flat_json(values: Mapping[str, Any]) -> dict[str, Any]:
    result: dict[str, Any] = {}
    for name, value in values.items():
        if isinstance(value, Mapping):
            result |= {f"{name}.{inner}": found for inner, found in _flat_json(value).items()}
        else:
            result[name] = value
    return result


def _pairs(arguments: Sequence[str]) -> Iterator[tuple[str, str]]:
    """`--name value` and `--name=value` as pairs."""
    rest = iter(arguments)
    for argument in rest:
        if not argument.startswith("--"):
            raise InputError(f"command line: unexpected {argument!r}; fields are set as --name VALUE")
        name, equals, value = argument[2:].partition("=")
        if not equals:
            try:
                value = next(rest)
            except StopIteration:
                raise InputError(f"command line: --{name} lacks its value") from None
        yield name, value


def _replace(config: Any, values: Mapping[str, Any], source: str, prefix: str) -> Any:
    kinds = typing.get_type_hints(type(config))
    changes = {}
    for field in dataclasses.fields(config):
        name, old = prefix + field.name, getattr(config, field.name)
        if dataclasses.is_dataclass(old):
            changes[field.name] = _replace(old, values, source, f"{name}.")
        elif name in values:
            changes[field.name] = convert(values[name], kinds[field.name], f"{source}: {name}")
    return dataclasses.replace(config, **changes)
