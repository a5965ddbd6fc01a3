"""A comparison as a Markdown page: every mechanism on every data set, the best of each row marked, losses included."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from fractions import Fraction

from keyveil.core.epsilon import decimal_text
from keyveil.lab.compare import Comparison

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
The cap (`max_pairs`) is the 90 % quantile of the set sizes; people above it bias the mechanisms that need one.
*Everyone's average* gives every key the mean frequency and the pooled mean: what one knows without learning anything
about keys. The truth itself, without privacy, has error 0."""
_PRIVACY_NOTE = """\
Exact ε of the closed form, rounded up, as a share of the ε in the row; never above 1. A mechanism that spends less than
it is asked for was asked for more, until it spends what the row says."""
_TITLES = {
    "frequency": "Frequencies",
    "mean": "Means, on the scale [−1, 1]",
    "frequency_top": "Frequencies of the 20 most frequent keys",
    "mean_top": "Means of the 20 most frequent keys",
}
_MEAN_NOTE = """\
Where most keys are too rare for anybody to learn their means, estimates that hardly move from 0 have the least error
over all keys, and *everyone's average* may beat them all: see the most frequent keys below."""


def page(comparisons: Sequence[Comparison]) -> str:
    """The whole page."""
    names = list(dict.fromkeys(name for one in comparisons for name in one.mechanisms))
    parts = [_opening(comparisons), _data(comparisons)]
    for quantity, title in _TITLES.items():
        parts += [f"## {title}", _errors(comparisons, names, quantity), _wins(comparisons, quantity)]
        parts += [_MEAN_NOTE] if quantity == "mean" else []
    parts += ["## Privacy", _privacy(comparisons), "## Not in the tables", _refused(comparisons)]
    return "\n\n".join(parts) + "\n"


def _opening(comparisons: Sequence[Comparison]) -> str:
    first = comparisons[0]
    epsilons = ",".join(decimal_text(epsilon) for epsilon in first.epsilons)
    runs = "one run" if first.repeats == 1 else f"{first.repeats} runs"
    sources = [one.dataset.source for one in comparisons]
    suite = ["synthetic:suite"] if set(SUITE) <= set(sources) else []
    data = " ".join(suite + [source for source in sources if not (suite and source in SUITE)])
    return f"""# Mechanisms compared

Mean squared errors over all keys that somebody holds, averaged over {runs} with the same people (seed {first.seed}).
Estimates are the unbiased ones, unclipped; means are cut to [−1, 1] and count as 0 where there is none. All mechanisms
have the same exact ε, proved from the integers that they draw with. The best of each row is **bold**, whoever it is; a
dash says that the mechanism does not estimate this or does not take the data. The numbers of people are modest, so that
the page can be made in minutes; errors of unbiased estimates fall like one over the number of people until only the
bias of the cap is left.

The page is written by this command:

```console
$ keyveil compare {data} \\
    --epsilon {epsilons} --repeats {first.repeats} --seed {first.seed} --page docs/comparison.md
```"""


def _data(comparisons: Sequence[Comparison]) -> str:
    lines = [
        "| data | people | keys | pairs a person | largest | cap | everyone's average: f | m | about |",
        "|---|---:|---:|---:|---:|---:|---:|---:|---|",
    ]
    for one in comparisons:
        people, sizes = one.dataset.population, one.dataset.population.sizes
        caps = {entry.options["max_pairs"] for entry in one.entries if "max_pairs" in entry.options}
        cells = (
            one.dataset.name,
            f"{people.n:,}",
            f"{one.dataset.schema.d:,}",
            f"{sizes.mean():.2f}",
            f"{sizes.max():,}",
            ", ".join(str(cap) for cap in sorted(caps)) or "–",
            _number(one.average["frequency"]),
            _number(one.average["mean"]),
            one.dataset.about,
        )
        lines.append(f"| {' | '.join(cells)} |")
    return "\n".join([*lines, "", _DATA_NOTE])


def _errors(comparisons: Sequence[Comparison], names: Sequence[str], quantity: str) -> str:
    lines = [f"| data | ε | {' | '.join(names)} |", f"|---|---|{'---:|' * len(names)}"]
    for one in comparisons:
        for epsilon in one.epsilons:
            best = one.best(epsilon, quantity)
            cells = (_cell(one.error(name, epsilon, quantity), name == best) for name in names)
            lines.append(f"| {one.dataset.name} | {decimal_text(epsilon)} | {' | '.join(cells)} |")
    return "\n".join(lines)


def _wins(comparisons: Sequence[Comparison], quantity: str) -> str:
    winners = (one.best(epsilon, quantity) for one in comparisons for epsilon in one.epsilons)
    counted = Counter(name for name in winners if name)
    return "Rows won: " + ", ".join(f"{name} {rows}" for name, rows in counted.most_common()) + "."


def _privacy(comparisons: Sequence[Comparison]) -> str:
    """How much of what was asked each mechanism spends, at worst and at best."""
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
    lines = [f"- {one.dataset.name}, {name}: {reason}" for one in comparisons for name, reason in one.refused.items()]
    return "\n".join(lines) or "Every mechanism took every data set."


def _cell(error: float | None, best: bool) -> str:
    if error is None:
        return "–"
    return f"**{_number(error)}**" if best else _number(error)


def _number(value: float) -> str:
    """Two digits, as in 3.4e-5."""
    digits, _, exponent = f"{value:.1e}".partition("e")
    return f"{digits}e{int(exponent)}" if value else "0"
