"""LCC, SRCC and KTAU of the same items under many weights at once: where the bootstrap spends its time.

A resample only says how often each item was drawn, so it is a column of weights, and the order of the values stays
what it was. They are sorted once; ranks and concordant pairs under any weights are then running totals down the sorted
items. All arrays are [item, resample], so that every step is a plain operation on rows.

NumPy and not jax: the number of items differs from one pair of columns to the next, and each would be compiled anew,
which takes longer than the work.
"""

from __future__ import annotations

import functools
import math

import numpy as np

COEFFICIENTS = ("lcc", "srcc", "ktau")

_BLOCK = 16
"""Rows that are added up one after the other; longer runs are cut into such blocks."""
_LEAF = 32
"""Items among which all pairs are compared with each other; larger sets are halved."""
_STRETCH = 64
"""Rows whose products are added up in the type of the weights: of whole numbers, float32 still holds such a sum."""
_CONSTANT = 1e-12
"""Spread, as a share of the greatest possible one, below which a column is constant but for rounding."""
_CANCELS = 1e-2
"""Variance over mean square below which one pass over the moments loses too many digits."""


class Scratch:
    """Arrays that are used again and again: fresh memory costs more than the arithmetic. One thread at a time."""

    def __init__(self, dtype: type[np.floating] = np.float64):
        """Hold arrays of the type that the weights have."""
        self.dtype = dtype
        self._held: dict[str, np.ndarray] = {}

    def __call__(self, name: str, rows: int, columns: int) -> np.ndarray:
        """An array [rows, columns] with any content, which ends the life of the last one of that name."""
        held = self._held.get(name)
        if held is None or held.size < rows * columns:
            held = self._held[name] = np.empty(rows * columns, self.dtype)
        return held[: rows * columns].reshape(rows, columns)

    def take(self, name: str, source: np.ndarray, rows: np.ndarray) -> np.ndarray:
        """Rows of `source`, in an array of that name."""
        return np.take(source, rows, axis=0, out=self(name, len(rows), source.shape[1]), mode="clip")

    def totals(self, name: str, weights: np.ndarray, order: np.ndarray) -> np.ndarray:
        """Running totals [1 + len(order), resample] of rows in an order; the first is 0."""
        totals = self(name, 1 + len(order), weights.shape[1])
        totals[0] = 0
        np.take(weights, order, axis=0, out=totals[1:], mode="clip")
        _accumulate(totals[1:])
        return totals


class Groups:
    """Equal values of a column, in rising order.

    Attributes:
        order: items sorted by value.
        starts, ends: where in `order` each group begins and ends.
        of_item: the group of each item.
    """

    def __init__(self, values: np.ndarray):
        self.order = np.argsort(values, kind="stable")
        in_order = values[self.order]
        is_first = np.concatenate([np.ones(1, bool), in_order[1:] != in_order[:-1]])
        self.starts = np.flatnonzero(is_first)
        self.ends = np.append(self.starts[1:], len(values))
        self.of_item = np.empty(len(values), np.int64)
        self.of_item[self.order] = np.cumsum(is_first) - 1

    def __len__(self) -> int:
        return len(self.starts)

    def totals(self, weights: np.ndarray, scratch: Scratch) -> tuple[np.ndarray, np.ndarray]:
        """Weight [group, resample] of the items below each group, and of those up to its end."""
        running = scratch.totals("running", weights, self.order)
        if len(self) == len(weights):
            return running[:-1], running[1:]
        return scratch.take("below", running, self.starts), scratch.take("upto", running, self.ends)

    def power_sum(self, weights: np.ndarray, power: int, scratch: Scratch) -> np.ndarray:
        """Sum over groups of their weight to a power, [resample]."""
        if len(self) == len(weights):
            return _dot(*[weights] * power)
        below, upto = self.totals(weights, scratch)
        return _power_sum(np.subtract(upto, below, out=upto), power)


