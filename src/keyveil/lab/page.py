"""A comparison as a Markdown page: every mechanism on every data set, the best of each row marked, losses included.

What mechanisms and decoders gain stands first (``lab.page_gains``).
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Mapping, Sequence
from fractions import Fraction
from textwrap import fill

from keyveil.core.epsilon import decimal_text
from keyveil.lab.comparison import QUANTITIES, Comparison
from keyveil.lab.contenders import CAP, PAPER, families
from keyveil.lab.decoders import changes, title
from keyveil.lab.page_gains import TITLES, gains
from keyveil.lab.scores import Score

SUITE = (
    "synthetic:plaw:50000",
    "synthetic:linear-s:20000",
    "synthetic:linear-s:20000:size=2,keys=6",  # few enough keys for the mechanisms that grow like 3^d
    "synthetic:skewed:50000",
    "synthetic:heavy:50000",
    "synthetic:activity:50000",
)
"""The synthetic sets of the documentation, at sizes that one core can run in minutes."""

_DATA_NOTE = """\
*Everyone's average* gives every key the mean frequency and the pooled mean: what one knows without learning anything
about keys. The truth itself, without privacy, has error 0."""
_PRIVACY_NOTE = """\
Exact ε of the closed form, rounded up, as a share of the ε in the row; never above 1. A mechanism that spends less than
requested got a larger request, until it spends what the row says."""
_FORMS_NOTE = """\
Mechanisms that take part in several forms: as they are unless told (first number, with its cap), and in the best of all
forms (second number, with the form). `paper` is the split of the budget that was published, the other the one that the
exact loss allows; *cap* is the most pairs of a person that count. The best form is found on one half of the runs and
measured on the other; where the halves found different ones, both are named. With few runs the search is noisy, and
what it finds may be worse than the given form. All spend the same exact ε."""
_BEST_CAPS_NOTE = """\
Best caps are those with the least predicted error (variance, and the square of what the cap hides) among seven
quantiles of the set sizes, one for frequencies and one for means; nobody looked at results to find them."""
_MEAN_NOTE = """\
Where most keys are too rare for anybody to learn their means, estimates that hardly move from 0 have the least error
over all keys, and *everyone's average* may beat them all: see the most frequent keys below."""
_SAME_MEANS = "Methods of consistency change frequencies alone: with them, means are as estimated."

Groups = Mapping[str, Sequence[str]]  # the labels of every column


def page(comparisons: Sequence[Comparison], command: str | None = None) -> str:
    """The whole page; ``command`` is the one that writes it, in full."""
    took_part = {name for one in comparisons for name in one.mechanisms}
    chosen = dict.fromkeys(label for one in comparisons for label in one.chosen)
    groups = families([label for label in chosen if label in took_part])
    parts = [_opening(comparisons), *_written_by(command), _data(comparisons)]
    parts += gains(comparisons, groups)
    for quantity, heading in TITLES.items():
        parts += [f"## {heading}", _errors(comparisons, groups, quantity), _wins(comparisons, groups, quantity)]
        parts += [_MEAN_NOTE] if quantity == "mean" else []
        parts += [_SAME_MEANS] if quantity == "mean" and _silent(comparisons[0], quantity) else []
    several = {name: labels for name, labels in groups.items() if len(labels) > 1}
    if several:
        parts += ["## As given, and at their best", _FORMS_NOTE]
        parts += [_BEST_CAPS_NOTE] if any(f"{CAP}=best" in label for label in chosen) else []
        for quantity in QUANTITIES:
            parts += [f"### {TITLES[quantity]}", _best_forms(comparisons, several, quantity)]
    parts += ["## Privacy", _privacy(comparisons), "## Not in the tables", _refused(comparisons)]
    return "\n\n".join(parts) + "\n"


def _opening(comparisons: Sequence[Comparison]) -> str:
    first = comparisons[0]
    runs = "one run" if first.repeats == 1 else f"{first.repeats} runs"
    return f"""# Mechanisms compared

Mean squared errors over all keys that somebody holds, averaged over {runs} with the same people (seed {first.seed}).
{_spread_note(first.repeats)}

*As estimated*, frequencies are unbiased and not clipped. Means are ratios that use that every frequency is positive
([theory](theory.md), Fieller means), cut to [−1, 1]; they count as 0 where there is none. All mechanisms have the same
exact ε, proved from the integers that they draw with: what one person spends in all, whatever is announced between
rounds. Who takes part in several forms (splits of the budget, caps) is shown with the best of them, found on one half
of the runs and measured on the other. The best of each row is **bold**, whoever it is; ≈ is beside all whose errors are
less than two standard errors of the difference from the best, and then nobody has won. A dash says that the mechanism
does not estimate this or does not take the data. The numbers of people are modest, so that the page can be made in
minutes; errors of unbiased estimates fall like one over the number of people until only the bias of the cap is left."""


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
        plain = (entry for entry in one.entries if f"{CAP}=best" not in entry.mechanism)
        caps = {cap for entry in plain if (cap := entry.options.get(CAP)) is not None}
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
    origin = "was given" if one.given.get(CAP) is not None else "is the 90 % quantile of the set sizes"
    told = any(f"{CAP}=" in label and f"{CAP}=best" not in label for label in one.chosen)
    own = " where none stands behind a name" if told else ""
    return fill(f"The cap (`max_pairs`) {origin}{own}; people above it bias the mechanisms that need one.", 120)


