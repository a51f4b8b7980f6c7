"""The one table of weight names: Hugging Face's layouts, PEFT's, and the module paths of `jaxeval.models`.

Weights keep their layout, so a conversion is a renaming: a prefix of the name, and for the layers of a tower the layer
number, which here is the leading axis of one stacked array. Import, export and both directions of adapters read this
table; nothing else in the project knows a Hugging Face name.
"""

from __future__ import annotations

import re
from typing import Literal, NamedTuple


class Row(NamedTuple):
    """One part of the model under its names: ours, and those of the three layouts that occur in files."""

    ours: str
    hub: str  # what the hub holds and `save_pretrained` writes
    memory: str  # `state_dict()` of transformers 5
    mixed: str  # transformers 4.5x: the decoder without its inner `.model`
    peft: str  # for adapters: the old names where PEFT loads them, the new ones where it would pass those over


TABLE = (
    Row(
        ours="audio_tower",
        hub="audio_tower",
        memory="model.audio_tower",
        mixed="audio_tower",
        peft="model.audio_tower",
    ),
    Row(
        ours="multi_modal_projector",
        hub="multi_modal_projector.linear",
        memory="model.multi_modal_projector.linear",
        mixed="multi_modal_projector.linear",
        peft="model.multi_modal_projector.linear",
    ),
    Row(
        ours="language_model",
        hub="language_model.model",
        memory="model.language_model",
        mixed="language_model",
        peft="language_model.model",
    ),
    Row(
        ours="lm_head",
        hub="language_model.lm_head",
        memory="lm_head",
        mixed="lm_head",
        peft="lm_head",
    ),
)
TABLES = ("embed_positions", "embed_tokens", "lm_head")
"""Weights that are a bare array here and a module with a `weight` at Hugging Face."""

PEFT_PREFIX = "base_model.model."
NO_EFFECT = "base_model.model.language_model.layers."
"""PEFT loads adapters named so with a warning and without any effect."""


class Place(NamedTuple):
    """Where a tensor goes: the path of a variable of the model, and its layer if the variable is a stack."""

    path: str
    layer: int | None


def from_hf(key: str) -> Place | None:
    """The place of a tensor named in any of the three layouts; None if the name belongs to none of them."""
    rows = ((prefix, row.ours) for row in TABLE for prefix in row[1:])
    for prefix, ours in sorted(rows, key=lambda row: -len(row[0])):
        if key == prefix or key.startswith(prefix + "."):
            return _split_layer(_without_weight(ours + key[len(prefix) :]))
    return None


def to_hf(place: Place, layout: Literal["hub", "peft"] = "hub") -> str:
    """The name of a tensor in one layout."""
    path = place.path if place.layer is None else place.path.replace("layers.", f"layers.{place.layer}.", 1)
    row = next(row for row in TABLE if path == row.ours or path.startswith(row.ours + "."))
    suffix = ".weight" if path.rpartition(".")[2] in TABLES else ""
    return getattr(row, layout) + path[len(row.ours) :] + suffix


def is_stacked(path: str) -> bool:
    """Whether a variable has a leading axis of layers."""
    return ".layers." in path


def places(path: str, shape: tuple[int, ...]) -> list[tuple[Place, tuple[int, ...]]]:
    """The tensors a variable of this shape is on disk, with their shapes, in the order of the layers."""
    if is_stacked(path):
        return [(Place(path, layer), tuple(shape[1:])) for layer in range(shape[0])]
    return [(Place(path, None), tuple(shape))]


def from_peft(key: str) -> Place | None:
    """The place of a PEFT tensor, with the old or the new name of its module; None if it is no LoRA tensor."""
    match = re.fullmatch(rf"{re.escape(PEFT_PREFIX)}(.*)\.lora_([AB])(\.default)?\.weight", key)
    module = from_hf(match[1]) if match else None
    if match is None or module is None:
        return None
    return module._replace(path=f"{module.path}.lora.lora_{match[2].lower()}")


def to_peft(place: Place) -> str:
    """The name PEFT loads an adapter's tensor under."""
    module, _, which = place.path.rpartition(".lora.lora_")
    return f"{PEFT_PREFIX}{to_hf(Place(module, place.layer), 'peft')}.lora_{which.upper()}.weight"


def peft_targets(modules: list[str]) -> str:
    """An expression for PEFT's `target_modules` that matches these modules under any layout's names."""
    alternatives = []
    for row in TABLE:
        tails = [path[len(row.ours) :] for path in modules if path == row.ours or path.startswith(row.ours + ".")]
        if tails:
            names = sorted({re.escape(prefix.removeprefix("model.")) for prefix in row[1:]})
            tails = [re.escape(tail).replace(r"\.layers\.", r"\.layers\.\d+\.", 1) for tail in sorted(tails)]
            alternatives.append(rf"(.*\.)?({'|'.join(names)})({'|'.join(tails)})")
    return "|".join(alternatives)


def _without_weight(path: str) -> str:
    parent = path.removesuffix(".weight")
    return parent if parent.rpartition(".")[2] in TABLES else path


def _split_layer(path: str) -> Place:
    match = re.fullmatch(r"(.*?\.layers)\.(\d+)\.(.*)", path)
    return Place(f"{match[1]}.{match[3]}", int(match[2])) if match else Place(path, None)
