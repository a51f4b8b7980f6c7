"""`python -m jaxeval describe`: what differs between two recordings, and what they share, in the model's words.

Reads a pairs table, encodes both recordings of a pair once, asks both questions of `prompts`, and writes one row a
pair. A run that was interrupted goes on where it stopped; sampled answers draw from a key of their own, made of the
seed, the pair and the question, so they do not change with a resume.
"""

from __future__ import annotations

import argparse
import dataclasses
import sys
import time
import zlib
from collections.abc import Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from tqdm import tqdm

from jaxeval import arguments
from jaxeval.audio.read import read_audio
from jaxeval.checkpoint import load_model, read_adapter_config, read_checkpoint_info
from jaxeval.edits.prompts import TASKS, conversation
from jaxeval.errors import InputError
from jaxeval.files import PartialRows, file_hash, folder_hash
from jaxeval.generation import Sampling, encode_audio, generate, model_sampling
from jaxeval.models.qwen2_audio import Batch, Qwen2Audio
from jaxeval.pairs.clips import SPLITS
from jaxeval.pairs.read import Pair, read_pairs
from jaxeval.processor import Processor
from jaxeval.runs import is_finished, write_record
from jaxeval.sharding import make_mesh, parse_mesh
from jaxeval.tables import Row


@dataclasses.dataclass(frozen=True)
class Group:
    """Pairs that are described together.

    Attributes:
        pairs: the pairs.
        audio: the original and the edited recording of each.
    """

    pairs: tuple[Pair, ...]
    audio: list[tuple[np.ndarray, np.ndarray]]


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """The flags of the command."""
    parser.add_argument(
        "--model", required=True, type=arguments.path, metavar="CKPT", help="converted checkpoint folder"
    )
    parser.add_argument(
        "--adapter", type=arguments.path, metavar="DIR", help="adapter of a training run, e.g. RUN/adapter"
    )
    parser.add_argument(
        "--pairs",
        required=True,
        type=arguments.path,
        metavar="FILE",
        help="table with id, original_audio, edited_audio",
    )
    parser.add_argument(
        "--out", required=True, type=arguments.jsonl, metavar="FILE", help="captions, one JSON line a pair"
    )
    parser.add_argument("--split", choices=SPLITS, help="describe only the pairs of this split")
    parser.add_argument("--batch", type=arguments.positive, default=8, help="pairs at a time (default %(default)s)")
    parser.add_argument(
        "--max-new-tokens", type=arguments.new_tokens, default=128, help="longest answer (default %(default)s)"
    )
    parser.add_argument(
        "--sampling", choices=("greedy", "model"), default="greedy", help="greedy, or as the checkpoint recommends"
    )
    parser.add_argument("--seed", type=arguments.seed, default=0, help="for --sampling model (default %(default)s)")
    parser.add_argument("--mesh", default="fsdp=1", help="devices, e.g. data=2,fsdp=2,tensor=1 (default one device)")
    parser.add_argument("--dtype", choices=("float32", "bfloat16"), help="default: as the checkpoint is stored")
    parser.add_argument("--attention", choices=("xla", "cudnn"), default="xla", help="default %(default)s")
    parser.add_argument("--name", help="model name in the output (default: the names of checkpoint and adapter)")
    parser.add_argument("--skip-bad", action="store_true", help="count and skip pairs whose audio cannot be used")


def run(args: argparse.Namespace) -> None:
    """Describe every pair of the table."""
    out = Path(args.out)
    pairs = select_pairs(args.pairs, args.split)
    sampling = Sampling() if args.sampling == "greedy" else model_sampling(args.model)
    settings = _settings(args, sampling)
    if is_finished(out, settings):
        return
    pairs = check_recordings(pairs, skip_bad=args.skip_bad)
    mesh = make_mesh(parse_mesh(args.mesh))
    model, processor = load_model(
        args.model, adapter=args.adapter, mesh=mesh, dtype=args.dtype, attention=args.attention
    )
    rows = PartialRows(out, settings)
    try:
        describe_all(model, processor, pairs, rows, args, sampling)
        write_record(out, settings)
        rows.finish()
    finally:
        rows.close()


def describe_all(
    model: Qwen2Audio,
    processor: Processor,
    pairs: Sequence[Pair],
    rows: PartialRows,
    args: argparse.Namespace,
    sampling: Sampling,
) -> None:
    """Describe the pairs that `rows` does not hold yet, reading the next recordings while the model works."""
    done = {(row["id"], row.get("system")) for row in rows.rows}
    todo = [pair for pair in pairs if (pair.id, pair.system) not in done]
    name = _model_name(args)
    truncated = 0
    with tqdm(total=len(pairs), initial=len(done), desc="describe", unit="pair") as progress:
        for group in read_ahead(todo, args.batch):
            began = time.monotonic()
            answers = describe(model, processor, group, args.max_new_tokens, sampling, args.seed)
            seconds = (time.monotonic() - began) / len(group.pairs)
            for pair, answer in zip(group.pairs, answers, strict=True):
                system = {} if pair.system is None else {"system": pair.system}
                cut = answer.pop("truncated")
                timing = {"seconds": round(seconds, 3), "truncated": cut}
                rows.append({"id": pair.id, **system, **answer, "model": name, **timing})
                truncated += cut
            progress.update(len(group.pairs))
    print(f"described {len(todo)} pairs; in {truncated} an answer was cut at --max-new-tokens", file=sys.stderr)


