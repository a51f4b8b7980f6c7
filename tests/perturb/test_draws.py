"""Choices that depend on their key alone."""

from jaxeval.perturb.draws import fraction, pick, shuffled


def test_a_key_gives_the_same_number_for_ever():
    assert fraction(0, "a", "lufs", "scalar", "low") == 0.635640011090338
    assert fraction(0, "ab", "c") != fraction(0, "a", "bc")


def test_fractions_fill_their_range_evenly():
    values = [fraction(0, "card", index) for index in range(4000)]
    assert 0 <= min(values) < 0.01 < 0.99 < max(values) < 1
    assert abs(sum(values) / len(values) - 0.5) < 0.02


def test_every_option_is_picked_at_times():
    assert {pick("abc", 0, index) for index in range(50)} == set("abc")


def test_items_keep_their_order_when_others_join():
    few = shuffled(range(0, 40, 2), 0, "a")
    assert [item for item in shuffled(range(40), 0, "a") if item % 2 == 0] == few
    assert few != sorted(few)
