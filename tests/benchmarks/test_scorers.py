"""The benchmark of scorers compares like with like and fills its table; how fast anything is, no test asks."""

import pytest

from benchmarks.scorers import compare, scaling


def test_the_loop_comes_to_the_scores_of_the_matrix_and_both_are_timed():
    result = compare(clips=3, most=8, rounds=1)
    assert result["cells"] == 3 * 16 and result["greatest_difference"] < 2e-6
    assert result["ratios"]["loop"] == pytest.approx(min(result["times"]["loop"]) / min(result["times"]["ours"]))


def test_the_table_of_sizes_has_a_row_for_every_power_of_ten():
    (row,) = scaling(largest=1000)
    assert row["cells"] == 1000 and row["seconds"] > 0 and row["peak_gigabytes"] > row["result_gigabytes"]
