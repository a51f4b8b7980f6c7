"""`correlate`: joins, choices of columns, what a run folder holds, and one line for every wrong input."""

import json

import numpy as np
import pytest
from scipy import stats

from jaxeval.cli import main
from jaxeval.stats.columns import join_columns
from jaxeval.stats.report import RESULTS
from jaxeval.tables import read_table, write_table

FEW = ("--resamples", "200")


@pytest.fixture
def folder(tmp_path):
    """Scores of 40 items by 5 systems, and ratings by two raters each, the first item without one."""
    rng = np.random.default_rng(0)
    scores, ratings = [], []
    for number in range(40):
        quality = rng.normal()
        row = {
            "id": f"c{number}",
            "system": f"s{number % 5}",
            "model": "ours",
            "difference": "a dog",
            "truncated": False,
        }
        row |= {
            "difference_fense": quality + rng.normal(),
            "edit_score": quality,
            "constant": 1,
            "difference_spice": None,
        }
        scores.append(row)
        for rater in ("ann", "bob") if number else ():
            marks = np.clip(np.round(3 + quality + rng.normal(size=2)), 1, 5).tolist()
            ratings.append(
                dict(zip(("id", "system", "rater", "quality", "relevance", "fad", "comment"),
                         (row["id"], row["system"], rater, *marks, -quality, "ok"), strict=True))
            )  # fmt: skip
    write_table(tmp_path / "scores.jsonl", scores)
    write_table(tmp_path / "ratings.csv", ratings)
    return tmp_path


def correlate(folder, *flags, scores="scores.jsonl", ratings="ratings.csv", out="out"):
    files = ("--scores", str(folder / scores), "--ratings", str(folder / ratings), "--out", str(folder / out))
    return main(["correlate", *files, *FEW, *flags])


def rows_of(folder):
    return json.loads((folder / "out" / "summary.json").read_text())["correlations"]


def test_a_run_correlates_every_metric_with_every_column_at_both_levels(folder, capsys):
    assert correlate(folder, "--note", "a <remark>") == 0
    names = {path.name for path in (folder / "out").iterdir()}
    assert names == set(RESULTS) - {"differences.csv"}
    rows = rows_of(folder)
    keys = {(row["level"], row["metric"], row["column"]) for row in rows}
    metrics, columns = ("difference_fense", "edit_score", "constant"), ("quality", "relevance", "fad")
    assert keys == {(level, m, c) for level in ("utterance", "system") for m in metrics for c in columns}
    table = read_table(folder / "out" / "correlations.csv")
    assert len(table) == len(rows) and float(table[0]["lcc_low"]) < float(table[0]["lcc"]) == rows[0]["lcc"]
    page = (folder / "out" / "report.html").read_text()
    assert "a &lt;remark&gt;" in page and page.count("<picture>") == 6 and "http" not in page.split("<body>")[1][:2000]
    printed = capsys.readouterr().out
    assert "difference_fense" in printed and "column 'difference_spice' is left out: it is empty" in printed


def test_the_numbers_are_those_of_the_means_over_raters(folder):
    assert correlate(folder, "--metrics", "difference_fense", "--columns", "quality") == 0
    scores = {row["id"]: row for row in read_table(folder / "scores.jsonl")}
    given: dict[str, list[float]] = {}
    for row in read_table(folder / "ratings.csv"):
        given.setdefault(row["id"], []).append(float(row["quality"]))
    x = [scores[identity]["difference_fense"] for identity in given]
    y = [np.mean(marks) for marks in given.values()]
    utterance, system = rows_of(folder)
    assert (utterance["n"], utterance["dropped"], utterance["units"], utterance["resampled"]) == (39, 0, 39, "item")
    assert utterance["lcc"] == pytest.approx(stats.pearsonr(x, y).statistic, abs=1e-12)
    assert utterance["ktau"] == pytest.approx(stats.kendalltau(x, y).statistic, abs=1e-12)
    assert utterance["srcc_low"] < utterance["srcc"] < utterance["srcc_high"]
    of_system = [[int(identity[1:]) % 5 == number for identity in given] for number in range(5)]
    means = [[np.mean(np.array(values)[one]) for one in of_system] for values in (x, y)]
    assert system["n"] == 5 and system["srcc"] == pytest.approx(stats.spearmanr(*means).statistic, abs=1e-12)