class WeightedPair:
    """Two columns, made ready to be correlated under any weights of their items.

    Args of all methods: weights [item, resample], none negative. Returns [resample] in float64, NaN where a column is
    constant among the items that have a weight. A weight of 2 is the same as having the item twice.
    """

    def __init__(self, x: np.ndarray, y: np.ndarray):
        """Take columns [item] of finite values."""
        self.x_groups, self.y_groups = Groups(x), Groups(y)
        self.x, self.y = _standardized(x), _standardized(y)

    @property
    def items(self) -> int:
        """How many there are."""
        return len(self.x)

    @functools.cached_property
    def _pairs(self) -> _Pairs:
        return _Pairs(self.x_groups, self.y_groups)

    def correlate(self, coefficient: str, weights: np.ndarray, scratch: Scratch) -> np.ndarray:
        """One of `COEFFICIENTS`, by its name."""
        return {"lcc": self.lcc, "srcc": self.srcc, "ktau": self.ktau}[coefficient](weights, scratch)

    def lcc(self, weights: np.ndarray, scratch: Scratch) -> np.ndarray:
        """Pearson's correlation."""
        x, y = self.x, self.y
        moments = np.stack([np.ones_like(x), x, y, x * x, x * y, y * y]).astype(weights.dtype)
        total, sum_x, sum_y, sum_xx, sum_xy, sum_yy = _in_chunks(moments, weights)
        var_x = sum_xx - sum_x**2 / total
        var_y = sum_yy - sum_y**2 / total
        with np.errstate(invalid="ignore", divide="ignore"):
            found = (sum_xy - sum_x * sum_y / total) / np.sqrt(var_x * var_y)
        for resample in np.flatnonzero(~((var_x > _CANCELS * sum_xx) & (var_y > _CANCELS * sum_yy))):
            found[resample] = _two_pass(x, y, weights[:, resample])
        return found.clip(-1, 1)

    def srcc(self, weights: np.ndarray, scratch: Scratch) -> np.ndarray:
        """Spearman's correlation: Pearson's of mid-ranks.

        Twice the centred mid-rank of an item is the weight below it minus the weight above it. Summed over the items
        its square is (N³ - Σ G³)/3, G being the weights of groups of equal values and N that of all.
        """
        total = weights.sum(axis=0).astype(np.float64)
        ranks, spreads = [], []
        for name, groups in (("x_ranks", self.x_groups), ("y_ranks", self.y_groups)):
            below, upto = groups.totals(weights, scratch)
            of_group = np.add(below, upto, out=scratch("of_group", len(groups), len(total)))
            of_group -= total.astype(of_group.dtype)
            ranks.append(scratch.take(name, of_group, groups.of_item))
            if len(groups) == len(weights):
                spreads.append(total**3 - _dot(weights, weights, weights))
            else:
                spreads.append(total**3 - _power_sum(np.subtract(upto, below, out=upto), 3))
        shared = _dot(weights, *ranks)
        return _ratio(3 * shared, spreads[0], spreads[1], total**3)

    def ktau(self, weights: np.ndarray, scratch: Scratch) -> np.ndarray:
        """Kendall's tau-b: concordant minus discordant pairs, over the mean of the pairs that differ in x and in y."""
        total = weights.sum(axis=0).astype(np.float64)
        x_equal = self.x_groups.power_sum(weights, 2, scratch)
        y_equal = self.y_groups.power_sum(weights, 2, scratch)
        both_equal = self._pairs.both_groups.power_sum(weights, 2, scratch)
        concordant = self._pairs.rising(weights, scratch) - (x_equal - both_equal) / 2
        return _ratio(2 * concordant, total**2 - x_equal, total**2 - y_equal, total**2)


class _Pairs:
    """Pairs of items by whether y rises or falls from the one to the other.

    Items are sorted by x, and equal ones by y: among those y rises too, which is to be taken off again. Pairs across
    the halves of a set are counted with running totals, for sets of all sizes down to `_LEAF`; in these, one by one.
    """

    def __init__(self, x: Groups, y: Groups):
        self.both_groups = Groups(x.of_item * len(y) + y.of_item)
        self.order = np.lexsort((y.of_item, x.of_item))
        in_order = y.of_item[self.order]
        self.leaves = _leaf_signs(in_order)
        levels = max(0, math.ceil(math.log2(len(in_order) / _LEAF)))
        self.halves = [_Halves(in_order, _LEAF << level) for level in range(levels)]

    def rising(self, weights: np.ndarray, scratch: Scratch) -> np.ndarray:
        """Weight of pairs where y rises in the order of x, minus that of pairs where it falls."""
        in_order = scratch.take("in_order", weights, self.order)
        totals = scratch("totals", 1 + len(in_order), in_order.shape[1])
        totals[0], totals[1:] = 0, in_order
        _accumulate(totals[1:])
        found = _pairs_in_leaves(self.leaves, in_order, scratch)
        for halves in self.halves:
            found += halves.rising(in_order, totals, scratch)
        return found


class _Halves:
    """Pairs between the left and the right half of every run of 2 · `size` items, told by running totals."""

    def __init__(self, y: np.ndarray, size: int):
        place = np.arange(len(y))
        run, levels = place // (2 * size), int(y.max()) + 1
        keys = run * levels + y
        is_left = place % (2 * size) < size
        left, right = np.flatnonzero(is_left), np.flatnonzero(~is_left)
        self.left = left[np.argsort(keys[left], kind="stable")]
        self.right = right[np.argsort(keys[right], kind="stable")]
        self.below = np.searchsorted(keys[self.left], keys[self.right], "left")
        self.upto = np.searchsorted(keys[self.left], keys[self.right], "right")
        self.starts = np.arange(0, len(y), 2 * size)
        self.middles, self.ends = (np.minimum(self.starts + length, len(y)) for length in (size, 2 * size))
        self.first_left = np.searchsorted(left, self.starts)
        self.last_left = np.append(self.first_left[1:], len(left))

    def rising(self, weights: np.ndarray, totals: np.ndarray, scratch: Scratch) -> np.ndarray:
        """Weight of pairs where y rises from left to right, minus that of pairs where it falls.

        For an item on the right that is the weight on the left below it minus that above it: the left half's running
        totals below it and up to it, minus those at both ends of its run.

        Args:
            weights: of the items in order, [item, resample].
            totals: their running totals, [1 + item, resample].
            scratch: may be overwritten, but for "in_order" and "totals".
        """
        running = scratch.totals("running", weights, self.left)
        at_ends = running[self.first_left] + running[self.last_left]
        at_items = scratch.take("below", running, self.below)
        at_items += scratch.take("upto", running, self.upto)
        right = scratch.take("upto", weights, self.right)
        on_right = totals[self.ends] - totals[self.middles]
        return _dot(at_items, right) - _dot(at_ends, on_right)


