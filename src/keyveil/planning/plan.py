"""Which mechanism: all that serve the goal, ranked by the error that counts, with a reason in words for every line."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from fractions import Fraction
from functools import partial
from typing import TYPE_CHECKING, Any, ClassVar

from keyveil.core.epsilon import Number, decimal_text, parse_epsilon
from keyveil.core.errors import KeyveilError, PlanError
from keyveil.core.rendering import Shown
from keyveil.core.schema import Schema
from keyveil.frames.population import Population
from keyveil.lab.public_options import made_for
from keyveil.mechanisms.base import Mechanism
from keyveil.mechanisms.capabilities import Capped, can
from keyveil.mechanisms.questions import who_answers
from keyveil.mechanisms.registry import build, find_mechanism, is_protocol, protocol_names
from keyveil.planning.candidates import ALL_CAPS, CAPS, USUAL_CAP, considered, forms, with_other_caps
from keyveil.planning.goals import Goal, goals, processed
from keyveil.planning.people import People, number
from keyveil.planning.predict import Prediction, predict, root_mean_square
from keyveil.planning.shrunk import by_draws, shrunk
from keyveil.planning.trials import MOST_TRIED_KEYS, tried_error, tried_people, tried_protocol
from keyveil.planning.words import nothing_learnt, reason
from keyveil.protocols.base import Protocol
from keyveil.protocols.registry import as_protocol

if TYPE_CHECKING:
    from keyveil.planning.curves import Curve
    from keyveil.planning.groups import GroupCost
    from keyveil.planning.wanted import Solved

CLOSED, DRAWN, TRIED = "closed form", "drawn estimates", "simulation"
REFINED = 3  # capped mechanisms whose cap is tried at other shares of the people
WORTH = 1.1  # times the error of a protocol must stay below that of a mechanism: more rounds take time, and trials err
EVEN = 1.02  # times the least error up to which a mechanism is as good after shrinkage: predictions err by more
NOTHING = 1e-12  # an error that counts as none, where errors are compared
SHARES = ("3:1", "1:1", "1:3")  # of the people, between the two groups of a split


@dataclass(frozen=True, eq=False, repr=False)
class Line:
    """One mechanism of a plan: what it is, the errors to expect of it, and why it stands where it stands."""

    prediction: Prediction
    error: float  # what the goal counts; less is better
    method: str  # how the error was found
    why: str = ""
    protocol: Protocol | None = None  # of several rounds, the last of which is the ``mechanism``

    def __repr__(self) -> str:
        return f"Line({self.name}, error={self.error:.3g}, {self.method})"

    @property
    def mechanism(self) -> Mechanism:
        return self.prediction.mechanism

    @property
    def made(self) -> Mechanism | Protocol:
        """What is to be collected with, with all its options."""
        return self.mechanism if self.protocol is None else self.protocol

    @property
    def name(self) -> str:
        return self.made.name

    @property
    def options(self) -> dict[str, Any]:
        return as_protocol(self.made).parameters

    @property
    def rounds(self) -> int:
        """The most rounds that anybody is asked."""
        return len(as_protocol(self.made).longest())

    def document(self) -> dict[str, Any]:
        """The line as JSON; numbers that are not known are null."""
        numbers = {name: _finite(value) for name, value in self.prediction.document().items()}
        return {
            "name": self.name,
            "options": self.options,
            "error": _finite(self.error),
            **numbers,
            "rounds": self.rounds,
            "method": self.method,
            "why": self.why,
        }


@dataclass(frozen=True, eq=False, repr=False)
class Plan(Shown):
    """Mechanisms for people and goals, the best first; ``left_out`` says of the others why they are not listed."""

    shown_as: ClassVar[str] = "plan"

    people: People
    schema: Schema
    epsilon: Fraction
    goals: tuple[Goal, ...]
    lines: tuple[Line, ...]
    left_out: dict[str, str]
    solved: Solved | None = None  # the people and the epsilon that a wish takes
    curves: tuple[Curve, ...] = ()
    group_costs: tuple[GroupCost, ...] = ()  # where the schema has groups

    def __repr__(self) -> str:
        goals = ",".join(goal.name for goal in self.goals)
        return (
            f"Plan({goals}, ε={decimal_text(self.epsilon)}, n={self.people.n:,}, d={self.schema.d}: "
            f"{self.best.name}, first of {len(self.lines)})"
        )

    @property
    def best(self) -> Line:
        return self.lines[0]

    @property
    def note(self) -> str | None:
        """Said where nothing is learnt about single keys: a guess that hears nobody errs by no more."""
        if len(self.goals) > 1 or not _hopeless(self.lines, self.goals[0], self.people):
            return None
        return nothing_learnt(self.goals[0], self.people, self.best.error)

    @property
    def mechanism(self) -> Mechanism | Protocol:
        """The best mechanism with all its options; a protocol if several rounds are allowed and worth it."""
        return self.best.made

    def line(self, name: str) -> Line:
        """The line of a mechanism."""
        for one in self.lines:
            if one.name == name:
                return one
        told = self.left_out.get(name, f"There is no line for {name!r}.")
        raise PlanError("plan/mechanism", told)

    def document(self) -> dict[str, Any]:
        """The object that ``keyveil plan --json`` prints."""
        return {
            "mechanisms": [line.document() for line in self.lines],
            "best": self.best.name,
            "goal": ",".join(goal.name for goal in self.goals),
            **({"postprocess": "bayes"} if any(goal.shrunk for goal in self.goals) else {}),
            "epsilon": float(self.epsilon),
            "people": self.people.n,
            "keys": self.people.d,
            "pairs": self.people.pairs,
            "about": self.people.about,
            "left_out": self.left_out,
            **({} if self.note is None else {"note": self.note}),
            **({} if self.solved is None else {"solved": self.solved.document()}),
            **({"groups": [one.document() for one in self.group_costs]} if self.group_costs else {}),
            **({"curves": [curve.document() for curve in self.curves]} if self.curves else {}),
        }


def ranked(
    people: People,
    epsilon: Number = 1,
    goal: str | Sequence[str] = "both",
    *,
    schema: Schema | None = None,
    bits: float | None = None,
    rounds: int = 1,
    mechanisms: Sequence[str] | str | None = None,
    postprocess: str | None = None,
) -> Plan:
    """Every mechanism that serves the goal within ``bits`` and ``rounds``, ranked by its predicted error.

    ``schema`` has the keys of the people; numbered keys unless given. ``mechanisms`` are the names to consider.
    With ``postprocess="bayes"`` errors count after empirical Bayes.
    Protocols of several rounds are tried by simulation, so they stand first only if they are ``WORTH`` it.
    """
    wanted, spent = goals(goal), parse_epsilon(epsilon)
    known = schema or Schema(keys=people.d)
    if known.d != people.d:
        raise PlanError("plan/people", f"The schema has {known.d:,} keys, and {people.d:,} are planned for.")
    if bits is not None and not number("the bits of a report", bits) > 0:
        raise PlanError("plan/bits", f"A report has more than 0 bits, not {bits:g}.")
    if number("the rounds", rounds) < 1 or int(rounds) != rounds:
        raise PlanError("plan/rounds", f"A collection has one round or more, not {rounds!r}.")
    if isinstance(mechanisms, str):
        mechanisms = [name.strip() for name in mechanisms.split(",")]
    wanted = wanted if postprocess is None else processed(wanted, postprocess)
    tried = [one.name for one in wanted if one.error is None]
    if tried and people.d > MOST_TRIED_KEYS:
        raise PlanError(
            "plan/keys",
            f"Errors of {' and '.join(tried)} are found by simulation, for up to {MOST_TRIED_KEYS:,} keys; plan for "
            f"the most frequent of the {people.d:,}, or for another goal.",
        )
    search = _Search(people, known, spent, bits)
    single = None if mechanisms is None else [name for name in mechanisms if not is_protocol(name)]
    lines = search.one(wanted[0], single) if len(wanted) == 1 else search.several(wanted, single)
    if rounds == 1 and mechanisms is not None:
        search.left_out |= dict.fromkeys(
            filter(is_protocol, mechanisms), "It takes several rounds, and one is allowed."
        )
    if rounds > 1:
        lines = sorted([*lines, *search.protocols(wanted, rounds, mechanisms)], key=_worth)
    if not lines:
        raise _impossible(wanted, bits, search)
    best = lines[0]
    told = [replace(line, why=reason(line.prediction, line.error, best.error, wanted)) for line in lines]
    return Plan(people, known, spent, wanted, tuple(told), search.left_out)


class _Search:
    """Looks for the best form of every mechanism; keeps why some are left out."""

    def __init__(self, people: People, schema: Schema, epsilon: Fraction, bits: float | None) -> None:
        self.people, self.schema, self.epsilon, self.bits = people, schema, epsilon, bits
        self.left_out: dict[str, str] = {}
        self.least_bits: dict[str, float] = {}
        self._crowd: Population | None = None

    def one(self, goal: Goal, names: Sequence[str] | None = None) -> list[Line]:
        """The best form of every mechanism for one goal, ranked."""
        found = {
            name: line for name in (considered(goal) if names is None else names) if (line := self._best(name, goal))
        }
        ranked = sorted(found.values(), key=_error)
        capped = [line for line in ranked if can(line.mechanism, Capped)]
        for line in capped if goal.shrunk and by_draws(self.people) else capped[:REFINED]:
            found[line.name] = self._with_best_cap(line, goal, ALL_CAPS if goal.shrunk else CAPS)
        lines = sorted(found.values(), key=_error)
        if _hopeless(lines, goal, self.people) and not goal.shrunk and goal.tuned == "frequency":
            lines = sorted((self._narrowest(line, goal) for line in lines), key=_error)
        if goal.shrunk and lines:  # where nothing but an average is learnt, all are alike but for what else they tell
            even = [line for line in lines if line.error <= EVEN * lines[0].error]
            first = min(even, key=_of_frequencies)
            lines.sort(key=lambda line: line is not first)
        return lines

    def _narrowest(self, line: Line, goal: Goal) -> Line:
        """The line, or the same mechanism with a cap below half of the people where that is better."""
        narrow = self._best(line.name, goal, min(ALL_CAPS))
        if narrow is None or can(narrow.mechanism, Capped) is None:
            return line
        return min(line, self._with_best_cap(narrow, goal, ALL_CAPS), key=_error)

    def _with_best_cap(self, line: Line, goal: Goal, shares: Sequence[float]) -> Line:
        """The line with the cap of least error: smaller ones are tried as long as they are better, or else larger ones.

        A smaller cap has less noise and more bias, so the error falls and then rises with the cap.
        """
        best = line
        for others in with_other_caps(line.mechanism, self.people, goal, shares):
            for other in map(partial(self._line, goal=goal), filter(self._short, others)):
                if other.error >= best.error:
                    break
                best = other
            if best is not line:
                break
        return best

    def protocols(self, wanted: tuple[Goal, ...], rounds: int, names: Sequence[str] | None) -> Iterator[Line]:
        """Protocols of at most so many rounds, tried by simulation; only for one goal that has a closed form."""
        goal = wanted[0]
        for name in protocol_names() if names is None else filter(is_protocol, names):
            if len(wanted) > 1 or goal.error is None or self.people.d > MOST_TRIED_KEYS:
                self.left_out[name] = "Protocols are tried for one goal of frequencies or means, and not for many keys."
                continue
            if goal.shrunk:
                self.left_out[name] = "What shrinkage leaves is foreseen for mechanisms of one round."
                continue
            try:
                made = made_for(name, self.schema, self.epsilon, self._crowd_now.sizes, {})[0]
                assert isinstance(made, Protocol)
                if len(made.longest()) > rounds:
                    self.left_out[name] = f"It has {len(made.longest())} rounds."
                    continue
                prediction = tried_protocol(made, self.people, self._crowd_now)
            except KeyveilError as refused:
                self.left_out[name] = refused.sentence
                continue
            if self.bits is None or prediction.bits <= self.bits:
                yield Line(prediction, goal.error(prediction), TRIED, protocol=made)
            else:
                self.left_out[name] = f"A person sends {prediction.bits:.3g} bits."

    @property
    def _crowd_now(self) -> Population:
        """The people of trials, drawn once."""
        if self._crowd is None:
            self._crowd = tried_people(self.people, self.schema)
        return self._crowd

    def several(self, wanted: tuple[Goal, ...], names: Sequence[str] | None) -> list[Line]:
        """One mechanism for all goals, or a split of the people among the best for each.

        The error is the geometric mean, over goals, of errors relative to the best for that goal alone.
        """
        best = {goal.name: self.one(goal, names) for goal in wanted}
        if missing := [goal for goal in wanted if not best[goal.name]]:
            raise _impossible(tuple(missing), self.bits, self)
        made = {id(line.mechanism): line.mechanism for lines in best.values() for line in lines[:3]}
        tried = [one for one in made.values() if all(goal.served(one) for goal in wanted)]
        parts = list(dict.fromkeys(best[goal.name][0].name for goal in wanted))
        lines = [line for one in tried if (line := self._together(one, wanted, best))]
        if len(parts) > 1:
            options = {best[goal.name][0].name: _own(best[goal.name][0].mechanism) for goal in reversed(wanted)}
            for shares in SHARES if len(parts) == 2 else (":".join(["1"] * len(parts)),):
                groups = ",".join(f"{name}:{share}" for name, share in zip(parts, shares.split(":"), strict=True))
                try:
                    split = build("split", self.schema, self.epsilon, {"groups": groups, "group_options": options})
                    lines += [line] if (line := self._together(split, wanted, best)) else []
                except KeyveilError as refused:
                    self.left_out["split"] = refused.sentence
        names_once: dict[str, Line] = {}
        for line in sorted(lines, key=_error):
            names_once.setdefault(line.name, line)
        return list(names_once.values())

    def _together(self, made: Any, wanted: tuple[Goal, ...], best: dict[str, list[Line]]) -> Line | None:
        """A mechanism for all goals."""
        if not all(goal.served(made) for goal in wanted) or not self._short(made):
            return None
        found = [self._line(made, goal) for goal in wanted]
        least = [best[goal.name][0].error for goal in wanted]
        ratios = [max(line.error, NOTHING) / max(error, NOTHING) for line, error in zip(found, least, strict=True)]
        error = math.exp(sum(map(math.log, ratios)) / len(ratios))
        methods = {line.method for line in found}
        return Line(found[0].prediction, error, next(one for one in (TRIED, DRAWN, CLOSED) if one in methods))

    def _best(self, name: str, goal: Goal, within: float = USUAL_CAP) -> Line | None:
        """The form of a mechanism with the least error; nothing if none will do, with the reason in ``left_out``.

        Where it has a cap, a share ``within`` of the people keep to it.
        """
        find_mechanism(name)  # an unknown name is a mistake
        best: Line | None = None
        told = f"It does not tell {goal.meaning}."
        try:
            for made in forms(name, self.schema, self.epsilon, self.people, goal, within):
                if not goal.served(made):
                    continue
                if not self._short(made):
                    told = f"Its reports have {made.bits_per_report:.3g} bits."
                    continue
                line = self._line(made, goal)
                if math.isfinite(line.error) and (best is None or line.error < best.error):
                    best = line
        except KeyveilError as refused:
            told = refused.sentence
        if best is None:
            self.left_out[name] = told
        return best

    def _short(self, made: Mechanism) -> bool:
        """Whether reports fit into the bits that are allowed."""
        if self.bits is None:
            return True
        least = self.least_bits.get(made.name, math.inf)
        self.least_bits[made.name] = min(least, made.bits_per_report)
        return made.bits_per_report <= self.bits

    def _line(self, made: Mechanism, goal: Goal) -> Line:
        prediction = predict(made, self.people)
        if goal.error is not None:
            method = DRAWN if goal.shrunk and by_draws(self.people) else CLOSED
            return Line(prediction, goal.error(prediction), method)
        return Line(prediction, tried_error(made, self.people, self._crowd_now, goal), TRIED)


def _error(line: Line) -> float:
    return line.error


def _hopeless(lines: Sequence[Line], goal: Goal, people: People) -> bool:
    """Whether a guess that hears nobody is as good as the best mechanism."""
    return bool(lines) and goal.guessed is not None and lines[0].error >= goal.guessed(people)


def _of_frequencies(line: Line) -> float:
    return root_mean_square(shrunk(line.prediction).frequency)


def _worth(line: Line) -> float:
    """What lines are ranked by: several rounds must be clearly better than one."""
    return line.error * (1.0 if line.protocol is None else WORTH)


def _own(mechanism: Mechanism) -> dict[str, Any]:
    """The options of a mechanism as those of a group, which has no overflow group of its own."""
    return {option: value for option, value in mechanism.options.items() if option != "overflow" and value is not None}


def _impossible(wanted: tuple[Goal, ...], bits: float | None, search: _Search) -> PlanError:
    """One sentence about goals that nothing serves, with what is possible."""
    told = " and ".join(goal.meaning for goal in wanted)
    name, least = min(search.least_bits.items(), key=lambda one: one[1], default=("", 0.0))
    if bits is not None and least > bits:
        return PlanError(
            "plan/bits",
            f"No report of {bits:g} bit{'' if bits == 1 else 's'} tells {told}; "
            f"with {math.ceil(least):,} bits {name} does.",
        )
    able = set(search.least_bits) - {name for name, why in search.left_out.items() if why.endswith(" bits.")}
    first = sorted(search.left_out.items(), key=lambda one: one[0] not in able)  # who fails for no other reason
    reasons = "; ".join(f"{name}: {why.rstrip('.')}" for name, why in first[:3])
    others = "; ".join(f"{one.meaning}: {_listed(one)}" for one in wanted)
    return PlanError(
        "plan/goal",
        f"No mechanism that was considered tells {told} ({reasons or 'none was named'}). Possible are, for {others}.",
    )


def _listed(goal: Goal) -> str:
    """The mechanisms that answer everything that a goal needs."""
    answering = [set(who_answers(kind)) for kind in goal.needs]
    return ", ".join(sorted(set.intersection(*answering))) or "none"


def _finite(value: Any) -> Any:
    return None if isinstance(value, float) and not math.isfinite(value) else value
