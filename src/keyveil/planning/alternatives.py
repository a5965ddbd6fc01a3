"""What other ways of collecting would err by with as many people: behind docs/when-not-to-use.md.

    python -m keyveil.planning.alternatives docs/when-not-to-use.md

Everybody holds the same number of pairs, and the error is that of a frequency. All ways promise the same ε to a person
whose record is replaced by another, the relay at δ. They differ in whom the person must trust.
"""

from __future__ import annotations

import math
import sys
from bisect import bisect_left
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path

from keyveil.planning.ask import plan
from keyveil.planning.plan import Plan
from keyveil.privacy.shuffled import shuffled

PEOPLE = (10**3, 10**4, 10**5, 10**6, 10**7)
KEYS, PAIRS, EPSILON = 100, 5, 1.0
HOLDERS = PAIRS / KEYS  # share of the people who hold a key, on average
BITS = 32  # of keys that nobody has listed: levels of the tree that is searched for them
STEP = 0.25  # between local epsilons that are tried for a relay
MOST = 10.0
BEGIN, END = "<!-- begin table -->", "<!-- end table -->"


def local(n: int) -> float:
    """Keyveil: the standard error that the planner predicts for its best mechanism in one round."""
    return _error(_best(n, EPSILON))


def relay(n: int) -> float:
    """The reports of ``ssr`` without their senders, at the largest local ε that shuffling makes worth ``EPSILON``."""
    return _error(_best(n, local_epsilon(n), ("ssr",)))


def local_epsilon(n: int) -> float:
    """That local ε, to ``STEP`` and at most ``MOST``, by what it is worth after shuffling at δ = min(10⁻⁶, 0.1/n).

    More local ε is worth more after shuffling as well, so that it is found by halving.
    """
    steps = round((MOST - EPSILON) / STEP)
    allowed = bisect_left(range(1, steps + 1), True, key=lambda step: _central(n, EPSILON + step * STEP) > EPSILON)
    return EPSILON + allowed * STEP


def _central(n: int, epsilon: float) -> float:
    mechanism = _best(n, epsilon, ("ssr",)).best.mechanism
    return shuffled(mechanism, n, min(1e-6, 0.1 / n), confirm=False).epsilon


def central(n: int) -> float:
    """One trusted party adds Laplace noise once to all counts and all sums of values on [-1, 1].

    A record that is replaced changes ``PAIRS`` counts and as many sums by at most one each, twice: 4 · PAIRS in all.
    """
    return math.sqrt(2) * 4 * PAIRS / EPSILON / n


def two_servers(n: int) -> float:
    """Prio or DAP: each of two servers adds the noise of ``central``, so that one honest server is enough."""
    return math.sqrt(2) * central(n)


def two_servers_and_unlisted_keys(n: int) -> float:
    """Mastic: counts only, of prefixes of keys; each of ``BITS`` levels of the tree gets its part of ε."""
    return math.sqrt(2) * math.sqrt(2) * 2 * PAIRS * BITS / EPSILON / n


def sampling(n: int) -> float:
    """What is wrong without any noise, because these people are a sample: the error of ``HOLDERS``."""
    return math.sqrt(HOLDERS * (1 - HOLDERS) / n)


WAYS: Mapping[str, Callable[[int], float]] = {
    "Keyveil: nobody": local,
    "a relay: it and the collector do not collude": relay,
    "Prio or DAP: one of two servers": two_servers,
    "Mastic, keys that nobody listed: one of two servers": two_servers_and_unlisted_keys,
    "an enclave: its maker; central DP: the curator": central,
    "no noise at all: the curator (error of the sample)": sampling,
}


def table() -> str:
    """Errors by way and number of people, as Markdown."""
    head = ["who must be trusted", *(f"{n:,} people" for n in PEOPLE)]
    rows = [[name, *(_shown(way(n)) for n in PEOPLE)] for name, way in WAYS.items()]
    rule = ["---", *("--:" for _ in PEOPLE)]
    return "\n".join(f"| {' | '.join(row)} |" for row in (head, rule, *rows))


def written(page: str) -> str:
    """A page with the table as it is computed now."""
    before, _, rest = page.partition(BEGIN)
    return f"{before}{BEGIN}\n\n{table()}\n\n{END}{rest.partition(END)[2]}"


def _best(n: int, epsilon: float, mechanisms: Sequence[str] | None = None) -> Plan:
    sizes = f"{PAIRS}:1"
    return plan(n, KEYS, None, epsilon, "frequency", sizes=sizes, mechanisms=mechanisms)


def _error(found: Plan) -> float:
    return float(found.best.prediction.numbers()["se_frequency"])


def _shown(error: float) -> str:
    return "useless" if error > 0.5 else f"{error:.2g}" if error >= 1e-4 else f"{error:.1e}"


def main(arguments: Sequence[str]) -> int:
    """Write the table into the page that is named."""
    page = Path(arguments[0])
    page.write_text(written(page.read_text(encoding="utf-8")), encoding="utf-8")
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