def test_a_constant_column_is_undefined_by_name_and_null(folder, capsys):
    assert correlate(folder, "--metrics", "constant", "--columns", "quality") == 0
    for row in rows_of(folder):
        assert row["undefined"] == "constant is constant"
        assert [row[name] for name in ("lcc", "srcc", "ktau", "lcc_low", "ktau_high")] == [None] * 5
    assert "constant is constant" in capsys.readouterr().out
    assert "NaN" not in (folder / "out" / "summary.json").read_text()


def test_tables_for_papers_have_a_row_a_metric_and_a_column_a_coefficient(folder):
    assert correlate(folder, "--metrics", "difference_fense", "edit_score", "--columns", "quality", "fad") == 0
    lines = (folder / "out" / "utterance.tex").read_text().splitlines()
    assert lines[0] == r"\begin{tabular}{lrrrrrr}"
    assert lines[2] == r"metric & LCC quality & LCC fad & SRCC quality & SRCC fad & KTAU quality & KTAU fad \\"
    assert [line.split(" & ")[0] for line in lines[4:6]] == [r"difference\_fense", r"edit\_score"]


@pytest.mark.parametrize("cluster, units", [("system", 5), ("rater", 2)])
def test_systems_or_raters_are_resampled_where_asked(folder, cluster, units):
    assert correlate(folder, "--cluster", cluster, "--columns", "quality", "--metrics", "edit_score") == 0
    utterance, system = rows_of(folder)
    assert (utterance["resampled"], utterance["units"]) == (cluster, units)
    assert (system["resampled"], system["units"]) == ("system", 5)


def test_metrics_are_compared_with_one_of_them(folder):
    assert correlate(folder, "--against", "difference_fense", "--columns", "fad") == 0
    rows = json.loads((folder / "out" / "summary.json").read_text())["differences"]
    assert {(row["metric"], row["level"], row["coefficient"]) for row in rows} == {
        (metric, level, name)
        for metric in ("edit_score", "constant")
        for level in ("utterance", "system")
        for name in ("lcc", "srcc", "ktau")
    }
    best = next(row for row in rows if row["metric"] == "edit_score")
    assert (best["level"], best["coefficient"], best["column"]) == ("utterance", "lcc", "fad")
    # `fad` is the quality turned round: the edit score has -1, and so the lower coefficient.
    assert best["better"] == "difference_fense" and best["high"] < 0
    assert all(row["undefined"] == "constant is constant" for row in rows if row["metric"] == "constant")
    assert "Against difference_fense" in (folder / "out" / "report.html").read_text()


def test_scores_without_systems_go_with_the_ratings_of_all_systems(folder):
    scores = [{"id": f"c{number}", "length": number} for number in range(3)]
    ratings = [{"id": f"c{n}", "system": s, "quality": n + len(s)} for s in ("a", "bb") for n in range(4)]
    write_table(folder / "plain.parquet", scores)
    write_table(folder / "systems.jsonl", ratings)
    joined = join_columns(str(folder / "plain.parquet"), str(folder / "systems.jsonl"))
    assert joined.keys == [(f"c{n}", s) for s in ("a", "bb") for n in range(3)]
    assert joined.metrics["length"].tolist() == [0, 1, 2] * 2 and joined.targets["quality"].tolist() == [
        1,
        2,
        3,
        2,
        3,
        4,
    ]
    assert joined.notes == [f"{folder}/systems.jsonl: 2 of 8 rows are of items that the other table lacks."]
    turned = join_columns(str(folder / "systems.jsonl"), str(folder / "plain.parquet"))
    assert turned.keys == joined.keys and turned.targets["length"].tolist() == [0, 1, 2] * 2


def test_empty_cells_are_missing_and_other_words_leave_the_column_out(folder):
    cells = ["1", "", "NaN", "n/a", "inf", "4"]
    rows = [{"id": str(n), "a": cell, "b": "typo" if n == 3 else n, "c": "word"} for n, cell in enumerate(cells)]
    write_table(folder / "a.csv", rows)
    write_table(folder / "b.csv", [{"id": str(n), "q": n} for n in range(6)])
    joined = join_columns(str(folder / "a.csv"), str(folder / "b.csv"))
    assert list(joined.metrics) == ["a"]
    np.testing.assert_equal(joined.metrics["a"], [1, np.nan, np.nan, np.nan, np.nan, 4])
    assert joined.notes == [f"{folder}/a.csv: column 'b' is left out: id '3' has 'typo'."]


