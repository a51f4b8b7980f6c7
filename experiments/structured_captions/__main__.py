"""`python -m experiments.structured_captions`: can the scores of audio cards be trusted? The whole study.

Measures the recordings of `cards.jsonl`, audits the judge, the baselines and the scorers on them, and compares judges
with each other. Every step is one of the project's commands, printed before it runs; run again, it goes on.
"""

from __future__ import annotations

import argparse
import itertools
import shlex
import subprocess
import sys
from pathlib import Path

import numpy as np

from experiments.structured_captions.agreement import Agreement, read_agreement
from jaxeval.cards.schema import FIELDS, Axis
from jaxeval.errors import RunError, exit_code
from jaxeval.files import atomic_write, write_json
from jaxeval.reports.tables import markdown_table, text_table
from jaxeval.tables import Row

HERE = Path(__file__).parent
JUDGES = ("embedded", "bleu_1", "rouge_l", "soft_f1")
"""Who is compared where no endpoint is given; the first is what the others are compared with."""


def main() -> None:
    """Run the steps in order."""
    parser = argparse.ArgumentParser(prog="experiments.structured_captions", description=str(__doc__).splitlines()[0])
    parser.add_argument("--out", type=Path, default=Path("runs/structured_captions"), help="default %(default)s")
    parser.add_argument("--cards", type=Path, default=HERE / "cards.jsonl", help="text fields and recordings of cards")
    parser.add_argument("--judge", metavar="URL", help="an OpenAI-compatible endpoint, audited and compared too")
    parser.add_argument("--judge-option", action="append", default=[], metavar="NAME=VALUE", help="of that endpoint")
    args = parser.parse_args()
    out = args.out
    options = [part for option in args.judge_option for part in ("--judge-option", option)]

    _say("1. Measure loudness, pitch, events and spectrum of the recordings.")
    cards = out / "cards.jsonl"
    _run("jaxeval", "measure", args.cards, "--out", cards)

    _say("2. Perturb every card in every way, and see which scores notice what.")
    _run("jaxeval", "audit", "--references", cards, "--out", out / "audit")
    cells = out / "audit" / "cells.jsonl"
    if args.judge:
        judged = ("--judge", args.judge, *options)
        _run("jaxeval", "audit", "--references", cards, "--out", out / "audit_endpoint", *judged)

    _say("3. Ask the judges about the same texts, each in a process of its own.")
    files: list[Path] = []
    for judge in (*JUDGES, *([args.judge] if args.judge else [])):
        files.append(out / f"agreement_{len(files)}.json")
        mine = options if judge == args.judge else []
        inputs = ("--cards", cards, "--cells", cells, "--out", files[-1])
        _run("experiments.structured_captions.agreement", "--judge", judge, *inputs, *mine)
    rows = agreement_rows([read_agreement(file) for file in files])
    write_json(out / "agreement.json", {"rows": rows})
    columns = list(rows[0])
    with atomic_write(out / "agreement.md") as file:
        file.write(markdown_table(rows, columns))
    print(text_table(rows, columns))
    print(f"\nOpen {out / 'audit' / 'report.html'} for the curves, the verdicts and examples.")


def agreement_rows(found: list[Agreement]) -> list[Row]:
    """A row a judge: failures, cost, and Pearson's correlation of its scores with the first judge's, by axis."""
    first = found[0]
    axes = [axis for axis in Axis if axis in {FIELDS[name].axis for name in first.fields}]
    rows = []
    for one in found:
        correlations = {
            axis.value: _pearson(first, one, [FIELDS[name].axis is axis for name in first.fields]) for axis in axes
        }
        rows.append(
            {
                "judge": one.judge,
                "items": sum(score is not None or reason is not None for score, reason in one.verdicts()),
                "unscored": sum(reason is not None for _, reason in one.verdicts()),
                "seconds_a_card": round(one.seconds / one.cards, 3),
                "peak_memory_mb": round(one.memory_mb),
                "pearson": _pearson(first, one, itertools.repeat(True)),
                **correlations,
            }
        )
    return rows


def _pearson(first: Agreement, other: Agreement, chosen: object) -> float | None:
    """Correlation over the chosen items that both have scored; None where there is none."""
    pairs = [
        (a, b)
        for a, b, wanted in zip(first.scores, other.scores, chosen, strict=False)  # type: ignore[call-overload]
        if wanted and a is not None and b is not None
    ]
    if first is other or len(pairs) < 3:
        return None
    values = np.array(pairs).T
    return float(np.corrcoef(values)[0, 1]) if (np.ptp(values, axis=1) > 0).all() else None


def _say(step: str) -> None:
    print(f"\n{step}", flush=True)


def _run(module: str, *arguments: object) -> None:
    command = ["python", "-m", module, *map(str, arguments)]
    print(f"$ {shlex.join(command)}", flush=True)
    code = subprocess.run([sys.executable, *command[1:]]).returncode
    if code in (130, -2):
        raise KeyboardInterrupt
    if code:
        raise RunError(f"the step failed with exit code {code}; run the same command again to go on")


if __name__ == "__main__":
    sys.exit(exit_code(main))
