"""Result tables as people read them: aligned text for the terminal, Markdown for a page, LaTeX for a paper.

CSV and JSON Lines come from `jaxeval.tables`; this file only turns the same rows into text.
"""

from __future__ import annotations

import unicodedata
from collections.abc import Mapping, Sequence
from typing import Any

from jaxeval.tables import Row


def cell(value: Any) -> str:
    """A value as all report tables write it: four decimals for scores, a dash for null."""
    if value is None:
        return "–"
    if isinstance(value, bool):
        return "yes" if value else "no"
    return f"{value:.4f}" if isinstance(value, float) else str(value)


def text_table(rows: Sequence[Row], columns: Sequence[str]) -> str:
    """Rows as aligned text with a rule under the header; numbers stand to the right."""
    lines = [list(columns), *[[cell(row.get(name)) for name in columns] for row in rows]]
    widths = [max(map(_width, column)) for column in zip(*lines, strict=True)]
    right = [numeric(rows, name) for name in columns]
    padded = ["  ".join(map(_pad, line, widths, right)).rstrip() for line in lines]
    return "\n".join([padded[0], "─" * (sum(widths) + 2 * (len(widths) - 1)), *padded[1:]])


def markdown_table(rows: Sequence[Row], columns: Sequence[str]) -> str:
    """Rows as a GitHub-flavoured Markdown table."""
    rule = ["---:" if numeric(rows, name) else "---" for name in columns]
    lines = [list(columns), rule, *[[_escaped(cell(row.get(name))) for name in columns] for row in rows]]
    return "".join(f"| {' | '.join(line)} |\n" for line in lines)


def latex_table(rows: Sequence[Row], columns: Sequence[str]) -> str:
    """Rows as a LaTeX `tabular` with the rules of the package booktabs."""
    kinds = "".join("r" if numeric(rows, name) else "l" for name in columns)
    lines = [" & ".join(_latex(row.get(name)) for name in columns) + r" \\" for row in rows]
    head = " & ".join(map(_latex, columns)) + r" \\"
    return "\n".join(
        [rf"\begin{{tabular}}{{{kinds}}}", r"\toprule", head, r"\midrule", *lines, r"\bottomrule", r"\end{tabular}", ""]
    )


def metric_label(name: str) -> str:
    """A metric as papers write it: `rouge_l` is ROUGE-L."""
    return name.upper().replace("_", "-")


def numeric(rows: Sequence[Mapping[str, Any]], column: str) -> bool:
    """Whether a column holds numbers, and so is aligned to the right."""
    return any(isinstance(row.get(column), int | float) for row in rows)


def _escaped(text: str) -> str:
    return " ".join(text.split()).replace("\\", "\\\\").replace("|", "\\|")


def _latex(value: Any) -> str:
    text = "".join(_LATEX.get(character, character) for character in " ".join(cell(value).split()))
    return f"$-${text[1:]}" if isinstance(value, int | float) and text.startswith("-") else text


_LATEX = {character: f"\\{character}" for character in "&%$#_{}"} | {
    "\\": r"\textbackslash{}",
    "~": r"\textasciitilde{}",
    "^": r"\textasciicircum{}",
    "<": r"\textless{}",
    ">": r"\textgreater{}",
    "|": r"\textbar{}",
    "[": "{[}",  # after a line's end it would be an argument
    "–": "--",
    "−": "$-$",
}


def _width(text: str) -> int:
    """Columns of a terminal that the text takes: wide East Asian characters take two."""
    return sum(2 if unicodedata.east_asian_width(character) in "WF" else 1 for character in text)


def _pad(text: str, width: int, right: bool) -> str:
    space = " " * (width - _width(text))
    return space + text if right else text + space
