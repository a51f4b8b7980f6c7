"""The benchmark of the bootstrap compares like with like; how fast anything is, no test asks."""

import pytest

from benchmarks.bootstrap import compare


def test_both_sides_come_to_the_same_coefficients_and_are_timed():
    results = compare(items=60, resamples=100, part=10, rounds=1)
    assert {(result["column"], len(result["coefficients"])) for result in results} == {
        (kind, count) for kind in ("metric", "ratings") for count in (1, 2, 3)
    }
    for result in results:
        assert result["greatest_difference"] < 1e-6
        ours, loop = (min(result["times"][side]) for side in ("ours", "loop"))
        assert result["ratio"] == pytest.approx((loop / 10) / (ours / 100))
