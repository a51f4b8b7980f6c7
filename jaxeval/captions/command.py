"""`python -m jaxeval metrics`: predicted captions against references, as tables, a figure and a page to listen to.

Comes after `describe`: joins one or more candidate tables with the references on `id` (and on `system` where both
have it), scores every text column that both have, and writes a run folder. Several candidate files are several models
side by side.
"""

from __future__ import annotations

import argparse
import contextlib
import json
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from tqdm import tqdm

from jaxeval import arguments
from jaxeval.captions.metrics import METRICS, caption_metrics
from jaxeval.edits.prompts import TASKS
from jaxeval.errors import InputError
from jaxeval.files import check_replaceable, environment, whole_folder, write_json
from jaxeval.reports.caption_page import Answer, Item, Prediction, write_page
from jaxeval.reports.figures import figure_bytes, score_bars
from jaxeval.reports.html import select
from jaxeval.reports.tables import markdown_table, text_table
from jaxeval.tables import Row, audio_path, read_table, write_table

RECORDINGS = {"Original": "original_audio", "Edited": "edited_audio"}
FACTS = ("operation", "instruction", "split")
SORTED_BY = "rouge_l"
RESULTS = (
    "config.json",
    "environment.json",
    "items.jsonl",
    "summary.json",
    "summary.csv",
    "summary.md",
    "scores.png",
    "scores.svg",
    "report.html",
)
"""What a run folder holds, and all that a second run may replace."""

Key = tuple[str, ...]


@dataclass(frozen=True)
class Model:
    """The predictions of one model.

    Attributes:
        name: as tables show it.
        rows: its table by key.
    """

    name: str
    rows: dict[Key, Row]


