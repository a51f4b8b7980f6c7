"""Agreement tables and Cohen's kappa."""

import numpy as np
import pytest

from jaxeval.stats import agreement_of, agreement_table, cohen_kappa

PUBLISHED = [[3228, 492], [2066, 2675]]


def test_the_published_counts_give_the_published_agreement_and_kappa():
    found = agreement_of(PUBLISHED)
    assert (found.agreement, found.kappa) == (pytest.approx(0.698, abs=5e-4), pytest.approx(0.413, abs=5e-4))
    assert cohen_kappa(PUBLISHED) == found.kappa


def test_labels_are_counted_into_a_table():
    first, second = ["kept", "kept", "damaged", "damaged"], ["kept", "damaged", "damaged", "damaged"]
    found = agreement_table(first, second)
    assert found.labels == ("damaged", "kept")
    assert found.counts.tolist() == [[2, 0], [1, 1]]
    assert found.agreement == 0.75 and found.kappa == pytest.approx(0.5)
    assert cohen_kappa(first, second) == found.kappa


def test_kappa_of_labels_is_that_of_their_counts():
    rng = np.random.default_rng(0)
    first, second = rng.integers(1, 6, (2, 300)).tolist()
    found = agreement_table(first, second, labels=(1, 2, 3, 4, 5))
    assert found.counts.sum() == 300 and cohen_kappa(first, second) == found.kappa
    assert found.kappa == pytest.approx(0, abs=0.1)


def test_raters_who_agree_have_kappa_1_and_those_who_never_do_a_negative_one():
    assert cohen_kappa([[5, 0], [0, 7]]) == 1
    assert cohen_kappa([[0, 5], [5, 0]]) == -1


def test_kappa_is_undefined_where_nothing_could_differ():
    assert agreement_of([[5, 0], [0, 0]]).undefined == "both use one label only"
    assert agreement_of([[0, 0], [0, 0]]).undefined == "no items"
    assert cohen_kappa(["a", "a"], ["a", "a"]) is None


@pytest.mark.parametrize("counts", [[1, 2, 3], [[1, 2]], [[1, -1], [0, 2]], [[1, np.nan], [0, 2]]])
def test_what_is_no_table_of_counts_is_refused(counts):
    with pytest.raises(ValueError, match="a square table of counts"):
        agreement_of(counts)


def test_labels_must_be_known_and_of_the_same_items():
    with pytest.raises(ValueError, match="unknown label 'c'"):
        agreement_table(["a", "c"], ["a", "b"], labels=["a", "b"])
    with pytest.raises(ValueError, match="not of the same items"):
        agreement_table(["a"], ["a", "b"])