def describe(
    model: Qwen2Audio, processor: Processor, group: Group, max_new_tokens: int, sampling: Sampling, seed: int
) -> list[Row]:
    """Both answers for each pair of a group: `difference`, `commonality` and whether one was `truncated`."""
    rows = [(pair, task) for pair in group.pairs for task in TASKS]
    recordings = [clip for clips in group.audio for _ in TASKS for clip in clips]
    batch = processor([conversation(task) for _, task in rows], recordings, padding_side="left")
    prepared = with_shared_features(model, batch, len(group.pairs))
    keys = jnp.stack([answer_key(pair, task, seed) for pair, task in rows])
    tokens = generate(model, prepared, max_new_tokens, sampling=sampling, keys=keys)
    answers: list[Row] = [{} for _ in group.pairs]
    for index, ((_, task), row) in enumerate(zip(rows, tokens, strict=True)):
        answer = answers[index // len(TASKS)]
        answer[task] = processor.decode(row)
        ended = bool(np.isin(row, processor.eos_ids).any())
        answer["truncated"] = answer.get("truncated", False) or not ended
    return answers


def with_shared_features(model: Qwen2Audio, batch: Mapping[str, np.ndarray], pairs: int) -> Batch:
    """Encode the recordings of each pair once, not once for each question, and put the features into the batch."""

    def first_question(value: np.ndarray) -> np.ndarray:
        return value.reshape(pairs, len(TASKS), -1, *value.shape[1:])[:, 0].reshape(-1, *value.shape[1:])

    clips = {name: first_question(batch[name]) for name in ("input_features", "feature_attention_mask")}
    features = encode_audio(model, clips)
    shared = jnp.repeat(features.reshape(pairs, 1, -1, *features.shape[1:]), len(TASKS), axis=1)
    rest = {name: value for name, value in batch.items() if name != "input_features"}
    return {**rest, "audio_features": shared.reshape(-1, *features.shape[1:])}


def select_pairs(table: str, split: str | None) -> list[Pair]:
    """The pairs of a table, or those of one split."""
    pairs = read_pairs(table, need_targets=False)
    if split is None:
        return pairs
    chosen = [pair for pair in pairs if pair.split == split]
    if not chosen:
        raise InputError(f"{table}: no pair has split {split!r}")
    return chosen


def check_recordings(pairs: Sequence[Pair], *, skip_bad: bool) -> list[Pair]:
    """Read every recording once, so that a damaged one stops the run before it starts.

    Returns:
        The pairs whose recordings can both be used.

    Raises:
        InputError: one cannot be used and `skip_bad` is not set, or none can.
    """
    paths = sorted({path for pair in pairs for path in (pair.original_audio, pair.edited_audio)})
    with ThreadPoolExecutor() as pool:
        found = tqdm(pool.map(_problem, paths), total=len(paths), desc="check", unit="file")
        problems = {path: problem for path, problem in zip(paths, found, strict=True) if problem is not None}
    if problems and not skip_bad:
        first = next(iter(problems.values()))
        raise InputError(f"{len(problems)} recordings cannot be used (--skip-bad leaves their pairs out): {first}")
    usable = [pair for pair in pairs if not {pair.original_audio, pair.edited_audio} & problems.keys()]
    for problem in problems.values():
        print(f"skipped: {problem}", file=sys.stderr)
    if not usable:
        raise InputError(f"no pair is left: {len(problems)} recordings cannot be used")
    if problems:
        print(f"skipped {len(pairs) - len(usable)} of {len(pairs)} pairs", file=sys.stderr)
    return usable


def read_ahead(pairs: Sequence[Pair], size: int) -> Iterator[Group]:
    """Groups of up to `size` pairs with their recordings; the next group is read while the caller uses this one."""
    groups = [tuple(pairs[begin : begin + size]) for begin in range(0, len(pairs), size)]
    with ThreadPoolExecutor(1) as pool:
        waiting = [pool.submit(_read_group, group) for group in groups[:1]]
        for number in range(len(groups)):
            ready = waiting.pop().result()
            waiting = [pool.submit(_read_group, group) for group in groups[number + 1 : number + 2]]
            yield ready


def answer_key(pair: Pair, task: str, seed: int) -> jax.Array:
    """The random key of one answer: it depends on the seed, the pair and the question, and on nothing else."""
    name = "\0".join((pair.system or "", pair.id, task))
    return jax.random.fold_in(jax.random.key(seed), zlib.crc32(name.encode()))


def _read_group(pairs: tuple[Pair, ...]) -> Group:
    return Group(pairs, [(read_audio(pair.original_audio), read_audio(pair.edited_audio)) for pair in pairs])


def _problem(path: Path) -> str | None:
    try:
        read_audio(path)
    except InputError as error:
        return str(error)
    return None


def _settings(args: argparse.Namespace, sampling: Sampling) -> dict[str, Any]:
    """What the rows depend on; a resumed run must agree in all of it."""
    if args.adapter is not None:
        read_adapter_config(args.adapter)  # is it one?
    return {
        "model": read_checkpoint_info(args.model).hash,
        "adapter": None if args.adapter is None else folder_hash(args.adapter),
        "pairs_sha256": file_hash(args.pairs),
        "split": args.split,
        "max_new_tokens": args.max_new_tokens,
        "sampling": dataclasses.asdict(sampling),
        "seed": args.seed,
        "dtype": args.dtype,
        "skip_bad": args.skip_bad,
        "name": _model_name(args),
    }


def _model_name(args: argparse.Namespace) -> str:
    if args.name:
        return str(args.name)
    names = [Path(args.model).name]
    if args.adapter is not None:
        adapter = Path(args.adapter).resolve()
        names.append(adapter.parent.name if adapter.name == "adapter" else adapter.name)
    return "+".join(names)
