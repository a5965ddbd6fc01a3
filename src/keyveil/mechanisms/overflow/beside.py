"""A capped mechanism with an overflow group beside it: a few people tell how far they exceed the cap instead.

Both groups spend the whole ε on their own question. What the few say gives an honest limit of what the cap hides, the
flag ``truncated``, and a correction where it pays (``overflow.undercount``; docs/theory.md, the cap).

``form_with_overflow(SSR)`` is SSR with the option ``overflow``, the share of the people in the group. Its name and
all of its other options are those of SSR.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import Field, dataclass, field, fields, make_dataclass, replace
from fractions import Fraction
from functools import cache, cached_property
from typing import TYPE_CHECKING, Any, ClassVar, Self

import numpy as np

from keyveil.core.coins import Coins
from keyveil.core.epsilon import decimal_text, read_fraction
from keyveil.core.errors import MechanismError
from keyveil.core.estimates import Estimates
from keyveil.core.histogram import Histogram
from keyveil.core.records import Records
from keyveil.core.schema import Schema
from keyveil.core.tally import Tally
from keyveil.core.undercount import Undercount
from keyveil.mechanisms.base import Mechanism
from keyveil.mechanisms.capabilities import (
    CAPABILITIES,
    Announced,
    Capped,
    Cells,
    Foreseen,
    ForeseenValues,
    Histograms,
    KeyDependence,
    KnownTotal,
    Parted,
    PredictedVariance,
    ReportEffects,
    SupportRates,
    TallyLaw,
    can,
    need,
)
from keyveil.mechanisms.dependence import Dependence
from keyveil.mechanisms.effects import Effects
from keyveil.mechanisms.merging import Floats, PartAnswer
from keyveil.mechanisms.options import fitted, option_names, spelled
from keyveil.mechanisms.overflow.cases import Cases
from keyveil.mechanisms.overflow.levers import lever_groups
from keyveil.mechanisms.overflow.reach import corrected_by
from keyveil.mechanisms.overflow.undercount import (
    Whole,
    among_everybody,
    cuts_alike,
    judged,
    size_error,
    undercount,
)
from keyveil.mechanisms.reach import Reachable
from keyveil.mechanisms.registry import find
from keyveil.mechanisms.responses import Solution, Spread
from keyveil.mechanisms.rounds.overflow import OverflowQuestion
from keyveil.mechanisms.side_by_side import SideBySide
from keyveil.mechanisms.tally_laws import declared_law
from keyveil.mechanisms.totals import Constraint

if TYPE_CHECKING:
    from keyveil.mechanisms.families.set_response import Odds

OPTION = "overflow"
USUAL_SHARE = Fraction(3, 100)  # of the people; costs 3 % of variance (docs/decisions/0048-overflow-group.md)

_OWN = frozenset({"schema", "epsilon", OPTION})
_UNBIASED = {"estimator": "unbiased", "variant": "repaired"}  # forms of which only the cap is to be judged


@dataclass(frozen=True)
class BesideOverflow(SideBySide):
    """``kind`` asks most people; ``overflow`` of them are asked how far they exceed its cap.

    Where there is no cap, or it is the number of keys and nobody can exceed it, there is no such group.
    """

    kind: ClassVar[type[Mechanism]]

    def validate(self) -> None:
        if not 0 < self.share < 1:
            raise _refused(f"The overflow group of {self.name} has a share of the people between 0 and 1.")
        for one in fields(self.main):
            object.__setattr__(self, one.name, getattr(self.main, one.name))  # as the main mechanism resolves it
        if getattr(self.main, "estimator", "unbiased") != "unbiased":
            raise _refused(f"An overflow group stands beside unbiased estimates of {self.name} only.")
        super().validate()

    @property
    def share(self) -> Fraction:
        """The share of the people who belong to the overflow group."""
        return Fraction(getattr(self, OPTION))

    @property
    def options(self) -> dict[str, Any]:
        return {**self.main.options, OPTION: decimal_text(self.share)}

    @property
    def title(self) -> str:
        return self.main.title

    def __reduce__(self) -> Any:
        """Classes that are made here cannot be found by name; the arguments make them again."""
        values = {one.name: getattr(self, one.name) for one in fields(self)}
        return _made_again, (self.kind, values)

    # -- the two groups -----------------------------------------------------------------------------------------

    @cached_property
    def main(self) -> Mechanism:
        """What most people answer."""
        own = {one.name: getattr(self, one.name) for one in fields(self) if one.name not in _OWN}
        return self.kind(self.schema, self.epsilon, **own)

    @cached_property
    def question(self) -> OverflowQuestion | None:
        """What the overflow group answers; nothing if there is no cap, or nobody can exceed it."""
        capped = can(self.main, Capped)  # a split may have groups without a cap only
        if capped is None or capped.cap() >= self.schema.d:
            return None
        return OverflowQuestion.beside(self.schema, self.epsilon, capped.cap())

    @cached_property
    def parts(self) -> tuple[Mechanism, ...]:
        return (self.main,) if self.question is None else (self.main, self.question)

    @cached_property
    def shares(self) -> tuple[Fraction, ...]:
        return (1 - self.share, self.share)[: len(self.parts)]

    def reduced(self) -> Self:
        small = self.main.reduced()
        return replace(self, **{one.name: getattr(small, one.name) for one in fields(small)})

    # -- estimates ----------------------------------------------------------------------------------------------

    @property
    def estimated(self) -> frozenset[str]:
        return self.main.estimated

    def undercount(self, tally: Tally, population: bool = False) -> Undercount | None:
        """What the cap hides of these people; nothing if it cannot bind."""
        return self._judged(tally, self._solved(tally, tally.reports, 0.95, population)[0], population)

    def estimate(self, tally: Tally, confidence: float = 0.95, population: bool = False) -> Estimates:
        return self.estimate_among(tally, tally.reports, confidence, population)

    def estimate_among(self, tally: Tally, everybody: int, confidence: float, population: bool) -> Estimates:
        """``estimate`` where the target are ``everybody``, of whom these people are a part drawn at random."""
        solution, told = self._solved(tally, everybody, confidence, population)
        found = self._judged(tally, solution, population)
        header = replace(self.header(tally.reports, confidence, population), undercount=found)
        if found is None:
            return told.under(header)
        return judged(header, solution, told, found)

    def _solved(self, tally: Tally, everybody: int, confidence: float, population: bool) -> tuple[Solution, Estimates]:
        """What the main group says of everybody before the cap is judged; and its own estimates.

        Where the target are these people, those of the overflow group are the share of it that nobody heard.
        """
        own = self.part_tally(tally, 0)
        unheard = 1.0 if population else 1 - own.reports / max(everybody, 1)
        fixed, sampled = (self.main.estimate(own, confidence, whole) for whole in (False, True))
        return among_everybody(fixed, sampled, unheard), fixed

    def _judged(self, tally: Tally, solution: Solution, population: bool) -> Undercount | None:
        """What the overflow group says about the main group's frequencies."""
        if self.question is None:
            return None
        surplus = self.question.surplus(self.part_tally(tally, 1))
        if surplus is None or not self.part_tally(tally, 0).reports:
            return Undercount(self.cap())
        error = size_error(self.main, self.part_tally(tally, 0).reports, solution, population)
        return undercount(self.cap(), surplus, solution, error, cuts_alike(self.main))

    # -- capabilities: those of the main mechanism --------------------------------------------------------------

    @cached_property
    def lacks(self) -> frozenset[type]:
        lacking = {one for one in CAPABILITIES - {Announced} if can(self.main, one) is None}
        if not all(declared_law(part) for part in self.parts):
            lacking.add(TallyLaw)
        return frozenset(lacking)

    def cap(self) -> int:
        return need(self.main, Capped).cap()

    def support_rates(self) -> tuple[Fraction, Fraction]:
        return need(self.main, SupportRates).support_rates()

    def dependence(self, population: bool = False) -> Dependence:
        """Constants of one report of all: only the main group's tell of keys."""
        own, heard = need(self.main, KeyDependence).dependence(population), float(self.shares[0])
        return replace(own, **{name: getattr(own, name) / heard for name in ("base", "slope", "both", "extra")})

    def part_answers(self, tally: Tally) -> list[PartAnswer]:
        """Those of the main group's parts, with weights that correct what they say as the overflow group has it."""
        own, found = need(self.main, Parted).part_answers(self.part_tally(tally, 0)), self.undercount(tally)
        return list(own) if found is None else [one.scaled(1 / found.scale) for one in own]

    def report_effects(self, tally: Tally) -> list[Effects]:
        """Those of the main group, on frequencies that were corrected as the overflow group says."""
        own = need(self.main, ReportEffects).report_effects(self.part_tally(tally, 0))
        if self.question is None:
            return list(own)
        found = self.undercount(tally)
        times = 1.0 if found is None else 1 / found.scale
        return [one.scaled(times, 1.0 if one.direct else times, fixed=False) for one in own]

    def levers(self, tally: Tally, attackers: int) -> list[tuple[Tally, int, int]]:
        """Tallies in which so many people use the overflow group; how many may still leave and come elsewhere."""
        if self.question is None:
            return []
        main, group = (self.part_tally(tally, number) for number in (0, 1))
        return [(self.whole_tally([main, one]), leave, come) for one, leave, come in lever_groups(group, attackers)]

    def reachable(self, tally: Tally, of: Callable[[Mechanism, Tally], Reachable]) -> Reachable:
        """Those of the main group, on frequencies that were corrected as attackers let the overflow group say."""
        main = of(self.main, self.part_tally(tally, 0))
        if self.question is None:
            return main
        group = self.part_tally(tally, 1) if cuts_alike(self.main) else None
        return corrected_by(main, self.question, group)

    def constraint(self, estimates: Estimates) -> Constraint:
        """What holds for the frequencies that the main group tells, in those that were corrected."""
        own = need(self.main, KnownTotal)
        found = estimates.header.undercount
        if found is None or found.scale == 1:
            return own.constraint(estimates)
        told = replace(estimates.frequency, values=estimates.frequency.values * found.scale)
        known = own.constraint(replace(estimates, frequency=told))
        total = None if known.total is None else known.total / found.scale
        return replace(known, total=total, most=known.most / found.scale)

    def histogram(self, tally: Tally, population: bool = False) -> Histogram:
        """The main group's, with masses that were corrected as frequencies were."""
        own = need(self.main, Histograms).histogram(self.part_tally(tally, 0), population)
        found = self.undercount(tally, population)
        if found is None or not found.seen:
            return own
        mass = own.mass / found.scale
        return replace(own, mass=mass, se=np.sqrt((own.se / found.scale) ** 2 + found.common * mass**2))

    def cell_odds(self) -> Sequence[Odds]:
        return need(self.main, Cells).cell_odds()

    def predicted_spread(
        self, frequency: Floats, mean: Floats, sizes: Floats, n: int, population: bool = False
    ) -> Spread:
        """Errors of the main group's people, and of those whom it does not hear; the cap is taken not to bind.

        Estimates are unbiased, so that people who are a sample add the variance of what they hold.
        """
        own, heard = need(self.main, PredictedVariance), float(self.shares[0] / sum(self.shares))
        people = max(round(n * heard), 1)
        if population:
            return own.predicted_spread(frequency, mean, sizes, people, True)
        fixed = own.predicted_spread(frequency, mean, sizes, people, False)
        unheard = (1 - heard) * frequency * (1 - frequency) / people
        return Spread(fixed.frequency + unheard, fixed.product + mean**2 * unheard, fixed.covariance + mean * unheard)

    def foreseen_values(
        self,
        records: Records | None,
        coins: Coins,
        frequency: Floats,
        mean: Floats,
        deviation: Floats,
        sizes: Floats,
        n: int,
    ) -> Foreseen | None:
        """Of the main group's people; nothing where it cuts no values."""
        people = max(round(n * float(self.shares[0] / sum(self.shares))), 1)
        cutting = can(self.main, ForeseenValues)
        if cutting is None:
            return None
        return cutting.foreseen_values(records, coins, frequency, mean, deviation, sizes, people)

    def foreseen_undercounts(self, frequency: Floats, spread: Spread, sizes: Floats, n: int) -> Cases | None:
        """What the overflow group will say: its two numbers, and the sum of all frequencies, may come out otherwise."""
        if self.question is None:
            return None
        heard = max(round(n * float(self.shares[0])), 1)
        solution = Solution(frequency, np.full_like(frequency, np.nan), spread)
        whole = Whole.of(solution, size_error(self.main, heard, solution, False))
        return Cases(self.cap(), self.question.predicted_surplus(sizes, max(n - heard, 1)), whole)


