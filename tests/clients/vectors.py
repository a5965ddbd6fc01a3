"""Vectors of coins: the same stream of bytes gives the same steps, payload and report in Python and in JavaScript.

    python -m tests.clients.vectors write vectors.json --reports 100000     # Node checks them: conformance.mjs check
    python -m tests.clients.vectors check vectors.json                      # what Node wrote: conformance.mjs write

Each question has a few records and a number of cases. Case ``number`` of a question is answered for record ``number``
modulo the number of records, with the stream of the seed ``{salt}/{number}``: SHA-256 of the seed and a counter. Its
first sixteen bytes are the report's id. A step is so many bytes that are read at once, or one draw below a bound:
bound and number, whatever asked for it. So a client that draws in another order, or one number more, differs at once.
Steps, payloads and reports are compared by digests of chunks of cases; the reports of the first chunk stand there as
they are, and are decoded again.
"""

from __future__ import annotations

import argparse
import hashlib
import itertools
import json
import math
import random
import sys
from collections.abc import Iterator
from fractions import Fraction
from pathlib import Path
from typing import Any

from keyveil.campaign.wire import pad, unpad
from keyveil.core.coins import Coins
from keyveil.core.errors import KeyveilError
from keyveil.core.schema import Schema
from keyveil.mechanisms.base import Mechanism, Pairs
from keyveil.mechanisms.registry import create_round

EPSILONS = ("0.1", "0.5", "1", "1.75", "3", "5.5", "8")
KEYS = (1, 2, 3, 5, 12, 40, 1000)
CHUNK = 16  # cases that one digest is of
RECORDS = 12  # of each question
CAPPED = ("ssr", "wsr", "wheel", "pckv-ue", "pckv-grr")


class StreamCoins(Coins):
    """Coins over the stream of a seed, which note every step."""

    def __init__(self, seed: str) -> None:
        self._blocks = itertools.count()
        self._hash = hashlib.sha256(seed.encode())
        self._rest = b""
        self.steps: list[str] = []
        self.id = self.bytes(16)

    def bytes(self, count: int) -> bytes:
        rest = self._rest
        while len(rest) < count:
            block = self._hash.copy()
            block.update(next(self._blocks).to_bytes(4, "little"))
            rest += block.digest()
        self._rest = rest[count:]
        self.steps.append(f"{count} bytes")
        return rest[:count]

    def below(self, bound: int) -> int:
        drawn = super().below(bound)
        self.steps.append(f"{bound}:{drawn}")
        return drawn


def rounds() -> Iterator[dict[str, Any]]:
    """Questions of every mechanism that the client answers, at all sizes and prices; those that make sense."""
    for d in KEYS:
        for number, epsilon in enumerate(EPSILONS):
            for name, options in _options(d):
                if d == 1000 and number % 3:
                    continue
                schema = _schema(d, number, options)
                try:
                    made = create_round(name, Schema.from_document(schema), epsilon, **options)
                except KeyveilError:
                    continue
                yield described(made, schema)


def _options(d: int) -> Iterator[tuple[str, dict[str, Any]]]:
    few = min(d, 3)
    for cap in {1, few, min(d, 8)}:
        for name in CAPPED:
            yield name, {"max_pairs": cap}
        yield "apart", {"max_pairs": cap}
    yield "ssr", {"max_pairs": few, "overflow": "0.3"}
    yield "ssr", {"max_pairs": few, "bins": 4}
    yield "ssr", {"max_pairs": few, "bins": 3, "rounding": "cell"}
    yield "wsr", {"max_pairs": few, "weights": [1 + key % 3 for key in range(d)]}
    yield "wsr", {"max_pairs": few, "bins": 5, "overflow": "1/4"}
    yield "pckv-ue", {"max_pairs": few, "split": "paper", "overflow": "0.2"}
    yield "pckv-ue", {"max_pairs": few, "value_epsilon": "0.05"}
    yield "pckv-grr", {"max_pairs": few, "split": "paper"}
    yield "pckv-grr", {"max_pairs": few, "value_epsilon": "0.05"}
    yield "kvue", {}
    yield "kvue", {"bins": 4}
    yield "kvue", {"bins": 4, "rounding": "cell"}
    yield "block", {"width": min(d, 2)}
    yield "block", {"width": 1, "states": 5}
    yield "apart", {"mode": "dense", "size": 1}
    yield "topsel", {"mode": "direct"}
    yield "topsel", {"set_sizes": "1"}
    yield "topsel", {"set_sizes": "1:0.5,2:0.5"}
    yield "topsel", {"set_sizes": str(few), "padding": few, "cohorts": 16}
    yield "topsel", {"set_sizes": str(few), "hashing": "hash"}
    yield "set-size", {"most": min(d, 5)}
    yield "set-size", {"most": min(d, 32)}
    yield "overflow", {"max_pairs": few}
    if 2 * few < d:
        yield "overflow", {"max_pairs": few, "reach": d}
    yield "split", {"groups": "ssr:0.5,kvue:0.5", "max_pairs": few}
    yield "split", {"groups": "wsr:1,topsel:2", "options": {"topsel": {"set_sizes": "1"}}, "max_pairs": few}


