"""``kv.plan``: say what is known of the people and what must be seen, and get a ranked plan."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from keyveil.core.epsilon import Number
from keyveil.core.errors import PlanError
from keyveil.core.schema import Schema
from keyveil.frames.population import Population
from keyveil.planning.curves import curves
from keyveil.planning.groups import group_costs, read_shares, shares_of, with_groups, without_groups
from keyveil.planning.people import Floats, People, expected_shares, invented, number, sampled
from keyveil.planning.plan import Plan, ranked
from keyveil.planning.wanted import SERVING, WISHES, Wish, solve

MOST_DRAWN = 20_000  # people of a synthetic population that stand for all


def plan(
    users: int | None = None,
    keys: int | None = None,
    pairs: float | None = None,
    epsilon: Number = 1,
    goal: str | Sequence[str] | None = None,
    *,
    sample: Population | str | Path | None = None,
    schema: Schema | None = None,
    sizes: Any = None,
    frequency: Sequence[float] | Floats | Mapping[str, float] | str | None = None,
    mean: Sequence[float] | Floats | None = None,
    typical: Any = None,
    groups: Any = None,
    bits: float | None = None,
    rounds: int = 1,
    mechanisms: Sequence[str] | str | None = None,
    postprocess: str | None = None,
    error: float | None = None,
    smallest: float | None = None,
    change: float | None = None,
    at: float | None = None,
    trade_offs: bool = False,
) -> Plan:
    """Which mechanism suits a collection, what errors to expect of each, and why.

    Parameters
        users, keys, pairs   how many people report, how many keys there are, how many a person holds on average
        sizes                the law of set sizes, such as "1:0.2,2:0.8", instead of ``pairs``
        frequency, mean      expected share of holders, such as "fries:0.4,pepsi:0.1" or [0.4, 0.1], and mean value
                             (on [-1, 1]) of every key
        typical              root mean square of a value on [-1, 1]; 0.5 unless given
        groups               groups of people whose keys are told apart: "de:0.6,fr:0.4", "de,fr" or a number; keys
                             and pairs are those of a person, whatever the group
        sample               people like those expected, instead of all that: a ``Population``, a file of user, key and
                             value, or ``synthetic:NAME``
        schema               the keys and ranges of values; that of the sample, or numbered keys, unless given
        goal                 frequency, mean, both, top, rare, distribution, conditional, fairness or change; several
                             with commas; unless given, both, or what a wish is about
        bits, rounds         the most bits of a report, and the most rounds; more than one round also tries protocols,
                             by simulation
        mechanisms           the names to consider; all that suit the goal unless given
        postprocess          "bayes" if estimates will be read after empirical Bayes: its errors count then
        error                what must be reached, for which people and epsilon are then solved: a root mean squared
                             error of the goal
        smallest, change     the same for the smallest frequency that is told from absence, and for the smallest change
                             between two collections that is seen, in a key that ``at`` of the people hold
        trade_offs           also compute how errors depend on epsilon, people and keys

    Returns a ``Plan``: ``lines`` ranked, ``best``, ``mechanism`` with all its options, ``document()`` for JSON.

    Examples
        >>> found = kv.plan(users=20_000, keys=100, pairs=5, epsilon=1, goal="frequency")
        >>> found.best.name, found.best.why
    """
    wish = wished(error, smallest, change, at)
    wanted = goal if goal is not None else SERVING.get(wish.kind, "both") if wish is not None else "both"
    known, people = planned_people(users, keys, pairs, sample, schema, sizes, frequency, mean, typical, groups)

    def again(n: int | None = None, keys: int | None = None, **given: Any) -> Plan:
        crowd, agreed = people if n is None else people.of(n), known
        if given.get("plain"):
            crowd = without_groups(people, len(known.groups or ()))
            agreed = Schema(keys=crowd.d)
        if keys is not None:
            crowd, agreed = invented(people.n, keys, people.pairs, typical=people.typical), Schema(keys=keys)
        return ranked(
            crowd,
            given.get("epsilon", epsilon),
            wanted,
            schema=agreed,
            bits=bits,
            rounds=given.get("rounds", rounds),
            mechanisms=given.get("mechanisms", mechanisms),
            postprocess=postprocess,
        )

    found = again()
    if known.groups is not None:
        plain = again(plain=True, rounds=1)
        shares = shares_of(people, known.groups)
        found = replace(found, group_costs=group_costs(shares, found.best.prediction, plain.best.prediction))
    if wish is not None:
        found = replace(found, solved=solve(wish, found, again))
    return replace(found, curves=tuple(curves(found, again))) if trade_offs else found


def wished(error: float | None, smallest: float | None, change: float | None, at: float | None) -> Wish | None:
    """The one wish among those given; nothing if there is none."""
    given = [(kind, value) for kind, value in zip(WISHES, (error, smallest, change), strict=True) if value is not None]
    if len(given) > 1:
        raise PlanError("plan/wish", f"A plan is solved for one wish at a time, not for {' and '.join(dict(given))}.")
    if at is not None and [kind for kind, _ in given] != ["change"]:
        raise PlanError("plan/wish", "The share of the people who hold a key belongs to a wish for a change.")
    if not given:
        return None
    (kind, value), *_ = given
    return Wish(kind, number("a wish", value), None if at is None else number("the share of the people", at))


def planned_people(
    users: int | None,
    keys: int | None,
    pairs: float | None,
    sample: Population | str | Path | None = None,
    schema: Schema | None = None,
    sizes: Any = None,
    frequency: Sequence[float] | Floats | Mapping[str, float] | str | None = None,
    mean: Sequence[float] | Floats | None = None,
    typical: Any = None,
    groups: Any = None,
) -> tuple[Schema, People]:
    """The schema and the people of a plan, from whatever is known of them."""
    if sample is not None:
        numbers = {"pairs": pairs, "sizes": sizes, "frequency": frequency, "mean": mean, "typical": typical}
        numbers["groups"] = groups
        said = sorted(name for name, value in numbers.items() if value is not None)
        if said:
            raise PlanError("plan/people", f"A sample tells {' and '.join(said)}; give either.")
        return _of_sample(sample, schema, users, keys)
    frequency = expected_shares(frequency, None if schema is None else schema.keys)
    if schema is None and keys is None and frequency is not None:
        keys = len(frequency)
    if schema is not None and keys not in (None, schema.d):
        raise PlanError("plan/people", f"The schema has {schema.d:,} keys, and {keys:,} were given.")
    if groups is not None and schema is not None:
        raise PlanError("plan/groups", "A schema says its groups itself; give either.")
    told = schema is not None and schema.groups is not None and frequency is None and mean is None
    shares = read_shares(schema.groups if schema is not None and told else groups) if told or groups is not None else {}
    count = keys if schema is None else schema.d // max(len(shares), 1)
    missing = [word for word, value in (("users", users), ("keys", count)) if value is None]
    missing += ["pairs"] if pairs is None and sizes is None and frequency is None else []
    if missing:
        raise PlanError(
            "plan/people",
            f"A plan needs to know {_and(missing)} (how many people report, how many keys there are, how many of them "
            "a person holds on average), or a sample of such people.",
        )
    people = invented(users, count, pairs, sizes=sizes, frequency=frequency, mean=mean, typical=typical)
    if shares:
        within, people = people.d, with_groups(people, shares)
        return schema or Schema(keys=within, groups=list(shares)), people
    return schema or Schema(keys=people.d), people


def _of_sample(
    sample: Population | str | Path, schema: Schema | None, users: int | None, keys: int | None
) -> tuple[Schema, People]:
    if isinstance(sample, Population):
        population, known, name = sample, schema or sample.schema(), "the sample"
    else:
        from keyveil.lab.datasets import named  # reading files takes libraries that numbers do not need

        text = str(sample)
        short = text.startswith("synthetic:") and text.count(":") == 1
        data = named(f"{text}:{MOST_DRAWN}" if short else text)
        population, known, name = data.population, schema or data.schema, data.name
    if keys not in (None, known.d):
        raise PlanError("plan/sample", f"The sample has {known.d:,} keys, and {keys:,} were given.")
    return known, sampled(population, known, users, name)


def _and(words: Sequence[str]) -> str:
    return ", ".join(words[:-1]) + " and " + words[-1] if len(words) > 1 else words[0]
