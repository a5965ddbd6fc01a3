"""One cell: a population at one epsilon. Both sides are measured on the same people with every decoder."""

from __future__ import annotations

from dataclasses import asdict, dataclass, replace
from fractions import Fraction
from typing import Any

from keyveil.core.schema import Schema
from keyveil.lab.compare import compare
from keyveil.lab.contenders import contenders
from keyveil.lab.datasets.recipes import load, recipe
from keyveil.lab.decoders import EQUAL, changes
from keyveil.lab.equal_decoders.rule import QUANTITIES, Rule, Setting, worth_measuring
from keyveil.lab.scores import Score

REPEATS = 20
PEOPLE, MOST_PAIRS = 50_000, 2_000_000  # of a cell; people are fewer where they hold very much


@dataclass(frozen=True, order=True)
class Cell:
    """A population and an epsilon."""

    population: str
    epsilon: str

    def __str__(self) -> str:
        return f"{self.population}, ε = {self.epsilon}"


@dataclass(frozen=True)
class Duel:
    """The scores of both sides for one quantity with one decoder."""

    quantity: str
    decoder: str
    ours: Score
    published: Score


@dataclass(frozen=True)
class Measured:
    """The duels of a cell, with the seed that drew its people and coins."""

    cell: Cell
    seed: int
    people: int
    repeats: int
    duels: tuple[Duel, ...]

    def document(self) -> dict[str, Any]:
        return asdict(self)

    @classmethod
    def from_document(cls, document: dict[str, Any]) -> Measured:
        duels = (Duel(**{**one, **{side: _score(one[side]) for side in _SIDES}}) for one in document["duels"])
        return cls(**{**document, "cell": Cell(**document["cell"]), "duels": tuple(duels)})


_SIDES = ("ours", "published")


def _score(document: dict[str, Any]) -> Score:
    return Score(document["error"], document["spread"], tuple(document["forms"]))


def measure(cell: Cell, seed: int, people: int, repeats: int, rule: Rule) -> Measured:
    """Draw the people, choose by the rule for every quantity and decoder, and measure both sides.

    Levels of values are not told to anybody: some mechanisms would report them, which costs frequencies and means.
    The best published form is found on one half of the runs and measured on the other. The project's form was chosen
    before any run, so all runs measure it.
    """
    pairs = max(float(recipe(cell.population).profile(seed)[0].sum()), 1.0)
    drawn = load(cell.population, n=min(people, int(MOST_PAIRS / pairs)), seed=seed)
    data = replace(drawn, schema=Schema(keys=drawn.schema.d))
    everybody = data.population.keyed(data.schema)
    setting = Setting(data.schema, everybody, everybody.truth(data.schema), Fraction(cell.epsilon))
    published = worth_measuring(setting)
    asked = [(quantity, decoder) for quantity in QUANTITIES for decoder in EQUAL if changes(decoder, quantity)]
    ours = {what: rule(setting, *what) for what in asked}
    known = contenders([*dict.fromkeys([*published, *ours.values()])])
    label = {one.made or one.label: label for label, one in known.items()}
    found = compare(data, cell.epsilon, list(label), repeats=repeats, seed=seed, decoders=EQUAL)
    duels = tuple(
        Duel(quantity, decoder, mine, theirs)
        for quantity, decoder in asked
        if (mine := found.best_of([label[ours[quantity, decoder]]], setting.epsilon, quantity, decoder))
        and (theirs := found.best_of(published, setting.epsilon, quantity, decoder))
    )
    return Measured(cell, seed, everybody.n, repeats, duels)