def _schema(d: int, number: int, options: dict[str, Any]) -> dict[str, Any]:
    """Numbered or named keys, one range or one for each, logarithms, levels where points are told."""
    if options.get("bins") == 5:
        return {"keys": d, "low": 1, "high": 5, "levels": [1, 2, 3, 4, 5]}
    if EPSILONS[number] == "3":
        return {"keys": d, "low": "0.25", "high": 100, "map": "log", "other": "others"}
    if number % 3 == 0:
        return {"keys": d, "low": -1, "high": 1}
    if number % 3 == 1 or d == 1:
        names = [f"key {place}" for place in range(d)]
        return {"keys": names, "low": "-0.5", "high": "7.25", **({"other": names[0]} if d > 2 else {})}
    return {"keys": d, "low": list(range(d)), "high": [place + 10 for place in range(d)]}


def described(made: Mechanism, schema: dict[str, Any]) -> dict[str, Any]:
    """What a client needs to make the same mechanism, and what must follow from it."""
    ratio = Fraction(made.ratio)
    return {
        "mechanism": made.name,
        "epsilon": made.document()["epsilon"],
        "options": made.options,
        "schema": schema,
        "fingerprint": made.fingerprint.hex(),
        "report_bytes": made.codec.longest + made.codec.varies,
        "ratio": [str(ratio.numerator), str(ratio.denominator)],
    }


def records(schema: dict[str, Any], chance: random.Random) -> dict[str, Any]:
    """A record: often small, sometimes too large, with keys and values that do not count."""
    names = schema["keys"] if isinstance(schema["keys"], list) else [str(key) for key in range(schema["keys"])]
    size = min(len(names), chance.choice((0, 1, 1, 2, 3, 4, 9, 30)))
    values = (lambda: chance.uniform(-1, 6), lambda: chance.randrange(-2, 12), lambda: 1e300, lambda: -3, lambda: 0.5)
    record: dict[str, Any] = {name: chance.choice(values)() for name in chance.sample(names, size)}
    if chance.random() < 0.2:
        record["nobody's key"] = 1
    if record and chance.random() < 0.2:
        record[next(iter(record))] = chance.choice((None, "4", "NaN", [], True))
    return record


def answered(made: Mechanism, pairs: Pairs, seed: str) -> tuple[str, bytes]:
    """Everything that is compared of a case, as a line, and its padded report."""
    coins = StreamCoins(seed)
    report = made.perturb_pairs(pairs, coins, coins.id)
    padded = pad(made.encode(report), made.codec.longest + made.codec.varies, made.codec.varies)
    payload = report.payload
    if isinstance(payload, bytes):
        shown = payload.hex()
    else:
        shown = ",".join(map(str, payload)) if isinstance(payload, tuple | list) else str(payload)
    return f"{';'.join(coins.steps)} {shown} {padded.hex()}\n", padded


