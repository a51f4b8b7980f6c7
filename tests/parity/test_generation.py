"""Greedy tokens equal those of transformers' `generate`, padded rows of different length together."""

import numpy as np
import pytest
import torch

from jaxeval.generation import Sampling, generate
from tests.parity.conftest import SHAPES
from tests.parity.test_model import bucketed, make_batch

STEPS = 32


@pytest.mark.parametrize("shape", SHAPES)
@pytest.mark.parametrize("penalty", [1.0, 1.3])
def test_thirty_two_greedy_tokens(pair, shape, penalty):
    models = pair(shape)
    batch = make_batch(models, side="left")
    tensors = {name: torch.from_numpy(value) for name, value in batch.items()}
    with torch.no_grad():
        reference = models.reference.generate(
            **tensors,
            max_new_tokens=STEPS,
            min_new_tokens=STEPS,
            do_sample=False,
            repetition_penalty=penalty,
            eos_token_id=None,
            pad_token_id=models.processor.pad_id,
        ).numpy()[:, -STEPS:]
    assert len(np.unique(reference)) > 8
    models.model.config = models.model.config.replace(eos_token_ids=())
    ours = generate(models.model, bucketed(batch), STEPS, sampling=Sampling(repetition_penalty=penalty))
    np.testing.assert_array_equal(ours, reference)