@dataclass(frozen=True)
class Joined:
    """Candidates and references, joined and checked.

    Attributes:
        keys: the items, in the order of the first candidate file.
        models: one a candidate file, each with a row for every key.
        reference_rows: the row of the references for every key; systems may share one.
        references: caption texts by task and key.
        predicted: rows of the references that the candidates are about, each once.
        unpredicted: the other rows of the references.
    """

    keys: list[Key]
    models: list[Model]
    reference_rows: dict[Key, Row]
    references: dict[str, dict[Key, list[str]]]
    predicted: list[Row]
    unpredicted: list[Row]


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Flags of the command."""
    parser.add_argument(
        "--candidates",
        nargs="+",
        required=True,
        type=arguments.path,
        metavar="FILE",
        help="tables of `describe`, one a model",
    )
    parser.add_argument(
        "--references",
        required=True,
        type=arguments.path,
        metavar="FILE",
        help="table of texts or lists of texts",
    )
    parser.add_argument("--out", required=True, type=arguments.path, metavar="DIR", help="folder for the results")
    parser.add_argument(
        "--columns", nargs="+", metavar="NAME", help=f"text columns to score (default: {' and '.join(TASKS)})"
    )
    parser.add_argument(
        "--page-items", type=arguments.positive, default=50, metavar="N", help="items on the page, at most (default 50)"
    )
    parser.add_argument(
        "--note", action="append", default=[], metavar="TEXT", help="a remark on top of the page; may be repeated"
    )


def run(args: argparse.Namespace) -> None:
    """Join, score, write the run folder, print the table."""
    check_replaceable(args.out, RESULTS)
    joined = join(args.candidates, args.references, args.columns)
    summary, item_rows, items = score(joined, args.references)
    coverage = _coverage(joined)
    columns = ["model", "task", "items", "truncated", *METRICS]
    figure = score_bars(summary, METRICS)
    chosen, shown = select(items, args.page_items)
    with whole_folder(args.out) as out:
        settings = {name: value for name, value in vars(args).items() if name in _SETTINGS}
        write_json(out / "config.json", {"command": "metrics", **settings})
        write_json(out / "environment.json", environment())
        write_table(out / "items.jsonl", item_rows)
        write_json(out / "summary.json", {"coverage": coverage, "notes": args.note, "scores": summary})
        write_table(out / "summary.csv", summary, columns)
        (out / "summary.md").write_text(f"{markdown_table(summary, columns)}\n{coverage}\n", encoding="utf-8")
        for kind in ("png", "svg"):
            (out / f"scores.{kind}").write_bytes(figure_bytes(figure, kind))
        write_page(
            out / "report.html",
            title="Predicted captions against references",
            summary=summary,
            columns=columns,
            metrics=METRICS,
            items=tqdm(chosen, desc="page", unit="item", leave=False),
            shown=f"{coverage} {shown}",
            score_name="mean ROUGE-L over tasks and models",
            notes=args.note,
        )
    print(text_table(summary, columns))
    print(f"\n{coverage}\nreport: {Path(args.out) / 'report.html'}")


_SETTINGS = ("candidates", "references", "out", "columns", "page_items", "note")


def join(candidate_paths: Sequence[str], reference_path: str, columns: Sequence[str] | None = None) -> Joined:
    """Read and check the tables; a reference without a prediction is fine, the other way round is not.

    Raises:
        InputError: a duplicate or unknown id, models about different items or of one name, no column to score, a
        value that is
            not text.
    """
    reference_table = read_table(reference_path, required=("id",))
    tables = [read_table(path, required=("id",)) for path in candidate_paths]
    on_system = _has_system(reference_table) and all(map(_has_system, tables))
    reference_rows = _by_key(reference_path, reference_table, _has_system(reference_table) and on_system)
    models = [
        Model(name, _by_key(path, table, _has_system(table)))
        for name, path, table in zip(_names(candidate_paths, tables), candidate_paths, tables, strict=True)
    ]
    keys = list(models[0].rows)
    for path, model in zip(candidate_paths, models, strict=True):
        for key in model.rows:
            if _lookup(key, on_system) not in reference_rows:
                raise InputError(f"{path}: {_named(key)} is not in {reference_path}")
        if different := model.rows.keys() ^ models[0].rows.keys():
            missing = min(different)
            has, lacks = (path, candidate_paths[0]) if missing in model.rows else (candidate_paths[0], path)
            raise InputError(
                f"{lacks}: no prediction for {_named(missing)}, which {has} has; all models need the same items"
            )
    tasks = _tasks(columns, reference_path, reference_table, candidate_paths, tables)
    for path, model in zip(candidate_paths, models, strict=True):
        for key, row in model.rows.items():
            for task in tasks:
                if not isinstance(row.get(task), str):
                    raise InputError(
                        f"{path}: {_named(key)}: column {task!r} is not text but {type(row.get(task)).__name__}"
                    )
    used = {key: reference_rows[_lookup(key, on_system)] for key in keys}
    predicted = {_lookup(key, on_system) for key in keys}
    return Joined(
        keys=keys,
        models=models,
        reference_rows=used,
        references={task: {key: _texts(reference_path, key, task, row) for key, row in used.items()} for task in tasks},
        predicted=[row for key, row in reference_rows.items() if key in predicted],
        unpredicted=[row for key, row in reference_rows.items() if key not in predicted],
    )


def score(joined: Joined, reference_path: str) -> tuple[list[Row], list[Row], list[Item]]:
    """Score every model and task.

    Returns:
        `(summary, item_rows, items)`: a row for each model and task with the corpus values, a row for each model and
        item with the values of the item, and the items as the page shows them.
    """
    summary: list[Row] = []
    values: dict[tuple[str, str], dict[Key, dict[str, float]]] = {}
    for task, references in joined.references.items():
        for model in joined.models:
            corpus, each = caption_metrics(
                [model.rows[key][task] for key in joined.keys], [references[key] for key in joined.keys], METRICS
            )
            values[model.name, task] = dict(zip(joined.keys, each, strict=True))
            cut = sum(_truncated(row) for row in model.rows.values())
            summary.append({"model": model.name, "task": task, "items": len(joined.keys), "truncated": cut, **corpus})
    item_rows = []
    for model in joined.models:
        for key in joined.keys:
            row = dict(zip(("id", "system"), key, strict=False)) | {
                "model": model.name,
                "truncated": _truncated(model.rows[key]),
            }
            for task, references in joined.references.items():
                row |= {task: model.rows[key][task], f"{task}_reference": references[key]}
                row |= {f"{task}_{name}": value for name, value in values[model.name, task][key].items()}
            item_rows.append(row)
    return summary, item_rows, [_page_item(joined, values, key, reference_path) for key in joined.keys]


def _page_item(
    joined: Joined, values: dict[tuple[str, str], dict[Key, dict[str, float]]], key: Key, reference_path: str
) -> Item:
    answers = []
    for task, references in joined.references.items():
        predictions = [
            Prediction(model.name, model.rows[key][task], values[model.name, task][key], _truncated(model.rows[key]))
            for model in joined.models
        ]
        answers.append(Answer(task, references[key], predictions))
    row = joined.reference_rows[key]
    scores = [by_key[key][SORTED_BY] for by_key in values.values()]
    return Item(
        title=" · ".join(key),
        score=sum(scores) / len(scores),
        answers=answers,
        facts={name: str(row[name]) for name in FACTS if row.get(name)},
        recordings={
            label: audio_path(reference_path, str(row[name])) for label, name in RECORDINGS.items() if row.get(name)
        },
    )


def _coverage(joined: Joined) -> str:
    """How many of the references the predictions are about, by split where the references have one."""
    unpredicted = len(joined.unpredicted)
    if not unpredicted:
        return "Every reference has a prediction."
    splits = Counter(str(row.get("split") or "") for row in joined.predicted)
    total = splits + Counter(str(row.get("split") or "") for row in joined.unpredicted)
    named = [f"{split} {splits[split]} of {count}" for split, count in total.items() if split]
    by_split = f" By split: {', '.join(named)}." if named else ""
    return f"{unpredicted} of the {sum(total.values())} references have no prediction and are left out.{by_split}"


def _tasks(
    columns: Sequence[str] | None,
    reference_path: str,
    references: list[Row],
    candidate_paths: Sequence[str],
    tables: list[list[Row]],
) -> list[str]:
    """The text columns to score: those asked for, or those of `TASKS` that every file has."""
    sources = [(reference_path, references), *zip(candidate_paths, tables, strict=True)]
    found = {path: {name for row in rows for name in row} for path, rows in sources}
    if columns is None:
        shared = [task for task in TASKS if all(task in names for names in found.values())]
        if not shared:
            path = next(path for path, names in found.items() if not names & set(TASKS))
            raise InputError(f"{path}: no column {' or '.join(map(repr, TASKS))}; name the text columns with --columns")
        return shared
    for path, names in found.items():
        for column in columns:
            if column not in names:
                raise InputError(f"{path}: no column {column!r}; found {', '.join(sorted(names))}")
    return list(dict.fromkeys(columns))


def _names(paths: Sequence[str], tables: list[list[Row]]) -> list[str]:
    """Name of each model: its `model` column, or the file names where that does not tell the files apart."""
    stems = [Path(path).stem for path in paths]
    stated = [{str(row["model"]) for row in table if row.get("model")} for table in tables]
    columns = [names.pop() if len(names) == 1 else stem for names, stem in zip(stated, stems, strict=True)]
    for names in (columns, stems):
        if len(set(names)) == len(names):
            return names
    repeated = next(stem for stem, count in Counter(stems).items() if count > 1)
    raise InputError(f"--candidates: two files are named {repeated!r} and their `model` columns do not tell them apart")


def _by_key(path: str, rows: list[Row], on_system: bool) -> dict[Key, Row]:
    keyed: dict[Key, Row] = {}
    for number, row in enumerate(rows, 1):
        key = (str(row["id"]), str(row.get("system") or "")) if on_system else (str(row["id"]),)
        if key in keyed:
            raise InputError(f"{path}: row {number}: {_named(key)} occurs twice")
        keyed[key] = row
    return keyed


def _lookup(key: Key, on_system: bool) -> Key:
    """The key of the reference that a candidate is scored against."""
    return key if on_system else key[:1]


def _has_system(rows: list[Row]) -> bool:
    return any(row.get("system") for row in rows)


def _named(key: Key) -> str:
    return ", ".join(f"{column} {value!r}" for column, value in zip(("id", "system"), key, strict=False))


def _texts(path: str, key: Key, column: str, row: Row) -> list[str]:
    """References of an item: a string or a list of strings; in CSV the list is written as JSON."""
    value: Any = row.get(column)
    if isinstance(value, str) and Path(path).suffix.lower() == ".csv" and value.startswith("["):
        with contextlib.suppress(json.JSONDecodeError):
            value = json.loads(value)
    texts = [value] if isinstance(value, str) else value
    if not isinstance(texts, list) or not texts or not all(isinstance(text, str) for text in texts):
        raise InputError(f"{path}: {_named(key)}: column {column!r} is neither a text nor a list of texts")
    return texts


def _truncated(row: Row) -> bool:
    return str(row.get("truncated")).lower() in ("true", "1")
