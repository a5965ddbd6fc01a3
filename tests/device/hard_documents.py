"""Documents that take a device much work to read, and what each takes: for the search of the worst one, and its time.

The hand-picked ones lie at the edges: most keys, pairs, bins and rounds that fit together, searches that are just cheap
enough, and those that once took minutes.
"""

from __future__ import annotations

from dataclasses import fields
from itertools import count
from typing import Any

from keyveil.campaign.documents import Campaign
from keyveil.campaign.rounds import RoundDocument
from keyveil.campaign.verification import DeviceLimits, _refuse_large, _refuse_numbers
from keyveil.core.errors import KeyveilError
from keyveil.core.work import Work, limited
from keyveil.lab.coins import SeededCoins
from keyveil.mechanisms import registry
from tests.device.collector import document

LIMITS = DeviceLimits()
NUMBERS = [1, 2, 3, 5, 8, 13, 30, 64, 100, 255, 256, 1000, 4096, 10_000, 65_536, 1 << 20, 1 << 32]
KEYS = [1, 2, 3, 8, 30, 100, 300, 1000, 4000, 16_000, 65_536]
NAMES = [name for name in registry.names() if getattr(registry.find(name), "takes", "every set") == "every set"]

Hard = tuple[int, dict[str, Any]]  # the number of keys, and a protocol without its epsilon
_read = count(1)


def sizes(many: int, largest: int) -> str:
    """A law of ``many`` set sizes up to the largest."""
    return ",".join(f"{max(1, largest - at)}:1/{many}" for at in range(many))


HARD: list[Hard] = [
    (1000, {"name": "ssr", "bins": 32, "max_pairs": 256}),
    (65_536, {"name": "ssr", "max_pairs": 64}),
    (65_536, {"name": "topsel", "set_sizes": "16"}),
    (65_536, {"name": "topsel", "set_sizes": "5"}),
    (65_536, {"name": "topsel-project", "padding": 5}),
    (65_536, {"name": "privkvm-star", "bins": 128}),
    (65_536, {"name": "privkvm-harmony", "rounds": 3}),
    (1000, {"name": "privkvm-harmony", "rounds": 100}),
    (2, {"name": "privkvm", "rounds": 100}),
    (16_000, {"name": "split", "max_pairs": 108}),
    (65_536, {"name": "pilot", "options": "max_pairs=64"}),
    (300, {"name": "topsel", "set_sizes": "255:0.5,256:0.5"}),
    (300, {"name": "topsel", "set_sizes": sizes(256, 256)}),
    (65_536, {"name": "moments", "order": 10_000}),
]


def read(keys: int, protocol: dict[str, Any], most: int = LIMITS.units) -> tuple[int, str]:
    """Read a document as a device does; the units that it took, ``most`` at most, and the code of its refusal.

    Every call has an epsilon of its own: what was computed for another one is of no use, as on a device that meets the
    document for the first time.
    """
    made = document(schema={"keys": keys}, protocol={"epsilon": f"1.{next(_read):06d}", **protocol})
    code, work = "", Work(most)
    try:
        with limited(most) as work:
            _refuse_large(made, LIMITS)
            campaign = Campaign.from_document(made)
            _refuse_numbers(campaign.protocol.parameters, keys, LIMITS)
            first = campaign.protocol.next_round([])
            assert first is not None
            asked = RoundDocument.of(campaign, first)
            assert asked.cost and asked.report_bytes
            assert campaign.protocol.course  # what a later round is held to
    except KeyveilError as refused:
        code = refused.code
    except (TypeError, ValueError, ArithmeticError, LookupError, AttributeError):
        code = "campaign/document"  # as ``read_notice`` says it
    return work.spent, code


def any_document(coins: SeededCoins) -> Hard:
    """Some keys and some protocol with some of its options, each at some number."""
    name = NAMES[coins.below(len(NAMES))]
    options: dict[str, Any] = {"name": name}
    for one in fields(registry.find(name)):
        kind = str(one.type)
        if one.name in ("schema", "epsilon") or coins.chance(1, 3):
            continue
        number = NUMBERS[coins.below(len(NUMBERS))]
        if one.name in ("set_sizes", "sizes"):
            options[one.name] = sizes(1 + coins.below(256), 1 + coins.below(256))
        elif one.name == "groups":
            options[one.name] = ",".join(f"{['ssr', 'kvue', 'topsel', 'moments'][coins.below(4)]}:1" for _ in range(4))
        elif "int" in kind:
            options[one.name] = number
        elif "Fraction" in kind:
            options[one.name] = f"0.{number}"
    if name in ("pilot", "adaptive", "split"):
        options.setdefault("max_pairs", 1 + coins.below(256))
    return KEYS[coins.below(len(KEYS))], options


def changed(coins: SeededCoins, hard: Hard) -> Hard:
    """A document near a hard one: other keys, and one of its numbers at another value."""
    keys, protocol = hard
    numbers = [option for option, value in protocol.items() if type(value) is int]
    if numbers:
        option = numbers[coins.below(len(numbers))]
        near = [max(1, protocol[option] * eighths // 8) for eighths in (4, 7, 9, 16)]
        protocol = {**protocol, option: [*near, *NUMBERS][coins.below(len(near) + len(NUMBERS))]}
    return (KEYS[coins.below(len(KEYS))] if coins.chance(1, 2) else keys), protocol
