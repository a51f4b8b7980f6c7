"""Verdicts: good metrics pass, every kind of bad one is named, and chance seldom raises an alarm."""

import numpy as np
import pytest

from jaxeval.stats.verdict import VerdictConfig, verdict

ERRORS = ("acoustic", "attribute", "hallucination")
CONFIG = VerdictConfig()
CLIPS = 40


def good(clips: int = CLIPS, seed: int = 0) -> dict[str, np.ndarray]:
    """Scores that fall by 0.2 with every severity and stay under paraphrase, with noise of 0.1 and 0.03."""
    rng = np.random.default_rng(seed)
    falling = 1 - 0.2 * np.arange(4)[:, None]
    scores = {name: falling + rng.normal(0, 0.1, (4, clips)) for name in ERRORS}
    return {**scores, "paraphrase": 1 + rng.normal(0, 0.03, (4, clips))}


def test_a_good_metric_passes():
    found = verdict(good(), CONFIG)
    assert (found.passes, found.reasons) == (True, ())
    for result in found.errors.values():
        assert result.falls
        assert [drop.mean for drop in result.drops] == pytest.approx([0.2, 0.4, 0.6], abs=0.05)
        assert result.monotone.weak == result.monotone.strict == pytest.approx(0.75, abs=0.15)


def test_a_constant_metric_fails_for_every_error_and_holds_under_paraphrase():
    found = verdict({name: np.ones((4, CLIPS)) for name in (*ERRORS, "paraphrase")}, CONFIG)
    assert [reason.split(":")[0] for reason in found.reasons] == list(ERRORS)
    assert found.control is not None
    assert found.control.equivalent


def test_a_metric_that_rewards_hallucination_is_named_for_it():
    scores = good()
    scores["hallucination"] = scores["hallucination"][::-1]
    found = verdict(scores, CONFIG)
    assert not found.passes
    assert [reason.split(":")[0] for reason in found.reasons] == ["hallucination"]
    assert found.errors["hallucination"].trend.correlation == pytest.approx(-0.9, abs=0.1)


def test_a_metric_that_falls_under_paraphrase_is_named_for_every_severity():
    scores = good()
    scores["paraphrase"] = scores["acoustic"]
    found = verdict(scores, CONFIG)
    assert [reason.split(":")[0] for reason in found.reasons] == [
        f"paraphrase, severity {number} of 3" for number in (1, 2, 3)
    ]


def test_a_metric_that_only_tells_perfect_from_imperfect_does_not_follow_severity():
    scores = good()
    scores["attribute"] = np.array([1.0, 0, 0, 0])[:, None] * np.ones(CLIPS)
    assert [reason.split(":")[0] for reason in verdict(scores, CONFIG).reasons] == ["attribute"]


def test_what_changed_nothing_is_counted_and_left_out():
    scores = good()
    changed = {"attribute": np.ones((3, CLIPS), bool), "paraphrase": np.ones((3, CLIPS), bool)}
    changed["attribute"][1, :5] = False
    changed["paraphrase"][0, :7] = False
    scores["attribute"][:, :5] = 1
    found = verdict(scores, CONFIG, changed=changed)
    assert (found.errors["attribute"].unchanged, found.errors["attribute"].trend.clips) == (5, CLIPS - 5)
    assert found.control is not None
    assert (found.control.unchanged, [test.clips for test in found.control.severities]) == (7, [33, 40, 40])
    assert found.errors["acoustic"].unchanged == 0


def test_unscored_cells_are_counted_and_do_not_stop_the_verdict():
    scores = good()
    scores["acoustic"][2, :4] = np.nan
    scores["paraphrase"][1, 0] = np.nan
    found = verdict(scores, CONFIG)
    assert found.passes
    assert found.errors["acoustic"].trend.dropped == 4
    assert [drop.dropped for drop in found.errors["acoustic"].drops] == [0, 4, 0]
    assert found.control is not None
    assert [test.dropped for test in found.control.severities] == [1, 0, 0]


def test_nothing_scored_is_undefined_and_no_crash():
    scores = good()
    scores["acoustic"] = np.full((4, CLIPS), np.nan)
    found = verdict(scores, CONFIG)
    assert found.reasons == ("acoustic: undefined, 0 clips scored, at least 2 are needed",)
    assert [drop.mean for drop in found.errors["acoustic"].drops] == [None] * 3
    assert found.errors["acoustic"].monotone.strict is None


def test_without_a_control_or_without_errors_nothing_passes():
    scores = good()
    del scores["paraphrase"]
    assert verdict(scores, CONFIG).reasons == ("paraphrase: not scored",)
    assert verdict({"paraphrase": good()["paraphrase"]}, CONFIG).reasons == ("no type of error was scored",)


def test_the_same_scores_give_the_same_verdict():
    assert verdict(good(), CONFIG) == verdict(good(), CONFIG)


def test_scores_without_severities_and_masks_of_another_shape_are_refused():
    with pytest.raises(ValueError, match="acoustic: no severity"):
        verdict({"acoustic": np.ones((1, 5))}, CONFIG)
    with pytest.raises(ValueError, match=r"acoustic: changed has shape \(4, 40\), expected \(3, 40\)"):
        verdict(good(), CONFIG, changed={"acoustic": np.ones((4, CLIPS), bool)})


@pytest.mark.parametrize("clips", [8, 30])
def test_a_metric_of_pure_chance_raises_no_more_alarms_than_the_level_says(clips):
    seeds = 200
    alarms = passed = 0
    for seed in range(seeds):
        scores = np.random.default_rng(seed).uniform(size=(4, 4, clips))
        found = verdict(dict(zip((*ERRORS, "paraphrase"), scores, strict=True)), CONFIG)
        alarms += any(result.falls for result in found.errors.values())
        passed += found.passes
    assert alarms / seeds <= CONFIG.level + 2 * np.sqrt(CONFIG.level * (1 - CONFIG.level) / seeds)
    assert passed == 0
