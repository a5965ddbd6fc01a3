"""The page of the papers' claims, README and the pictures belong together, and all of them to the rules in the code."""

from __future__ import annotations

import re
from collections import Counter
from functools import cache
from pathlib import Path

import numpy as np

from keyveil.lab.experiments.catalogue import IDS, experiment
from keyveil.lab.experiments.files import described
from keyveil.lab.experiments.page import page
from keyveil.lab.experiments.plan import planned
from keyveil.lab.experiments.prose import ABOUT, linked
from keyveil.lab.experiments.results import Curve, Results
from keyveil.lab.experiments.shape import PAPERS
from tools import reproduction

ROOT = Path(__file__).parents[1]
PAGE = reproduction.PAGE.read_text(encoding="utf-8")
README = reproduction.README.read_text(encoding="utf-8")
ERRATA = (ROOT / "docs/errata.md").read_text(encoding="utf-8")


@cache
def planted() -> str:
    """The page of results that nobody has run."""
    documents = []
    for id in IDS:
        plan = planned(experiment(id), "quick", seed=1)
        x = np.array(plan.points)
        rng = np.random.default_rng(len(id))
        curves = {place: Curve(x, rng.lognormal(0, 1, len(x)), np.full(len(x), 0.1)) for place in plan.curves}
        documents.append(described(Results(plan, curves, seconds=5000.0), seed=1))
    return page(documents, IDS)


def test_readme_tells_the_score_of_the_page() -> None:
    assert reproduction.written(README, PAGE) == README, "run python -m tools.reproduction"
    other = re.sub(r"(\| all \| )\d+", r"\g<1>999", PAGE)
    assert reproduction.written(README, other) != README


def test_the_score_is_the_sum_of_the_claims() -> None:
    for text in (PAGE, planted()):
        words = Counter(word for some in reproduction.claims(text).values() for word, _ in some)
        score = reproduction.score(text)
        assert list(reproduction.claims(text)) == list(IDS) and sum(score.values()) == words.total()
        assert {word: score[word] for word in ("confirmed", "confirmed only as published")} == {
            word: words[word] for word in ("confirmed", "confirmed only as published")
        }


def test_the_page_of_a_full_run_has_the_claims_and_pictures_of_the_code() -> None:
    """A quick page is what there is until then; its claims may be those of earlier rules."""
    text = planted()
    assert reproduction.unfit(text) == []
    claim = experiment("ye-fig9").claims[0].text.split()[-1]
    assert reproduction.unfit(text.replace(claim, "else.")) != []
    assert len(reproduction.unfit(text.replace("reproduction/li-fig2.png", "li-fig2.png"))) == 1
    if reproduction.size(PAGE) == "full":
        assert reproduction.unfit(PAGE) == []


def test_a_paper_is_summed_up_by_its_claims() -> None:
    text = " ".join(planted().split())
    for title in ("What holds.", "What results contradict, and why."):
        assert text.count(f"**{title}**") == len(PAPERS)
    assert text.count("83 CPU minutes") == len(IDS) and "59.7 CPU hours" in text
    assert max(map(len, planted().splitlines())) <= 120


def test_every_picture_that_the_page_shows_is_there() -> None:
    shown = set(re.findall(r"\]\(pictures/reproduction/([\w-]+)\.png\)", PAGE))
    assert shown == {path.stem for path in reproduction.PICTURES.glob("*.png")}
    in_readme = re.findall(r"docs/pictures/reproduction/([\w-]+)\.png", README)
    assert len(in_readme) == 2 and set(in_readme) <= shown


def test_errata_that_are_mentioned_exist_and_are_linked() -> None:
    known = set(re.findall(r"^\| ([A-F]\d+) \|", ERRATA, flags=re.MULTILINE))
    texts = [claim.because for id in IDS for claim in experiment(id).claims] + [experiment(id).note for id in IDS]
    for text in (*texts, *ABOUT.values()):
        told = set(re.findall(r"\b[A-F]\d+\b", text))
        links = " ".join(re.findall(r"\[(.*?)\]\(errata\.md\)", linked(text)))
        assert told <= known and told == set(re.findall(r"[A-F]\d+", links))
    assert set(ABOUT) == set(PAPERS.values())


def test_no_path_of_a_machine_is_on_the_page() -> None:
    assert not re.findall(r"(?:/tmp|/home|/work|/root)/", PAGE)
