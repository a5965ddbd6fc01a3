"""A comparison as a Markdown page: every mechanism on every data set, the best of each row marked, losses included."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Sequence
from fractions import Fraction

from keyveil.core.epsilon import decimal_text
from keyveil.lab.comparison import QUANTITIES, Comparison
from keyveil.lab.contenders import forms

SUITE = (
    "synthetic:gauss:50000",
    "synthetic:plaw:50000",
    "synthetic:uniform:50000",
    "synthetic:linear-s:20000",
    "synthetic:linear-s:20000:size=2,keys=6",  # few enough keys for the mechanisms that grow like 3^d
    "synthetic:zipf:200000",
    "synthetic:sparse:100000",
)
"""The synthetic sets of the documentation, at sizes that one core can run in minutes."""

_DATA_NOTE = """\
*Everyone's average* gives every key the mean frequency and the pooled mean: what one knows without learning anything
about keys. The truth itself, without privacy, has error 0."""
_PRIVACY_NOTE = """\
Exact ε of the closed form, rounded up, as a share of the ε in the row; never above 1. A mechanism that spends less than
requested got a larger request, until it spends what the row says."""
_TITLES = {
    "frequency": "Frequencies",
    "mean": "Means, on the scale [−1, 1]",
    "frequency_top": "Frequencies of the 20 most frequent keys",
    "mean_top": "Means of the 20 most frequent keys",
}
_FORMS_NOTE = """\
Above, mechanisms take part as they are unless told; here also with the options behind the colon. `split=paper` has the
split of the budget that was published, the other form the split that the exact loss allows. All spend the same exact ε.
The better form of each is bold; ≈ where the runs do not tell them apart."""
_MEAN_NOTE = """\
Where most keys are too rare for anybody to learn their means, estimates that hardly move from 0 have the least error
over all keys, and *everyone's average* may beat them all: see the most frequent keys below."""


def page(comparisons: Sequence[Comparison], command: str | None = None) -> str:
    """The whole page; ``command`` is the one that writes it, in full."""
    took_part = {name for one in comparisons for name in one.mechanisms}
    chosen = dict.fromkeys(label for one in comparisons for label in one.chosen)
    labels = [label for label in chosen if label in took_part]
    others = forms(labels)
    names = [label for label in labels if not any(label in some for some in others.values())]
    parts = [_opening(comparisons), *_written_by(command), _data(comparisons)]
    for quantity, title in _TITLES.items():
        parts += [f"## {title}", _errors(comparisons, [names], quantity, labels), _wins(comparisons, names, quantity)]
        parts += [_MEAN_NOTE] if quantity == "mean" else []
    if others:
        groups = [[name, *some] for name, some in others.items()]
        parts += ["## Other forms of the same mechanisms", _FORMS_NOTE]
        for quantity in QUANTITIES:
            parts += [f"### {_TITLES[quantity]}", _errors(comparisons, groups, quantity)]
    parts += ["## Privacy", _privacy(comparisons), "## Not in the tables", _refused(comparisons)]
    return "\n\n".join(parts) + "\n"


def _opening(comparisons: Sequence[Comparison]) -> str:
    first = comparisons[0]
    runs = "one run" if first.repeats == 1 else f"{first.repeats} runs"
    return f"""# Mechanisms compared

Mean squared errors over all keys that somebody holds, averaged over {runs} with the same people (seed {first.seed}).
{_spread_note(first.repeats)}

Frequencies are unbiased and not clipped. Means are ratios that use that every frequency is positive
([theory](theory.md), Fieller means), cut to [−1, 1]; they count as 0 where there is none. All mechanisms have the same
exact ε, proved from the integers that they draw with: what one person spends in all, whatever is announced between
rounds. The best of each row is **bold**, whoever it is; ≈ is beside all whose errors are less than two standard errors
of the difference from the best, and then nobody has won. A dash says that the mechanism does not estimate this or does
not take the data. The numbers of people are modest, so that the page can be made in minutes; errors of unbiased
estimates fall like one over the number of people until only the bias of the cap is left."""


def _written_by(command: str | None) -> list[str]:
    return [] if command is None else [f"The page is written by this command:\n\n```console\n$ {command}\n```"]


def _spread_note(repeats: int) -> str:
    if repeats == 1:
        return "One run does not show how much these errors vary, so close ones are not told apart."
    return "In brackets is the standard error over the runs, in units of the last digit: 1.4(2)e-3 is 0.0014 ± 0.0002."


