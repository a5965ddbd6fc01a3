"""Tallies drawn from their law, without writing a single report: exact, and far cheaper where reports are long.

What people put into the channel is still drawn person by person (the key they are asked about, the pair they sample,
the sign of a value). What the channel makes of it depends on counts only, so one binomial or multinomial number stands
for thousands of reports. The tally has the same law as ``tally(perturb_many(...))``; the tests hold it to that.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
from numpy.typing import NDArray

from keyveil.core.channels import Table
from keyveil.core.coins import Coins
from keyveil.core.records import Records
from keyveil.core.tally import Tally
from keyveil.mechanisms.base import Mechanism
from keyveil.mechanisms.categorical.grr import GRR
from keyveil.mechanisms.categorical.unary import Unary
from keyveil.mechanisms.encoders import values_of
from keyveil.mechanisms.keyvalue.kv_sw import KVSW
from keyveil.mechanisms.keyvalue.one_key import ABSENT, OneKey
from keyveil.mechanisms.keyvalue.pckv_grr import PCKVGRR
from keyveil.mechanisms.keyvalue.pckv_ue import PCKVUE

Counts = NDArray[np.int64]
Law = Callable[[Any, Records, Coins, np.random.Generator], Counts]


def has_aggregate(mechanism: Mechanism) -> bool:
    """Whether the tally of this mechanism can be drawn as a whole."""
    return _law(mechanism) is not None


def aggregate(mechanism: Mechanism, records: Records, coins: Coins) -> Tally:
    """The tally of a block of people, in the law of counting everybody's report."""
    law = _law(mechanism)
    if law is None:
        return mechanism.tally(mechanism.perturb_many(records, coins))
    rng = np.random.default_rng(int.from_bytes(coins.bytes(16), "little"))
    return Tally(mechanism.fingerprint, records.n, law(mechanism, records, coins, rng))


def _law(mechanism: Mechanism) -> Law | None:
    """The law of the family, unless a member reports or counts in a way of its own."""
    for kind, law in _LAWS:
        if isinstance(mechanism, kind):
            own = type(mechanism)
            same = own.respond_many is kind.respond_many and own.fold is kind.fold
            return law if same else None
    return None


def _through(table: Table, state: int, inputs: Counts, rng: np.random.Generator) -> Counts:
    """Outputs [outputs, …] of so many people in one state, independently for every entry."""
    shares = np.array(table.weights[state], dtype=np.float64)
    return np.moveaxis(rng.multinomial(inputs, shares / shares.sum()), -1, 0)


def _one_key(mechanism: OneKey, records: Records, coins: Coins, rng: np.random.Generator) -> Counts:
    d, asked = mechanism.schema.d, mechanism.encoder.keys(coins.words(records.n))
    held, values = values_of(records, asked)
    states = np.where(held, 1 + mechanism.labels.draw_many(values, coins), ABSENT)
    inputs = np.bincount(states * d + asked, minlength=len(mechanism.channel.weights) * d).reshape(-1, d)
    outputs = [_through(mechanism.channel, state, people, rng) for state, people in enumerate(inputs)]
    counts: Counts = np.sum(outputs, axis=0, dtype=np.int64)
    return counts


def _grr(mechanism: GRR, records: Records, coins: Coins, rng: np.random.Generator) -> Counts:
    """Weight ``low`` on every key is a uniform draw, so a report is the truth or a uniform key that ignores it."""
    d, channel = mechanism.schema.d, mechanism.channel
    true = np.bincount(mechanism.keys_of(records), minlength=d)
    kept = rng.binomial(true, (channel.high - channel.low) / channel.total)
    return kept + rng.multinomial(records.n - kept.sum(), np.full(d, 1 / d))


def _unary(mechanism: Unary, records: Records, coins: Coins, rng: np.random.Generator) -> Counts:
    hot = np.bincount(mechanism.keys_of(records), minlength=mechanism.schema.d)
    ones: Counts = _coordinates(mechanism.factor, np.stack([records.n - hot, hot]), rng)[0]
    return ones


def _sampled_vector(mechanism: PCKVUE | KVSW, records: Records, coins: Coins, rng: np.random.Generator) -> Counts:
    return _coordinates(mechanism.factor, mechanism.hot_counts(records, coins), rng)


def _signed_symbols(mechanism: PCKVGRR, records: Records, coins: Coins, rng: np.random.Generator) -> Counts:
    """As for GRR: the input, its other sign, or a uniform symbol, of which all that belong to dummies are one."""
    channel, null = mechanism.channel, mechanism.null
    hot = mechanism.hot_counts(records, coins)
    uniform = 2 * channel.keys * channel.low
    shares = np.array([channel.true - channel.low, channel.lie - channel.low, uniform], dtype=np.float64)
    own, other, blind = np.moveaxis(rng.multinomial(hot, shares / shares.sum()), -1, 0)
    everywhere = rng.multinomial(blind.sum(), np.full(2 * channel.keys, 1 / (2 * channel.keys)))
    counts = everywhere[: null + 1].astype(np.int64)
    counts[null] = everywhere[null:].sum() + own[null] + other[null]
    counts[:null] += own[:null] + other[:null].reshape(-1, 2)[:, ::-1].reshape(-1)
    return counts


def _coordinates(factor: Table, people: Counts, rng: np.random.Generator) -> Counts:
    """What all coordinates say, output by output but silence, from the people [state, coordinate] in each state."""
    said = np.zeros((len(factor.weights[0]), people.shape[1]), dtype=np.int64)
    for state, row in enumerate(people):
        some = np.flatnonzero(row)  # few people are in most of many states
        said[:, some] += _through(factor, state, row[some], rng)
    return said[1:]


_LAWS: tuple[tuple[type[Mechanism], Law], ...] = (
    (OneKey, _one_key),
    (GRR, _grr),
    (Unary, _unary),
    (PCKVGRR, _signed_symbols),
    (PCKVUE, _sampled_vector),
    (KVSW, _sampled_vector),
)