def test_equal_sets_of_ratings_have_equal_means_whoever_gave_which(folder):
    marks = [0.1, 0.2, 0.3]
    rows = [{"id": str(n), "rater": str(rater), "q": marks[(rater + n) % 3]} for n in range(3) for rater in range(3)]
    write_table(folder / "q.jsonl", rows)
    write_table(folder / "s.jsonl", [{"id": str(item), "m": item} for item in range(3)])
    joined = join_columns(str(folder / "s.jsonl"), str(folder / "q.jsonl"))
    assert len(set(joined.targets["q"].tolist())) == 1


def test_one_of_several_models_has_to_be_chosen(folder, capsys):
    rows = read_table(folder / "scores.jsonl")
    write_table(folder / "two.jsonl", rows + [row | {"model": "base", "edit_score": 0.5} for row in rows])
    assert correlate(folder, scores="two.jsonl") == 2
    assert "holds scores of several models (ours, base); choose one with --model" in capsys.readouterr().err
    assert correlate(folder, "--model", "base", "--metrics", "edit_score", scores="two.jsonl") == 0
    assert rows_of(folder)[0]["undefined"] == "edit_score is constant"
    assert correlate(folder, "--model", "other", scores="two.jsonl") == 2
    assert "no model 'other'; found ours, base" in capsys.readouterr().err


@pytest.mark.parametrize(
    "flags, message",
    [
        (("--metrics", "bleu"), "scores.jsonl: no column 'bleu'; found id, system,"),
        (("--columns", "comment"), "ratings.csv: id 'c1': column 'comment' holds 'ok', which is no number"),
        (("--against", "bleu"), "--against: no metric 'bleu'; there are difference_fense, edit_score, constant"),
        (("--cluster", "rater", "--against", "edit_score"), "--against: differences are resampled by item or system"),
        (("--confidence", "95"), "'95' does not lie between 0 and 1"),
        (("--resamples", "0"), "0 is not within 1 and"),
        (("--scores", "gone.csv"), "gone.csv: no such file"),
        (("--out", "."), "the current folder cannot be made anew"),
    ],
)
def test_wrong_input_is_one_line_and_nothing_is_written(folder, capsys, flags, message):
    assert correlate(folder, *flags) == 2
    lines = capsys.readouterr().err.strip().splitlines()
    assert message in lines[-1] and not (folder / "out").exists()


@pytest.mark.parametrize(
    "ratings, flags, message",
    [
        ([{"id": "c1", "quality": 1}, {"id": "c1", "quality": 2}], (), "row 2: duplicate id 'c1', first in row 1"),
        ([{"id": "x", "quality": 1}], (), "no id, or no id and system, that"),
        ([{"id": "c1", "comment": "good"}], (), "no column of numbers; found id, comment"),
        ([{"id": "c1", "quality": 1}], ("--cluster", "rater"), "has no column 'rater'"),
        (
            [{"id": "c1", "system": "s1", "q": 1}, {"id": "c2", "system": "", "q": 1}],
            (),
            "id 'c2' has no system, though",
        ),
        ([{"quality": 1}], (), "row 1: column 'id' is missing"),
    ],
)
def test_ratings_that_cannot_be_used_are_named(folder, capsys, ratings, flags, message):
    write_table(folder / "bad.jsonl", ratings)
    assert correlate(folder, *flags, ratings="bad.jsonl") == 2
    assert message in capsys.readouterr().err


ONE_PAIR = ("--metrics", "edit_score", "--columns", "quality")


def test_a_second_run_replaces_results_but_no_other_files(folder, capsys):
    assert correlate(folder, *ONE_PAIR) == 0 and correlate(folder, *ONE_PAIR) == 0
    (folder / "out" / "thesis.txt").write_text("mine")
    assert correlate(folder, *ONE_PAIR) == 2
    assert "holds 'thesis.txt', which is no result of this command" in capsys.readouterr().err


def test_the_same_run_gives_the_same_tables_and_figures(folder):
    assert correlate(folder, *ONE_PAIR) == 0 and correlate(folder, *ONE_PAIR, out="again") == 0
    for name in ("summary.json", "correlations.csv", "utterance_lcc.svg", "report.html"):
        assert (folder / "out" / name).read_bytes() == (folder / "again" / name).read_bytes()