def _data(comparisons: Sequence[Comparison]) -> str:
    lines = [
        "| data | people | keys | pairs a person | largest | cap | everyone's average: f | m | about |",
        "|---|---:|---:|---:|---:|---:|---:|---:|---|",
    ]
    for one in comparisons:
        people, sizes = one.dataset.population, one.dataset.population.sizes
        caps = {cap for entry in one.entries if (cap := entry.options.get("max_pairs")) is not None}
        cells = (
            _text(one.dataset.name),
            f"{people.n:,}",
            f"{one.dataset.schema.d:,}",
            f"{sizes.mean():.2f}",
            f"{sizes.max():,}",
            ", ".join(str(cap) for cap in sorted(caps)) or "–",
            _number(one.average["frequency"]),
            _number(one.average["mean"]),
            _text(one.dataset.about),
        )
        lines.append(f"| {' | '.join(cells)} |")
    return "\n".join([*lines, "", _cap_note(comparisons[0]), _DATA_NOTE])


def _cap_note(one: Comparison) -> str:
    """Where caps come from: all were given one, some have their own, or they follow from the data."""
    origin = "was given" if one.given.get("max_pairs") is not None else "is the 90 % quantile of the set sizes"
    own = " where none stands behind a name" if any("max_pairs=" in label for label in one.chosen) else ""
    return f"The cap (`max_pairs`) {origin}{own}; people above it bias the mechanisms that need one."


def _errors(
    comparisons: Sequence[Comparison], groups: Sequence[Sequence[str]], quantity: str, everybody: Sequence[str] = ()
) -> str:
    """Errors by data set and epsilon, the best of every group of columns marked; † if somebody else is better."""
    names = [name for group in groups for name in group]
    lines = [f"| data | ε | {' | '.join(names)} |", f"|---|---|{'---:|' * len(names)}"]
    beaten = False
    for one in comparisons:
        for epsilon in one.epsilons:
            cells = []
            for group in groups:
                best, ties = one.best(epsilon, quantity, group), one.ties(epsilon, quantity, group)
                above = everybody and one.best(epsilon, quantity, everybody) not in group
                above = above and best is not None and best not in one.ties(epsilon, quantity, everybody)
                beaten |= bool(above)
                for name in group:
                    mark = " ≈" if name in ties or (ties and name == best) else ""
                    mark += " †" if above and name == best else ""
                    cells.append(_cell(one, name, epsilon, quantity, name == best) + mark)
            lines.append(f"| {_text(one.dataset.name)} | {decimal_text(epsilon)} | {' | '.join(cells)} |")
    note = ["", "† Another form of a mechanism, in the tables at the end, does better."] if beaten else []
    return "\n".join([*lines, *note])


def _wins(comparisons: Sequence[Comparison], names: Sequence[str], quantity: str) -> str:
    won: Counter[str] = Counter()
    tied: Counter[str] = Counter()
    for one in comparisons:
        for epsilon in one.epsilons:
            best, ties = one.best(epsilon, quantity, names), one.ties(epsilon, quantity, names)
            if best is not None:
                (tied if ties else won).update((best, *ties))
    clear = ", ".join(f"{name} {rows}" for name, rows in won.most_common()) or "none"
    shared = ", ".join(f"{name} {rows}" for name, rows in tied.most_common())
    return f"Rows won: {clear}." + (f" Among those that share the first place: {shared}." if shared else "")


def _privacy(comparisons: Sequence[Comparison]) -> str:
    """How much of the ε of a row each mechanism spends, at worst and at best."""
    spent: dict[str, list[float]] = {}
    for one in comparisons:
        for entry in one.entries:
            exact = Fraction(entry.exact_epsilon) if entry.exact_epsilon is not None else Fraction(0)
            spent.setdefault(entry.mechanism, []).append(float(exact / entry.epsilon))
    lines = [_PRIVACY_NOTE, ""]
    lines += ["| mechanism | least | most |", "|---|---:|---:|"]
    lines += [f"| {name} | {min(shares):.9f} | {max(shares):.9f} |" for name, shares in spent.items()]
    return "\n".join(lines)


def _refused(comparisons: Sequence[Comparison]) -> str:
    lines = [
        f"- {_text(one.dataset.name)}, {name}: {_text(reason)}"
        for one in comparisons
        for name, reason in one.refused.items()
    ]
    return "\n".join(lines) or "Every mechanism took every data set."


def _cell(one: Comparison, name: str, epsilon: Fraction, quantity: str, best: bool) -> str:
    error = one.error(name, epsilon, quantity)
    if error is None:
        return "–"
    number = _number(error, one.spread(name, epsilon, quantity))
    return f"**{number}**" if best else number


def _number(value: float, spread: float | None = None) -> str:
    """Two digits, as in 3.4e-5, with the standard error in units of the last one, as in 3.4(2)e-5."""
    digits, _, exponent = f"{value:.1e}".partition("e")
    unsure = "" if spread is None else f"({spread / 10.0 ** (int(exponent) - 1):.0f})"
    return f"{digits}{unsure}e{int(exponent)}" if value else "0"


def _text(words: str) -> str:
    """Words of somebody else, so that Markdown takes them for words."""
    return re.sub(r"([\\`*_\[\]<>|])", r"\\\1", " ".join(words.split()))
