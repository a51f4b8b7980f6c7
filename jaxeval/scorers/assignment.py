"""Exact one-to-one assignment of greatest total weight, traceable: what event scores fall back on in the general case.

Shortest augmenting paths (Jonker and Volgenant, "A shortest augmenting path algorithm for dense and sparse linear
assignment problems", Computing 38, 1987), written for one matrix as a flat loop, one look at a row per turn, so that
under `vmap` no matrix waits for the longest path of another before it starts its next row. Rows of weights are
asked for when they are needed and never stored: memory is linear in the number of rows and columns.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

import jax
import jax.numpy as jnp

Weights = tuple[jax.Array, ...]
"""Weights of the same pairs, compared lexicographically: the second counts only where the first ties."""


class _Search(NamedTuple):
    """Where the loop stands. `row` is being placed; -1 for an index means none.

    The distance of a column is the cost (negated weight, less the columns' prices) of the cheapest alternating path to
    it from `row`. While `flip` names a column, the path just found is being turned over from its end, a column a turn.
    """

    row: jax.Array
    owner: jax.Array  # [columns] row that has the column
    price: Weights  # [columns] each
    distance: Weights  # [columns] each
    before: jax.Array  # [columns] the column before it on its path
    settled: jax.Array  # [columns] bool: its distance is final
    last: jax.Array  # the column settled last, whose owner is looked at next
    flip: jax.Array


def assign(weights: Callable[[jax.Array], Weights], rows: jax.Array, columns: int) -> jax.Array:
    """Give every row a column of its own so that the total weight is greatest.

    Args:
        weights: `weights(row)`, the weights of a row, `[columns]` each, at least 0 and not NaN. A pair of weight 0 is
            as good as none.
        rows: how many rows there are, at most `columns`; may be traced, 0 costs nothing.
        columns: how many columns there are, static.

    Returns:
        The row that got each column, `[columns]` int32, -1 for none.
    """
    names = jnp.arange(columns)
    parts = len(jax.eval_shape(weights, jnp.int32(0)))
    far = (jnp.full(columns, jnp.inf),) * parts
    nobody = jnp.full(columns, -1, jnp.int32)
    start = _Search(
        row=jnp.int32(0),
        owner=nobody,
        price=(jnp.zeros(columns),) * parts,
        distance=far,
        before=nobody,
        settled=jnp.zeros(columns, bool),
        last=jnp.int32(-1),
        flip=jnp.int32(-1),
    )

    def turn(at: _Search) -> _Search:
        first = at.last < 0
        row = jnp.where(first, at.row, at.owner[at.last])
        costs = [-w - p for w, p in zip(weights(row), at.price, strict=True)]
        # The owner of a column is tight there: going on from it costs the difference to that column.
        so_far = [jnp.where(first, 0, d[at.last] - c[at.last]) for c, d in zip(costs, at.distance, strict=True)]
        offered = tuple(s + c for s, c in zip(so_far, costs, strict=True))
        nearer = _less(offered, at.distance) & ~at.settled
        distance = tuple(jnp.where(nearer, new, old) for new, old in zip(offered, at.distance, strict=True))
        before = jnp.where(nearer, at.last, at.before)

        # A free column ends the search, so take it first among equals.
        nearest = _least((*distance, (at.owner >= 0).astype(jnp.float32)), ~at.settled)
        found = at.owner[nearest] < 0
        paid = (d[nearest] - d for d in distance)
        price = tuple(jnp.where(found & at.settled, p - more, p) for p, more in zip(at.price, paid, strict=True))
        searched = at._replace(
            price=price,
            distance=distance,
            before=before,
            settled=at.settled | (names == nearest),
            last=nearest,
        )
        flipping = at.flip >= 0
        state = _where(flipping, at, searched)
        return _turn_over(state, jnp.where(flipping, at.flip, nearest), flipping | found)

    def _turn_over(at: _Search, column: jax.Array, really: jax.Array) -> _Search:
        previous = at.before[column]
        arrived = really & (previous < 0)
        heir = jnp.where(previous < 0, at.row, at.owner[previous])
        return _Search(
            row=at.row + arrived,
            owner=jnp.where(really & (names == column), heir, at.owner),
            price=at.price,
            distance=tuple(jnp.where(arrived, jnp.inf, d) for d in at.distance),
            before=at.before,
            settled=at.settled & ~arrived,
            last=jnp.where(arrived, -1, at.last),
            flip=jnp.where(really, previous, -1),
        )

    return jax.lax.while_loop(lambda at: at.row < rows, turn, start).owner


def _where(condition: jax.Array, a: _Search, b: _Search) -> _Search:
    return jax.tree.map(lambda x, y: jnp.where(condition, x, y), a, b)


def _less(a: Weights, b: Weights) -> jax.Array:
    """Whether `a` comes before `b`, lexicographically and elementwise."""
    less, equal = jnp.bool_(False), jnp.bool_(True)
    for x, y in zip(a, b, strict=True):
        less, equal = less | (equal & (x < y)), equal & (x == y)
    return less


def _least(values: Weights, among: jax.Array) -> jax.Array:
    """Index of the lexicographically least element of those in `among`."""
    for value in values:
        value = jnp.where(among, value, jnp.inf)
        among = among & (value == value.min())
    return jnp.argmax(among).astype(jnp.int32)
