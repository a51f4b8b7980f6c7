"""The benchmarks run, say what they measured, and fail in one line; how fast anything is, no test asks."""

import json
import os
import subprocess
import sys
from pathlib import Path

import jax
import numpy as np
import pytest

from benchmarks.parity_bf16 import differences
from benchmarks.sides import Side, summary
from benchmarks.workload import Workload, make_batch
from jaxeval.checkpoint import abstract_model
from jaxeval.errors import RunError
from jaxeval.models.config import config_from_hf

ROOT = Path(__file__).resolve().parents[2]
ONE_CPU = os.environ | {"JAX_PLATFORMS": "cpu", "XLA_FLAGS": "", "PYTHON": sys.executable}
ABOUT = {"platform": "gpu", "flops": 5e12, "peak_flops": 1e13}


def run(*command: str | Path) -> subprocess.CompletedProcess[str]:
    return subprocess.run(list(map(str, command)), env=ONE_CPU, cwd=ROOT, capture_output=True, text=True, timeout=300)


def answer(seconds: float, **more: float) -> dict[str, float | None]:
    return {"seconds": seconds, "cpu_seconds": 2 * seconds, "tokens": 100, "peak_bytes": None} | more


def test_the_accelerator_script_goes_through_parity_lora_steps_and_decoding_and_records_what_fails(tmp_path):
    out = tmp_path / "out.json"
    done = run("benchmarks/accelerator.sh", out, "--smoke")
    assert done.returncode == 0, done.stderr
    report = json.loads(out.read_text())
    steps = report["steps"]
    assert list(steps) == ["parity_bf16", "lora_xla", "lora_cudnn", "decode"]
    assert [row["attention"] for row in steps["parity_bf16"]["results"]] == ["xla", "xla"]
    assert max(row["relative_error"] for row in steps["parity_bf16"]["results"]) < 3e-2
    (step,) = steps["lora_xla"]["results"]
    assert np.isfinite(step["sides"]["ours"]["loss"]) and step["sides"]["ours"]["tokens_per_second"] > 0
    assert "ours" in steps["lora_cudnn"]["error"] and "results" not in steps["lora_cudnn"]
    assert steps["decode"]["results"][0]["ratio"] is None
    assert [name for name, one in steps.items() if "error" in one] == ["lora_cudnn"]
    assert report["environment"]["devices"] == ["cpu:cpu"]


def test_the_accelerator_script_refuses_a_machine_without_one_in_one_line(tmp_path):
    out = tmp_path / "out.json"
    done = run("benchmarks/accelerator.sh", out)
    assert done.returncode == 2
    assert done.stderr == "error: jax finds no GPU or TPU here; `--smoke` tries the script on the CPU\n"
    assert not out.exists()


@pytest.mark.parametrize("script", ["lora_step", "decode"])
def test_sizes_that_do_not_fit_each_other_are_refused_in_one_line(script):
    done = run(sys.executable, "-m", f"benchmarks.{script}", "--text", "4")
    assert done.returncode == 2
    assert done.stderr.startswith("error: --text is 4, expected at least 4 more") and done.stderr.count("\n") == 1


def test_the_7b_preset_has_the_parameters_of_the_real_model():
    model = abstract_model(config_from_hf(Workload(preset="7b").hf_config()))
    assert sum(leaf.size for leaf in jax.tree.leaves(model)) == 8_397_094_912


def test_both_sides_get_the_same_tokens_and_features_whatever_they_pad_to():
    work = Workload(preset="tiny", batch=2, seconds=1)
    ours, theirs = (make_batch(work, work.hf_config(), frames) for frames in (102, 3000))
    np.testing.assert_array_equal(ours["input_ids"], theirs["input_ids"])
    np.testing.assert_array_equal(ours["input_features"], theirs["input_features"][..., :102])
    assert ours["feature_attention_mask"].sum() == theirs["feature_attention_mask"].sum() == 2 * 2 * 100


def test_ten_second_clips_and_128_tokens_of_text_make_rows_of_628():
    work = Workload()
    batch = make_batch(work, work.hf_config(), 1002)
    assert batch["input_ids"].shape == (4, work.length) == (4, 628)
    assert (batch["input_ids"] == work.hf_config()["audio_token_index"]).sum() == 4 * 2 * 250


def test_the_minimum_counts_and_mfu_follows_from_it():
    found = summary(ABOUT, [answer(3.0, loss=2.0), answer(1.0, loss=1.5), answer(2.0, loss=1.0)])
    assert (found["minimum"], found["median"], found["loss"]) == (1.0, 2.0, 1.0)
    assert (found["tokens_per_second"], found["mfu"]) == (100.0, 0.5)


def test_a_loss_that_is_not_finite_fails():
    with pytest.raises(RunError, match="not finite"):
        summary(ABOUT, [answer(1.0, loss=float("nan"))])


def test_a_side_that_dies_is_named():
    with Side("ours", "benchmarks.no_such_module") as side, pytest.raises(RunError, match="ours: its process ended"):
        side.prepare("decode", Workload())


def test_differences_are_relative_and_count_equal_choices():
    expected = np.array([[3.0, 4.0], [1.0, 0.0]])
    assert differences(expected, expected) == {"relative_error": 0.0, "argmax_agreement": 1.0}
    swapped = differences(np.array([[4.0, 3.0], [1.0, 0.0]]), expected)
    assert swapped["relative_error"] == pytest.approx((2 / 26) ** 0.5)
    assert swapped["argmax_agreement"] == 0.5
