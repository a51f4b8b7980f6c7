"""Exact one-to-one assignment of greatest total weight, traceable: what event scores fall back on in the general case.

Shortest augmenting paths (Jonker and Volgenant, "A shortest augmenting path algorithm for dense and sparse linear
assignment problems", Computing 38, 1987) for many matrices at once, as a flat loop in which every matrix takes one look
at one row per turn: none waits for the longest path of another before it starts its next. Rows of weights are asked for
when they are needed and never stored, so memory is linear in the number of rows and columns.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp

Weights = tuple[jax.Array, ...]
"""Weights of the same pairs, compared lexicographically: the second counts only where the first ties."""


class _Search(NamedTuple):
    """Where the search stands in one matrix; -1 for an index means none.

    The distance of a column is the cost (negated weight, less the columns' prices) of the cheapest alternating path to
    it from the row being placed. While `flip` names a column, the path just found is being turned over from its end.
    """

    data: Any  # what `weights` makes the matrix of
    queue: jax.Array  # [columns] rows that have to be placed
    waiting: jax.Array  # how many they are
    placed: jax.Array  # how many of them have been placed
    owner: jax.Array  # [columns] row that has the column
    price: Weights  # [columns] each
    distance: Weights  # [columns] each
    before: jax.Array  # [columns] the column before it on its path
    settled: jax.Array  # [columns] bool: its distance is final
    last: jax.Array  # the column settled last, whose owner is looked at next
    flip: jax.Array

    @property
    def unfinished(self) -> jax.Array:
        return self.placed < self.waiting


def assign(weights: Callable[[Any, jax.Array], Weights], data: Any, rows: jax.Array, columns: int) -> jax.Array:
    """Give rows columns of their own so that the total weight is greatest, for every matrix.

    Args:
        weights: `weights(data of one matrix, row)`, the weights of a row, `[columns]` float32 each, at least 0. A
            pair of weight 0 is as good as none.
        data: what matrices are made of, a tree of arrays `[matrices, ...]`.
        rows: `[matrices]`, how many rows there are, at most `columns`.
        columns: how many columns there are, static.

    Returns:
        The row that got each column, `[matrices, columns]` int32, -1 for none.
    """
    at = jax.vmap(lambda data, rows: _start(weights, data, rows, columns))(data, rows)
    turn = jax.vmap(lambda at: _turn(weights, at))

    def run(at: _Search, left: int) -> _Search:
        """Take turns until no more than `left` matrices are unfinished."""
        return jax.lax.while_loop(lambda at: at.unfinished.sum() > left, turn, at)

    # A few matrices take many times the turns of most: they go on in a smaller batch.
    left = -(-rows.size // 4)
    at = run(at, left)
    rest = jnp.argsort(~at.unfinished)[:left]
    last = run(jax.tree.map(lambda x: x[rest], at), 0)
    return at.owner.at[rest].set(last.owner)


def _start(weights: Callable[[Any, jax.Array], Weights], data: Any, rows: jax.Array, columns: int) -> _Search:
    """Give every row its best column if that is free, and queue the others.

    It is what the search does while prices are 0, at a fraction of its cost. A row without any weight needs no column.
    """
    names, nobody = jnp.arange(columns, dtype=jnp.int32), jnp.full(columns, -1, jnp.int32)

    def step(state: tuple[Any, ...], row: jax.Array) -> tuple[tuple[Any, ...], None]:
        owner, queue, waiting = state
        own = weights(data, row)
        best, free = _least(tuple(-w for w in own), jnp.bool_(True), owner)
        wanted = (row < rows) & jnp.any(jnp.stack([w[best] > 0 for w in own]))
        owner = jnp.where((names == best) & wanted & free, row, owner)
        queue = jnp.where((names == waiting) & wanted & ~free, row, queue)
        return (owner, queue, waiting + (wanted & ~free)), None

    (owner, queue, waiting), _ = jax.lax.scan(step, (nobody, nobody, jnp.int32(0)), names)
    parts = len(jax.eval_shape(weights, data, jnp.int32(0)))
    return _Search(
        data=data,
        queue=queue,
        waiting=waiting,
        placed=jnp.int32(0),
        owner=owner,
        price=(jnp.zeros(columns, jnp.float32),) * parts,
        distance=(jnp.full(columns, jnp.inf, jnp.float32),) * parts,
        before=nobody,
        settled=jnp.zeros(columns, bool),
        last=jnp.int32(-1),
        flip=jnp.int32(-1),
    )


def _turn(weights: Callable[[Any, jax.Array], Weights], at: _Search) -> _Search:
    """Search on by one row, or turn over one column of the path found; nothing to a finished matrix."""
    names = jnp.arange(at.owner.size, dtype=jnp.int32)
    searching = at.unfinished & (at.flip < 0)
    first = at.last < 0
    row = jnp.where(first, at.queue[at.placed], at.owner[at.last])
    costs = [-w - p for w, p in zip(weights(at.data, row), at.price, strict=True)]
    # The owner of a column is tight there: going on from it costs the difference to that column.
    so_far = [jnp.where(first, 0, d[at.last] - c[at.last]) for c, d in zip(costs, at.distance, strict=True)]
    offered = tuple(s + c for s, c in zip(so_far, costs, strict=True))
    nearer = _less(offered, at.distance) & ~at.settled & searching
    distance = tuple(jnp.where(nearer, new, old) for new, old in zip(offered, at.distance, strict=True))
    before = jnp.where(nearer, at.last, at.before)

    # A free column ends the search.
    nearest, free = _least(distance, ~at.settled, at.owner)
    found = searching & free
    paid = (d[nearest] - d for d in distance)
    price = tuple(jnp.where(found & at.settled, p - more, p) for p, more in zip(at.price, paid, strict=True))

    # Along the path every column goes to the row of the one before it, and the first to the row being placed.
    flipping = found | (at.flip >= 0)
    column = jnp.where(found, nearest, at.flip)
    previous = before[column]
    arrived = flipping & (previous < 0)
    heir = jnp.where(previous < 0, at.queue[at.placed], at.owner[previous])
    return at._replace(
        placed=at.placed + arrived,
        owner=jnp.where(flipping & (names == column), heir, at.owner),
        price=price,
        distance=tuple(jnp.where(arrived, jnp.inf, d) for d in distance),
        before=before,
        settled=(at.settled | (searching & (names == nearest))) & ~arrived,
        last=jnp.where(arrived, -1, jnp.where(searching, nearest, at.last)),
        flip=jnp.where(flipping, previous, -1),
    )


def _less(a: Weights, b: Weights) -> jax.Array:
    """Whether `a` comes before `b`, lexicographically and elementwise."""
    less, equal = jnp.bool_(False), jnp.bool_(True)
    for x, y in zip(a, b, strict=True):
        less, equal = less | (equal & (x < y)), equal & (x == y)
    return less


def _least(values: Weights, among: jax.Array, owner: jax.Array) -> tuple[jax.Array, jax.Array]:
    """Index of the lexicographically least element of those in `among`, a free one if possible; and whether it is."""
    for value in values:
        key = jnp.where(among, _sortable(value), jnp.iinfo(jnp.int32).max)
        among = among & (key == key.min())
    size = owner.size
    # One reduction finds both: the first index of a free one, or `size` more than the first index.
    index = jnp.where(among, jnp.arange(size, dtype=jnp.int32) + size * (owner >= 0), 2 * size - 1).min()
    return index % size, index < size


def _sortable(x: jax.Array) -> jax.Array:
    """Integers in the order of float32 numbers: a CPU reduces them in SIMD, but floats, because of NaN, one by one."""
    bits = jax.lax.bitcast_convert_type(jnp.where(x == 0, 0.0, x), jnp.int32)
    return bits ^ ((bits >> 31) & jnp.iinfo(jnp.int32).max)
