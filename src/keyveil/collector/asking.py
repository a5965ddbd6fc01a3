"""Questions to a campaign: the one way on which pages and ``POST /queries`` ask them."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from keyveil.collector.service import Service
from keyveil.learn.questions import Question, Row, answer

Asked = tuple[int | None, str, float]  # a round, what it must be able to answer, and the confidence


def ask(service: Service, name: str, documents: Sequence[Any], attackers: int | None = None) -> list[list[Row]]:
    """The rows that answer each question, from the latest round that can, unless a question says which.

    All questions are read before the first is answered; a round is counted up once for all that are put to it.
    With ``attackers`` rows also say how far so many crafted reports may have moved them.
    """
    questions = [Question.read(one) for one in documents]
    known: dict[Asked, Any] = {}
    answers = []
    for one in questions:
        sure = one.confidence or 0.95
        place = one.round, one.asks, sure
        if place not in known:
            found = service.finished(name, one.round, one.asks)
            known[place] = found, found.estimates(sure)
        found, estimates = known[place]
        rows = answer(one, found.round.mechanism, found.tally, estimates, service.min_reports(name))
        if attackers:
            from keyveil.lab.attacks.answers import with_attackers

            with_attackers(one.kind, rows, found.round.mechanism, found.tally, estimates, attackers, one.within)
        answers.append(rows)
    return answers