@cache
def form_with_overflow(kind: type[Mechanism]) -> type[BesideOverflow]:
    """The class of a capped mechanism with the option ``overflow``."""
    listed = [(one.name, one.type, _default(one)) for one in fields(kind) if one.name not in _OWN]
    share = (OPTION, "Fraction", field(default=USUAL_SHARE))
    namespace = {
        "name": kind.name,
        "kind": kind,
        "readings": kind.readings,
        "examples": tuple({**example, OPTION: decimal_text(USUAL_SHARE)} for example in kind.examples),
        "__doc__": kind.__doc__,
        "__hash__": lambda self: hash(self.fingerprint),  # options may be mappings
        "__module__": __name__,
    }
    made: type[BesideOverflow] = make_dataclass(
        f"{kind.__name__}BesideOverflow", [*listed, share], bases=(BesideOverflow,), frozen=True, namespace=namespace
    )
    return made


def _default(one: Field[Any]) -> Any:
    """A field of the same default."""
    return field(default=one.default, default_factory=one.default_factory, kw_only=bool(one.kw_only))


def _made_again(kind: type[Mechanism], values: dict[str, Any]) -> BesideOverflow:
    return form_with_overflow(kind)(**values)


def made_beside(
    name: str, form: type[Mechanism], schema: Schema, epsilon: Fraction, options: Mapping[str, Any]
) -> Mechanism:
    """A mechanism from options that speak of an overflow group: with one, unless it is off or the cap cannot bind."""
    given = dict(options)
    if issubclass(form, Capped) and not issubclass(form, BesideOverflow):
        if read_share(given[OPTION]):
            form = form_with_overflow(form)
        else:
            del given[OPTION]
    elif not issubclass(form, Capped) and OPTION in option_names(form):
        given[OPTION] = read_share(given[OPTION]) or None  # its parts have such groups
    elif not issubclass(form, Capped) and OPTION in options_of(find(name)):
        del given[OPTION]  # another form of it has a cap, this one cuts nobody
    made = form(schema, epsilon, **fitted(name, form, given))
    return made.main if isinstance(made, BesideOverflow) and made.question is None else made


