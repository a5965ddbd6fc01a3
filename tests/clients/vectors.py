"""Vectors of coins: the same stream of bytes gives the same steps, payload and report in Python and in JavaScript.

    python -m tests.clients.vectors write vectors.json --reports 100000     # Node checks them: conformance.mjs check
    python -m tests.clients.vectors check vectors.json                      # what Node wrote: conformance.mjs write

A stream is SHA-256 of its seed and a counter. A step is so many bytes that are read at once, or one draw below a
bound: bound and number, whatever asked for it. So a client that draws in another order, or one number more, differs at
once.
"""

from __future__ import annotations

import argparse
import hashlib
import json
import math
import random
import sys
from collections.abc import Iterator
from fractions import Fraction
from pathlib import Path
from typing import Any

from keyveil.campaign.wire import pad
from keyveil.core.coins import Coins
from keyveil.core.errors import KeyveilError
from keyveil.core.schema import Schema
from keyveil.mechanisms.base import Mechanism
from keyveil.mechanisms.registry import create_round

EPSILONS = ("0.1", "0.5", "1", "1.75", "3", "5.5", "8")
KEYS = (1, 2, 3, 5, 12, 40, 1000)
CAPPED = ("ssr", "wsr", "wheel", "pckv-ue", "pckv-grr")


class StreamCoins(Coins):
    """Coins over the stream of a seed, which note every step."""

    def __init__(self, seed: str) -> None:
        self._seed, self._blocks, self._rest = seed.encode(), 0, b""
        self.steps: list[str] = []

    def bytes(self, count: int) -> bytes:
        while len(self._rest) < count:
            self._rest += hashlib.sha256(self._seed + self._blocks.to_bytes(4, "little")).digest()
            self._blocks += 1
        taken, self._rest = self._rest[:count], self._rest[count:]
        self.steps.append(f"{count} bytes")
        return taken

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
    yield "split", {"groups": "ssr:0.5,kvue:0.5", "max_pairs": few}
    yield "split", {"groups": "wsr:1,topsel:2", "options": {"topsel": {"set_sizes": "1"}}, "max_pairs": few}


def _schema(d: int, number: int, options: dict[str, Any]) -> dict[str, Any]:
    """Numbered or named keys, one range or one for each, levels where points are told."""
    if options.get("bins") == 5:
        return {"keys": d, "low": 1, "high": 5, "levels": [1, 2, 3, 4, 5]}
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


def answer(made: Mechanism, record: dict[str, Any], public: bytes, seed: str) -> dict[str, Any]:
    """The steps, the payload and the padded report for a record and a stream."""
    coins = StreamCoins(seed)
    given = {key: math.nan if value == "NaN" else value for key, value in record.items()}
    report = made.perturb_pairs(made.read(given), coins, public)
    payload = report.payload
    padded = pad(made.encode(report), made.codec.longest + made.codec.varies, made.codec.varies)
    shown = payload.hex() if isinstance(payload, bytes) else list(payload) if isinstance(payload, tuple) else payload
    return {"steps": _digest(coins.steps), "payload": _digest([json.dumps(shown)]), "report": padded.hex()}


def _digest(parts: list[str]) -> str:
    return hashlib.sha256(";".join(parts).encode()).hexdigest()[:16]


def write(path: Path, reports: int, seed: int = 1) -> int:
    """Write vectors of about so many reports; fewer of them where there are many keys. Gives how many there are."""
    chance, listed = random.Random(seed), list(rounds())
    share = {d: 1 / (1 + (d / 4) ** 1.8) for d in KEYS}
    sizes = [share[_count(one["schema"])] for one in listed]
    vectors = []
    for one, size in zip(listed, sizes, strict=True):
        made, cases = made_from(one), []
        for number in range(max(2, round(reports * size / sum(sizes)))):
            record, public = records(one["schema"], chance), chance.randbytes(16)
            name = f"{one['fingerprint'][:8]}/{number}"
            cases.append({"record": record, "id": public.hex(), "seed": name, **answer(made, record, public, name)})
        vectors.append({**one, "cases": cases})
    path.write_text(json.dumps(vectors, allow_nan=False))
    return sum(len(one["cases"]) for one in vectors)


def check(path: Path) -> tuple[int, list[str]]:
    """How many reports another client wrote, and in what they differ from Python's."""
    wrong, total = [], 0
    for one in json.loads(path.read_text()):
        made = made_from(one)
        if described(made, one["schema"]) != {name: part for name, part in one.items() if name != "cases"}:
            wrong.append(f"{one['mechanism']} {one['options']}: another mechanism")
        for case in one["cases"]:
            total += 1
            mine = answer(made, case["record"], bytes.fromhex(case["id"]), case["seed"])
            wrong += [f"{one['mechanism']} {case['seed']}: {what}" for what in mine if mine[what] != case[what]]
    return total, wrong


def made_from(one: dict[str, Any]) -> Mechanism:
    return create_round(one["mechanism"], Schema.from_document(one["schema"]), one["epsilon"], **one["options"])


def _count(schema: dict[str, Any]) -> int:
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