def _leaf_signs(y: np.ndarray) -> np.ndarray:
    """Sign of each pair of every `_LEAF` items in order, [leaf, item, item]: 1 where y rises, -1 where it falls."""
    leaves = -(-len(y) // _LEAF)
    padded = np.concatenate([y, np.full(leaves * _LEAF - len(y), -1)]).reshape(leaves, _LEAF)
    signs = np.sign(padded[:, None, :] - padded[:, :, None])
    return np.triu(signs, 1).astype(np.float32)


def _pairs_in_leaves(signs: np.ndarray, weights: np.ndarray, scratch: Scratch) -> np.ndarray:
    whole = len(weights) // _LEAF
    resamples = weights.shape[1]
    sums = scratch("running", whole * _LEAF, resamples).reshape(whole, _LEAF, resamples)
    inside = weights[: whole * _LEAF].reshape(sums.shape)
    np.matmul(signs[:whole].astype(weights.dtype, copy=False), inside, out=sums)
    found = _dot(weights[: whole * _LEAF], sums.reshape(-1, resamples))
    rest = weights[whole * _LEAF :]
    if len(rest):
        found += _dot(rest, signs[whole, : len(rest), : len(rest)] @ rest)
    return found


def _accumulate(rows: np.ndarray) -> None:
    """Turn rows into their running totals, in place."""
    count = len(rows)
    whole = count // _BLOCK * _BLOCK if count > 2 * _BLOCK else 0
    if whole:
        blocks = rows[:whole].reshape(-1, _BLOCK, rows.shape[1])
        for place in range(1, _BLOCK):
            blocks[:, place] += blocks[:, place - 1]
        totals = blocks[:-1, -1].copy()
        _accumulate(totals)
        blocks[1:] += totals[:, None]
    for place in range(max(whole, 1), count):
        rows[place] += rows[place - 1]


def _in_chunks(moments: np.ndarray, weights: np.ndarray) -> np.ndarray:
    """`moments @ weights`, in pieces too small for a matrix library to wake its threads for."""
    found = np.zeros((len(moments), weights.shape[1]))
    for start in range(0, len(weights), 256):
        found += moments[:, start : start + 256] @ weights[start : start + 256]
    return found


def _two_pass(x: np.ndarray, y: np.ndarray, weights: np.ndarray) -> float:
    """Pearson's correlation of what has a weight, centred first."""
    there = weights > 0
    x, y, weights = x[there], y[there], weights[there]
    if not len(x) or np.ptp(x) == 0 or np.ptp(y) == 0:
        return math.nan
    x, y = (_standardized(column - weights @ column / weights.sum()) for column in (x, y))
    x, y = x - weights @ x / weights.sum(), y - weights @ y / weights.sum()
    return float(weights @ (x * y) / np.sqrt((weights @ x**2) * (weights @ y**2)))


def _standardized(column: np.ndarray) -> np.ndarray:
    """Values centred and scaled, so that their moments neither overflow nor cancel."""
    _, exponent = np.frexp(np.abs(column).max(initial=0))
    centred = np.ldexp(column, -exponent)  # by a power of 2, which rounds nothing
    centred = centred - centred.mean()
    spread = np.sqrt(np.mean(centred**2))
    return centred / spread if spread > 0 else centred


def _dot(*factors: np.ndarray) -> np.ndarray:
    """Sum over rows of the product of arrays [row, resample], in float64 but for short stretches of rows."""
    rows, resamples = factors[0].shape
    whole = rows // _STRETCH * _STRETCH
    stretches = [factor[:whole].reshape(-1, _STRETCH, resamples) for factor in factors]
    rest = np.einsum(",".join(["nr"] * len(factors)) + "->r", *(factor[whole:] for factor in factors))
    sums = np.einsum(",".join(["snr"] * len(factors)) + "->sr", *stretches)
    return sums.sum(axis=0, dtype=np.float64) + rest


def _power_sum(sizes: np.ndarray, power: int) -> np.ndarray:
    """Sum over groups of their weight to a power, in float64: of few groups it is large."""
    return np.einsum(",".join(["gr"] * power) + "->r", *[sizes] * power, dtype=np.float64)


def _ratio(shared: np.ndarray, x_spread: np.ndarray, y_spread: np.ndarray, greatest: np.ndarray) -> np.ndarray:
    defined = (x_spread > _CONSTANT * greatest) & (y_spread > _CONSTANT * greatest)
    with np.errstate(invalid="ignore", divide="ignore"):
        return np.where(defined, shared / np.sqrt(x_spread * y_spread), np.nan).clip(-1, 1)