def answers(made: Mechanism, one: dict[str, Any]) -> dict[str, Any]:
    """The pairs that count of every record, the digests of all chunks of cases, and the reports of the first."""
    pairs = [made.read(_given(record)) for record in one["records"]]
    lines, reports = [], []
    for number in range(one["cases"]):
        line, padded = answered(made, pairs[number % len(pairs)], f"{one['salt']}/{number}")
        lines.append(line)
        if number < CHUNK:
            reports.append(padded.hex())
    chunks = ("".join(lines[start : start + CHUNK]) for start in range(0, len(lines), CHUNK))
    return {
        "pairs": [" ".join(f"{key}:{z}" for key, z in held) for held in pairs],
        "digests": [hashlib.sha256(chunk.encode()).hexdigest()[:16] for chunk in chunks],
        "reports": reports,
    }


def _given(record: dict[str, Any]) -> dict[str, Any]:
    return {key: math.nan if value == "NaN" else value for key, value in record.items()}


def asked(reports: int, seed: int = 1) -> list[dict[str, Any]]:
    """Every question with its records and how many cases it has: fewer where there are many keys."""
    chance, listed = random.Random(seed), list(rounds())
    shares = [1 / (1 + (count(one["schema"]) / 4) ** 1.8) for one in listed]
    return [
        {
            **one,
            "records": [{}, *(records(one["schema"], chance) for _ in range(RECORDS - 1))],
            "salt": f"{seed}/{one['fingerprint'][:8]}",
            "cases": max(2, math.ceil(reports * share / sum(shares))),
        }
        for one, share in zip(listed, shares, strict=True)
    ]


def write(path: Path, reports: int, seed: int = 1) -> int:
    """Write vectors of at least so many reports; gives how many there are."""
    vectors = [{**one, **answers(made_from(one), one)} for one in asked(reports, seed)]
    path.write_text(json.dumps(vectors, allow_nan=False))
    return sum(one["cases"] for one in vectors)


def check(path: Path) -> tuple[int, list[str]]:
    """How many reports another client wrote, and in what they differ from Python's."""
    wrong, total = [], 0
    for one in json.loads(path.read_text()):
        made, called = made_from(one), f"{one['mechanism']} {one['options']} {one['epsilon']}"
        wanted = described(made, one["schema"])
        wrong += [f"{called}: {name} {one[name]}" for name in wanted if wanted[name] != one[name]]
        mine = answers(made, one)
        total += one["cases"]
        for what in mine:
            pairs = zip(mine[what], one[what], strict=True)
            wrong += [f"{called}: {what} {at}" for at, (own, theirs) in enumerate(pairs) if own != theirs]
        wrong += [f"{called}: report {at} has no reading" for at in _unreadable(made, one)]
    return total, wrong


def _unreadable(made: Mechanism, one: dict[str, Any]) -> list[int]:
    """The reports of the first chunk that a collector could not decode, or would encode otherwise."""
    found = []
    for number, text in enumerate(one["reports"]):
        padded, public = bytes.fromhex(text), StreamCoins(f"{one['salt']}/{number}").id
        try:
            report = made.decode(unpad(padded, len(padded), made.codec.varies), public)
            fits = pad(made.encode(report), len(padded), made.codec.varies) == padded
        except KeyveilError:
            fits = False
        found += [] if fits else [number]
    return found


def made_from(one: dict[str, Any]) -> Mechanism:
    return create_round(one["mechanism"], Schema.from_document(one["schema"]), one["epsilon"], **one["options"])


def count(schema: dict[str, Any]) -> int:
    return schema["keys"] if isinstance(schema["keys"], int) else len(schema["keys"])


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("do", choices=("write", "check"))
    parser.add_argument("path", type=Path)
    parser.add_argument("--reports", type=int, default=10_000)
    parser.add_argument("--seed", type=int, default=1)
    given = parser.parse_args()
    if given.do == "write":
        sys.stdout.write(f"{write(given.path, given.reports, given.seed)} reports\n")
        return
    total, wrong = check(given.path)
    sys.stdout.write(f"{total} reports, {len(wrong)} differences\n" + "".join(f"{one}\n" for one in wrong[:20]))
    raise SystemExit(bool(wrong))


if __name__ == "__main__":
    main()