def options_of(kind: type) -> tuple[str, ...]:
    """The names of the options of a mechanism or protocol, with ``overflow`` wherever a cap may have a group."""
    own = option_names(kind)
    capped = issubclass(kind, Mechanism) and issubclass(kind, Capped)
    return (*own, OPTION) if capped and OPTION not in own else own


def with_usual_group(name: str, options: Mapping[str, Any]) -> dict[str, Any]:
    """The options of a collection with the usual overflow group, where a cap may hide pairs and nobody said otherwise.

    Campaigns and simulations fill it in; forms that are published stay as they were published.
    """
    given = spelled(options)
    fit = OPTION in options_of(find(name)) and all(given.get(one, usual) == usual for one, usual in _UNBIASED.items())
    return {**given, OPTION: decimal_text(USUAL_SHARE)} if fit and given.get(OPTION) is None else given


def read_share(given: Any) -> Fraction:
    """The share of an overflow group as people write it; zero for "off"."""
    try:
        return Fraction(0) if given is None or str(given) in ("off", "False") else read_fraction(given)
    except (ValueError, TypeError, ZeroDivisionError):
        raise _refused(f"An overflow group is a share of the people such as 0.03, or off, not {given!r}.") from None


def _refused(sentence: str) -> MechanismError:
    return MechanismError("mechanism/option", sentence)
