"""Many tests at once: Holm's step-down correction."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np


def holm(p_values: Sequence[float | None]) -> list[float | None]:
    """Adjusted p-values in the order given (Holm, "A simple sequentially rejective multiple test procedure", 1979).

    Rejecting where the adjusted value is at most α keeps the chance of any false rejection at α, whatever the
    dependence between the tests.

    Args:
        p_values: one a test; None for a test that is undefined, which stays None and does not count.
    """
    defined = [index for index, p_value in enumerate(p_values) if p_value is not None]
    values = np.array([p_values[index] for index in defined], np.float64)
    order = np.argsort(values, kind="stable")
    stepped = np.maximum.accumulate(values[order] * np.arange(len(values), 0, -1)).clip(max=1)
    adjusted: list[float | None] = [None] * len(p_values)
    for position, value in zip(order, stepped, strict=True):
        adjusted[defined[position]] = float(value)
    return adjusted
