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
from keyveil.core.epsilon import levels
from keyveil.core.public import public_indices
from keyveil.core.records import Records
from keyveil.core.tally import Tally
from keyveil.mechanisms.base import Mechanism
from keyveil.mechanisms.categorical.grr import GRR
from keyveil.mechanisms.categorical.rappor import RAPPOR
from keyveil.mechanisms.categorical.unary import Unary
from keyveil.mechanisms.encoders import Labels, are_positive, values_of
from keyveil.mechanisms.families.categorical import FrequencyOracle
from keyveil.mechanisms.families.one_key import ABSENT, OneKey
from keyveil.mechanisms.keyvalue.baselines import KRRHarmony
from keyveil.mechanisms.keyvalue.ioh import IOH
from keyveil.mechanisms.keyvalue.kv_sw import KVSW
from keyveil.mechanisms.keyvalue.marginals import Marginals
from keyveil.mechanisms.keyvalue.moments import Moments
from keyveil.mechanisms.keyvalue.pckv_grr import PCKVGRR
from keyveil.mechanisms.keyvalue.pckv_ue import PCKVUE
from keyveil.mechanisms.keyvalue.topsel import TopSel
from keyveil.mechanisms.keyvalue.wsr import WSR

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
            seeded = isinstance(mechanism, TopSel) and not mechanism.direct
            return law if same and not seeded else None
    return None


# -- symbols ----------------------------------------------------------------------------------------------------------


def _one_key(mechanism: OneKey, records: Records, coins: Coins, rng: np.random.Generator) -> Counts:
    asked = mechanism.encoder.keys(coins.words(records.n))
    return _outputs(mechanism.channel, _states(records, asked, mechanism.labels, coins), rng)


def _direct(mechanism: TopSel, records: Records, coins: Coins, rng: np.random.Generator) -> Counts:
    """One of three states of a key, marked and told: KVUE, with a row for every key."""
    channel, asked = mechanism.channel, mechanism.cohorts_of(coins.words(records.n))
    told = Table(tuple(tuple(channel.high if out == state else channel.low for out in range(3)) for state in range(3)))
    return _outputs(told, _states(records, asked, mechanism.labels, coins), rng).T


def _states(records: Records, asked: Counts, labels: Labels, coins: Coins) -> Counts:
    """How many people are in each state of the key that they are asked about, [state, key]."""
    held, values = values_of(records, asked)
    states = np.where(held, 1 + labels.draw_many(values, coins), ABSENT)
    return _table(states, asked, 1 + labels.count, records.d)


def _moments(mechanism: Moments, records: Records, coins: Coins, rng: np.random.Generator) -> Counts:
    ids = mechanism.coefficients.drawn(coins.words(records.n))
    signs = mechanism.signs_of(records, ids, coins)
    return _outputs(mechanism.channel, _table(signs, ids, 2, mechanism.coefficients.count), rng)


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


def _weighted_symbols(mechanism: WSR, records: Records, coins: Coins, rng: np.random.Generator) -> Counts:
    """A place that a held symbol may fill says it, or nothing, or any symbol by its public weight."""
    (high, low), labels = levels(mechanism.epsilon), mechanism.labels.count
    hot = np.bincount(mechanism.sampled(mechanism.held(records, coins), coins), minlength=mechanism.null + 1)
    own, silent, public = (high - low) * mechanism.reserve, low * mechanism.reserve, low * labels * mechanism.weight
    shares = np.array([own, silent, public], dtype=np.float64) / mechanism.total
    told, nothing, blind = np.moveaxis(rng.multinomial(hot, shares), -1, 0)
    weights = np.repeat(mechanism.beta, labels) / (labels * mechanism.weight)
    counts: Counts = told.astype(np.int64)
    counts[mechanism.null] += nothing.sum()
    counts[: mechanism.null] += rng.multinomial(blind.sum(), weights)
    return counts


# -- frequency oracles ------------------------------------------------------------------------------------------------


def _oracle(mechanism: GRR | Unary, records: Records, coins: Coins, rng: np.random.Generator) -> Counts:
    return _supports(mechanism, np.bincount(mechanism.keys_of(records), minlength=mechanism.schema.d), rng)


def _cells(mechanism: IOH, records: Records, coins: Coins, rng: np.random.Generator) -> Counts:
    true = np.bincount(mechanism.cells_of(records, coins), minlength=mechanism.inner.schema.d)
    return _supports(mechanism.inner, true, rng)


