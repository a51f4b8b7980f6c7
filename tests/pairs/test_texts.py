"""Wordings of differences and captions."""

import pytest

from jaxeval.pairs.texts import DIFFERENCES, OPERATIONS, WORDINGS, difference, scene_caption


def test_every_operation_has_as_many_wordings():
    assert tuple(DIFFERENCES) == OPERATIONS
    assert {len(templates) for templates in DIFFERENCES.values()} == {WORDINGS}


@pytest.mark.parametrize(
    ("caption", "clause"),
    [
        ("A dog barks.", "a dog barks."),
        ("Fingers snap", "fingers snap."),
        ("TV static hisses.", "TV static hisses."),
        ("I hear rain.", "I hear rain."),
        ("Stop! A door slams!", "stop! A door slams!"),
        ("1 click.", "1 click."),
    ],
)
def test_a_caption_follows_the_colon_as_part_of_the_sentence(caption, clause):
    assert difference("add", 0, caption) == f"Add this sound: {clause}"


def test_a_replacement_names_both_sounds():
    assert difference("replace", 2, "A dog barks.", "Rain falls") == (
        "Swap one sound for another. Before: a dog barks. After: rain falls."
    )


def test_a_mix_is_captioned_by_its_parts_in_order():
    assert scene_caption(["Wind howls", "A dog barks."]) == "Wind howls. A dog barks."
