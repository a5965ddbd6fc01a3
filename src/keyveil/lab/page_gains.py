"""The part of a comparison's page that says what the mechanism gains and what the decoder gains, as numbers."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from keyveil.lab.comparison import ALL_QUANTITIES, Comparison
from keyveil.lab.contenders import of_project
from keyveil.lab.decoders import BAYES, RAW, changes, title
from keyveil.lab.ratios import Gain, decoder_gain, mechanism_gain

TITLES = {
    "frequency": "Frequencies",
    "mean": "Means, on the scale [−1, 1]",
    "frequency_top": "Frequencies of the 20 most frequent keys",
    "mean_top": "Means of the 20 most frequent keys",
}

_MECHANISM_NOTE = """\
The best mechanism of this project against the best published one, row by row (data set and ε), with the same decoder:
the geometric mean of the ratio of their errors, above 1 where the project is better, and in how many rows the errors
are more than two standard errors of the difference apart. *Best* is found on one half of the runs and measured on the
other, for both sides, over all mechanisms and forms. Published are also `kvue` (Sun et al.), `collision` (Wang et al.)
and `marginals` (in the manner of CALM), whatever this project added to them. With few runs the search for the best is
noisy; [equal decoders](equal-decoders.md) has twenty, on more populations, and chooses for the project in advance."""
_MIXED_NOTE = """\
The last rows mix both gains: the project with empirical Bayes against published mechanisms without a decoder. It is
what a paper with a new mechanism and a new decoder would report."""
_DECODER_NOTE = """\
What a decoder gains for the same mechanism: the geometric mean over all rows of its error as estimated over its error
with the decoder. The gain is large where a mechanism is bad, since most of what is removed is noise."""


def gains(comparisons: Sequence[Comparison], groups: Mapping[str, Sequence[str]]) -> list[str]:
    """The sections, as far as there are two sides to compare, and two decoders."""
    sides = {of_project(name) for name in groups}
    parts = ["## What the mechanism gains", _MECHANISM_NOTE, *_mechanisms(comparisons)] if len(sides) == 2 else []
    others = [one for one in comparisons[0].decoders if one != RAW]
    if RAW in comparisons[0].decoders and others:
        parts += ["## What the decoder gains", _DECODER_NOTE, _decoders(comparisons, groups, others)]
    return parts


def _mechanisms(comparisons: Sequence[Comparison]) -> list[str]:
    decoders = comparisons[0].decoders
    lines = ["| errors of | decoder | gain | least | most | rows won | tied | lost |", "|---|---|" + "---:|" * 6]
    for quantity in ALL_QUANTITIES:
        for decoder in (one for one in decoders if changes(one, quantity)):
            lines += _row(quantity, title(decoder), mechanism_gain(comparisons, quantity, decoder))
    if RAW not in decoders or BAYES not in decoders:
        return ["\n".join(lines)]
    for quantity in ALL_QUANTITIES:
        mixed = mechanism_gain(comparisons, quantity, BAYES, against=RAW)
        lines += _row(quantity, "project with empirical Bayes, published as estimated", mixed)
    return ["\n".join(lines), _MIXED_NOTE]


def _row(quantity: str, decoder: str, found: Gain | None) -> list[str]:
    if found is None:
        return []
    numbers = f"{found} | {found.least:.2f} | {found.most:.2f} | {found.wins} | {found.ties} | {found.losses}"
    return [f"| {TITLES[quantity].partition(',')[0].lower()} | {decoder} | {numbers} |"]


def _decoders(comparisons: Sequence[Comparison], groups: Mapping[str, Sequence[str]], others: Sequence[str]) -> str:
    columns = [(quantity, one) for quantity in ALL_QUANTITIES for one in others if changes(one, quantity)]
    letters = {quantity: quantity[0] + (", top 20" if quantity.endswith("top") else "") for quantity in ALL_QUANTITIES}
    heads = " | ".join(f"{letters[quantity]}, {one}" for quantity, one in columns)
    lines = [f"| mechanism | {heads} |", "|---|" + "---:|" * len(columns)]
    for name, labels in groups.items():
        found = (decoder_gain(comparisons, labels, quantity, one, RAW) for quantity, one in columns)
        lines.append(f"| {name} | {' | '.join('–' if one is None else str(one) for one in found)} |")
    return "\n".join(lines)