def _marginals(mechanism: Marginals, records: Records, coins: Coins, rng: np.random.Generator) -> Counts:
    members, cells = mechanism.members_of(coins.words(records.n)), mechanism.inner.schema.d
    counts = np.zeros(mechanism.tally_shape, dtype=np.int64)
    counts[:, 0] = np.bincount(members, minlength=len(counts))
    some, rows = np.unique(members, return_inverse=True)  # few of many members have reports
    true = _table(rows, mechanism.cells_of(records, members, coins), len(some), cells)
    counts[some, 1:] = _supports(mechanism.inner, true, rng)
    return counts


def _harmony(mechanism: KRRHarmony, records: Records, coins: Coins, rng: np.random.Generator) -> Counts:
    """The sign and the symbol are told independently of each other, so first the one, then the other."""
    symbols, values = mechanism.draw_many(records, coins)
    positive = are_positive(values, coins).astype(np.int64)
    true = _table(positive, symbols.keys.astype(np.int64), 2, symbols.d)
    lies = rng.binomial(true, float(mechanism.sign.miss))
    return _supports(mechanism.oracle, true - lies + lies[::-1], rng)


def _supports(oracle: FrequencyOracle, true: Counts, rng: np.random.Generator) -> Counts:
    """How many reports support each key, from the people who hold it: along the last axis, apart for all others."""
    people = true.sum(axis=-1)
    if isinstance(oracle, GRR):  # weight ``low`` on every key is a uniform draw: the truth, or a key that ignores it
        d, channel = oracle.schema.d, oracle.channel
        kept = rng.binomial(true, (channel.high - channel.low) / channel.total)
        return kept + rng.multinomial(people - kept.sum(axis=-1), np.full(d, 1 / d))
    assert isinstance(oracle, Unary)
    states = np.stack([people[..., None] - true, true])
    ones: Counts = _outputs(oracle.factor, states.reshape(2, -1), rng)[1]
    return ones.reshape(true.shape)


# -- coordinates ------------------------------------------------------------------------------------------------------


def _sampled_vector(mechanism: PCKVUE | KVSW, records: Records, coins: Coins, rng: np.random.Generator) -> Counts:
    return _outputs(mechanism.factor, mechanism.hot_counts(records, coins), rng)[1:]


def _filters(mechanism: RAPPOR, records: Records, coins: Coins, rng: np.random.Generator) -> Counts:
    cohorts = public_indices(coins.words(records.n), mechanism.cohorts)
    people = _table(cohorts, mechanism.keys_of(records), mechanism.cohorts, mechanism.schema.d)
    reports = people.sum(axis=1, keepdims=True)
    hot = np.einsum("cbk,ck->cb", mechanism.bloom.indicator, people)
    ones = _outputs(mechanism.factor, np.stack([reports - hot, hot]).reshape(2, -1), rng)[1]
    return np.hstack([ones.reshape(hot.shape), reports])


def _table(rows: Counts, columns: Counts, height: int, width: int) -> Counts:
    """How many people are in each row and column."""
    return np.bincount(rows * width + columns, minlength=height * width).reshape(height, width)


def _outputs(table: Table, people: Counts, rng: np.random.Generator) -> Counts:
    """What so many people [state, cell] say [output, cell], independently of each other."""
    said = np.zeros((len(table.weights[0]), people.shape[1]), dtype=np.int64)
    for state, row in enumerate(people):
        some = np.flatnonzero(row)  # few people are in most of many cells
        shares = np.array(table.weights[state], dtype=np.float64)
        said[:, some] += np.moveaxis(rng.multinomial(row[some], shares / shares.sum()), -1, 0)
    return said


_LAWS: tuple[tuple[type[Mechanism], Law], ...] = (
    (OneKey, _one_key),
    (TopSel, _direct),
    (Moments, _moments),
    (PCKVGRR, _signed_symbols),
    (WSR, _weighted_symbols),
    (GRR, _oracle),
    (Unary, _oracle),
    (IOH, _cells),
    (Marginals, _marginals),
    (KRRHarmony, _harmony),
    (PCKVUE, _sampled_vector),
    (KVSW, _sampled_vector),
    (RAPPOR, _filters),
)