def _errors(comparisons: Sequence[Comparison], groups: Groups, quantity: str) -> str:
    """Errors by data set, epsilon and decoder, the best of every row marked."""
    several = len(comparisons[0].decoders) > 1
    head = "| data | ε | decoder |" if several else "| data | ε |"
    lines = [f"{head} {' | '.join(groups)} |", f"|---|---|{'---|' * several}{'---:|' * len(groups)}"]
    for one in comparisons:
        for epsilon in one.epsilons:
            for decoder in (some for some in one.decoders if changes(some, quantity)):
                row = one.standing(groups, epsilon, quantity, decoder)
                cells = [_cell(row.scores.get(name), name == row.best, row.shares(name)) for name in groups]
                heads = [_text(one.dataset.name), decimal_text(epsilon), *([title(decoder)] * several)]
                lines.append(f"| {' | '.join([*heads, *cells])} |")
    return "\n".join(lines)


def _silent(one: Comparison, quantity: str) -> bool:
    """Whether a decoder leaves a quantity as it is, so that it has no rows."""
    return not all(changes(decoder, quantity) for decoder in one.decoders)


def _wins(comparisons: Sequence[Comparison], groups: Groups, quantity: str) -> str:
    """Who won how many rows, decoder by decoder."""
    decoders = [one for one in comparisons[0].decoders if changes(one, quantity)]
    lines = []
    for decoder in decoders:
        won: Counter[str] = Counter()
        tied: Counter[str] = Counter()
        for one in comparisons:
            for epsilon in one.epsilons:
                row = one.standing(groups, epsilon, quantity, decoder)
                if row.best is not None:
                    (tied if row.ties else won).update((row.best, *row.ties))
        clear = ", ".join(f"{name} {rows}" for name, rows in won.most_common()) or "none"
        shared = ", ".join(f"{name} {rows}" for name, rows in tied.most_common())
        told = "Rows won" if len(decoders) == 1 else f"Rows won {title(decoder)}"
        lines.append(f"{told}: {clear}." + (f" Among those that share the first place: {shared}." if shared else ""))
    return "\n\n".join(lines)


def _best_forms(comparisons: Sequence[Comparison], groups: Groups, quantity: str) -> str:
    """The given form and the best one of every mechanism that has several, without a decoder if that was measured."""
    lines = [f"| data | ε | {' | '.join(groups)} |", f"|---|---|{'---|' * len(groups)}"]
    for one in comparisons:
        for epsilon in one.epsilons:
            cells = [_both(one, labels, epsilon, quantity) for labels in groups.values()]
            lines.append(f"| {_text(one.dataset.name)} | {decimal_text(epsilon)} | {' | '.join(cells)} |")
    return "\n".join(lines)


def _both(one: Comparison, labels: Sequence[str], epsilon: Fraction, quantity: str) -> str:
    """``3.4e-3 (cap 35) → 2.1e-3 (paper, cap 12)``, or the first alone where no other form is better."""
    given = one.columns({labels[0]: labels[:1]}, epsilon, quantity).get(labels[0])
    best = one.best_of(labels, epsilon, quantity)
    if given is None or best is None:
        return "–"
    shown = f"{_number(given.error, given.spread)}{_form(one, labels[0], epsilon)}"
    if best.forms == (labels[0],):
        return shown
    forms = dict.fromkeys(_form(one, label, epsilon) or " (as given)" for label in best.forms)
    return f"{shown} → {_number(best.error, best.spread)}{' or'.join(forms)}"


def _form(one: Comparison, label: str, epsilon: Fraction) -> str:
    """What distinguishes a form: its options without the cap, and its cap."""
    entry = one.entry(label, epsilon)
    options = label.partition(":")[2].split(",") if ":" in label else []
    told = ["paper" if option == PAPER else option for option in options if not option.startswith(f"{CAP}=")]
    cap = None if entry is None else entry.options.get(CAP)
    told += [] if cap is None else [f"cap {cap}"]
    return f" ({', '.join(told)})" if told else ""


def _privacy(comparisons: Sequence[Comparison]) -> str:
    """How much of the ε of a row each mechanism spends, at worst and at best, all forms together."""
    spent: dict[str, list[float]] = {}
    for one in comparisons:
        for entry in one.entries:
            exact = Fraction(entry.exact_epsilon) if entry.exact_epsilon is not None else Fraction(0)
            spent.setdefault(entry.mechanism.partition(":")[0], []).append(float(exact / entry.epsilon))
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


def _cell(score: Score | None, best: bool, tied: bool) -> str:
    if score is None:
        return "–"
    number = _number(score.error, score.spread)
    return (f"**{number}**" if best else number) + (" ≈" if tied else "")


def _number(value: float, spread: float | None = None) -> str:
    """Two digits, as in 3.4e-5, with the standard error in units of the last one, as in 3.4(2)e-5."""
    digits, _, exponent = f"{value:.1e}".partition("e")
    unsure = "" if spread is None else f"({spread / 10.0 ** (int(exponent) - 1):.0f})"
    return f"{digits}{unsure}e{int(exponent)}" if value else "0"


def _text(words: str) -> str:
    """Words of somebody else, so that Markdown takes them for words."""
    return re.sub(r"([\\`*_\[\]<>|])", r"\\\1", " ".join(words.split()))
