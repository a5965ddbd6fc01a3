"""Mechanisms and protocols of others: registered by a call, or offered by the entry point of an installed package."""

from __future__ import annotations

import importlib
import json
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from fractions import Fraction
from pathlib import Path
from typing import Any, ClassVar

import pytest

import keyveil as kv
from keyveil.cli.app import run
from keyveil.core.errors import ContractError, KeyveilError, KeyveilWarning, MechanismError
from keyveil.core.estimates import Estimates
from keyveil.lab import datasets
from keyveil.lab.compare import compare
from keyveil.mechanisms import registry
from keyveil.mechanisms.base import Mechanism
from keyveil.mechanisms.keyvalue.kvue import KVUE
from keyveil.mechanisms.keyvalue.ssr import SSR
from keyveil.protocols.base import History, Protocol, Round, part_of
from tests.device.collector import Collector, document
from tests.device.owner import agreed
from tests.entry_points import offer

SCHEMA = kv.Schema(keys=3)


@dataclass(frozen=True)
class Mine(KVUE):
    """KVUE under another name."""

    name: ClassVar[str] = "mine"


@dataclass(frozen=True)
class Needy(SSR):
    """Needs a cap, and gives no example of one."""

    name: ClassVar[str] = "needy"
    examples: ClassVar[tuple[dict[str, Any], ...]] = ({},)


@dataclass(frozen=True)
class Twice(Protocol):
    """Everybody answers KVUE twice, with half of epsilon each; the second answer is what counts."""

    name: ClassVar[str] = "twice"
    announces: ClassVar[bool] = False

    def plan(self, finished: History) -> Round | None:
        half = part_of(self.epsilon, Fraction(1, 2))
        return None if len(finished) == 2 else Round(len(finished) + 1, KVUE(self.schema, half))

    def estimate(self, finished: History, confidence: float = 0.95, population: bool = False) -> Estimates:
        return finished[-1].estimates(confidence, population)


@pytest.fixture
def mine() -> Iterator[None]:
    with registry.registered("mine", Mine), registry.registered("twice", Twice):
        yield


@pytest.mark.usefixtures("mine")
def test_a_registered_name_is_like_any_other() -> None:
    assert isinstance(kv.mechanism("mine", SCHEMA, 1, bins="4"), Mine)
    assert isinstance(kv.mechanism("twice", SCHEMA, 1), Twice)
    assert registry.mechanism_names()[-1] == "mine" and registry.protocol_names()[-1] == "twice"
    assert not registry.is_protocol("mine") and registry.is_protocol("twice")
    document = kv.mechanism("mine", SCHEMA, 1, bins=4).document()
    assert registry.from_document(document) == Mine(SCHEMA, Fraction(1), bins=4)
    assert isinstance(registry.create_round("mine", SCHEMA, 1), Mine)


@pytest.mark.usefixtures("mine")
def test_simulate_and_compare_take_it() -> None:
    people = datasets.load("uniform", n=500, seed=1)
    for name in ("mine", "twice"):
        result = kv.simulate(name, people.population, people.schema, 2, seed=3)
        assert result.mechanism.name == name
        assert result.metrics["mse_frequency"] is not None
    same = compare(people, [1], ["mine", "kvue"], seed=3)
    errors = [same.error(name, Fraction(1), "frequency") for name in ("mine", "kvue")]
    assert errors[0] is not None and errors[1] is not None


@pytest.mark.usefixtures("mine")
@pytest.mark.parametrize(
    "command",
    [
        "certify --mechanism NAME --epsilon 1 --keys 3 --json",
        "audit --mechanism NAME --epsilon 1 --keys 3 --seconds 0.5 --json",
        "simulate synthetic:uniform:300 --mechanism NAME --epsilon 1 --seed 1 --json",
    ],
)
@pytest.mark.parametrize("name", ["mine", "twice"])
def test_commands_take_it(command: str, name: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert run(command.replace("NAME", name).split()) == 0
    assert json.loads(capsys.readouterr().out)["mechanism"] == name


@pytest.mark.usefixtures("mine")
def test_compare_takes_it_on_the_command_line(capsys: pytest.CaptureFixture[str]) -> None:
    assert (
        run(["compare", "synthetic:uniform:300", "--epsilon", "1", "--mechanisms", "mine,mine:bins=4", "--json"]) == 0
    )
    assert [one["mechanism"] for one in json.loads(capsys.readouterr().out)["mechanisms"]] == ["mine", "mine:bins=4"]


def test_campaigns_and_devices_take_it_where_it_is_installed() -> None:
    collector = Collector()
    with registry.registered("mine", Mine):
        for name in ("snack-survey", "other-survey"):
            collector.open(document(name=name, protocol={"name": "mine", "epsilon": "1"}))
        outcome = agreed(collector).report("snack-survey", {"fries": 4})
        assert outcome.state == "sent"
    with pytest.raises(KeyveilError, match="There is no mechanism 'mine'"):
        agreed(collector, name="other-survey")


def test_afterwards_the_name_is_unknown_again() -> None:
    with registry.registered("mine", Mine):
        pass
    with pytest.raises(MechanismError) as refused:
        kv.mechanism("mine", SCHEMA, 1)
    assert refused.value.code == "mechanism/unknown"


@pytest.mark.usefixtures("mine")
def test_a_mistyped_name_of_others_is_guessed() -> None:
    with pytest.raises(MechanismError, match=r"did you mean twice\?"):
        kv.mechanism("twise", SCHEMA, 1)
    with pytest.raises(MechanismError, match="twice is a protocol"):
        registry.find_mechanism("twice")


@pytest.mark.usefixtures("mine")
def test_a_class_that_is_defined_again_takes_the_place_of_its_former_self() -> None:
    again: Any = dataclass(frozen=True)(type("Mine", (KVUE,), {"name": "mine", "__module__": Mine.__module__}))
    kv.register("mine", again)
    assert type(kv.mechanism("mine", SCHEMA, 1)) is again
    other: Any = dataclass(frozen=True)(type("Other", (KVUE,), {"name": "mine", "__module__": Mine.__module__}))
    with pytest.raises(MechanismError) as refused:
        kv.register("mine", other)
    assert refused.value.code == "mechanism/taken"


@pytest.mark.parametrize(
    ("name", "cls", "code"),
    [
        ("ssr", SSR, "mechanism/taken"),
        ("privkvm", Twice, "mechanism/taken"),
        ("set-size", Mine, "mechanism/taken"),
        ("Mine", Mine, "mechanism/name"),
        ("my mechanism", Mine, "mechanism/name"),
        ("all", Mine, "mechanism/name"),
        ("auto", Mine, "mechanism/name"),
        ("", Mine, "mechanism/name"),
        ("yours", Mine, "contract/name"),
        ("mine", Mine(SCHEMA, Fraction(1)), "contract/class"),
        ("mine", dict, "contract/class"),
        ("mine", Mechanism, "contract/check"),
        ("needy", Needy, "contract/examples"),
    ],
)
def test_what_cannot_be_registered_is_refused_in_one_sentence(name: str, cls: Any, code: str) -> None:
    with pytest.raises(KeyveilError) as refused:
        kv.register(name, cls)
    assert refused.value.code == code
    assert refused.value.sentence.endswith(".") and "\n" not in refused.value.sentence


def test_only_what_was_registered_can_be_forgotten() -> None:
    with pytest.raises(MechanismError, match="Nobody has registered 'ssr'"):
        registry.unregister("ssr")


# -- entry points ---------------------------------------------------------------------------------------------------

MODULE = """
from dataclasses import dataclass
from typing import ClassVar
from keyveil.mechanisms.keyvalue.kvue import KVUE

@dataclass(frozen=True)
class Packed(KVUE):
    name: ClassVar[str] = "packed"
"""


@pytest.fixture
def site(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """A folder on the path into which packages can be installed."""
    monkeypatch.syspath_prepend(tmp_path)
    (tmp_path / "packed.py").write_text(MODULE)
    (tmp_path / "torn.py").write_text("raise ImportError('the shared library is gone')")
    registry.forget_entry_points()
    importlib.invalidate_caches()
    yield tmp_path
    for module in ("packed", "torn"):
        sys.modules.pop(module, None)
    registry.forget_entry_points()


def test_an_installed_package_offers_its_mechanism_and_is_loaded_when_it_is_wanted(site: Path) -> None:
    offer(site, "keyveil-packed", {"packed": "packed:Packed"})
    kv.mechanism("kvue", SCHEMA, 1)
    assert "packed" not in sys.modules
    assert kv.mechanism("packed", SCHEMA, 1).name == "packed"
    assert "packed" in registry.names()


@pytest.mark.parametrize(
    ("entries", "told"),
    [
        ({"torn": "torn:Torn"}, "ImportError: the shared library is gone"),
        ({"torn": "packed:Missing"}, "has no attribute 'Missing'"),
        ({"torn": "nowhere:Torn"}, "No module named 'nowhere'"),
        ({"torn": "packed:Packed"}, "Packed.name is 'packed'; it must be 'torn'"),
        ({"Torn": "packed:Packed"}, "cannot be the name of a mechanism"),
    ],
)
def test_a_package_that_cannot_be_used_is_named(site: Path, entries: dict[str, str], told: str) -> None:
    (name,) = entries
    offer(site, "keyveil-torn", entries)
    with pytest.raises(MechanismError) as refused:
        kv.mechanism(name, SCHEMA, 1)
    assert refused.value.code == "mechanism/entry-point"
    assert "keyveil-torn" in refused.value.sentence and told in refused.value.sentence
    assert refused.value.sentence.endswith(").")
    with pytest.warns(KeyveilWarning, match="keyveil-torn"):
        assert name not in registry.names()


def test_a_broken_package_does_not_stop_a_command(site: Path, capsys: pytest.CaptureFixture[str]) -> None:
    offer(site, "keyveil-torn", {"torn": "torn:Torn"})
    assert run(["certify", "--mechanism", "all", "--epsilon", "1", "--keys", "2"]) == 0
    told = capsys.readouterr().err.splitlines()
    (line,) = {one for one in told if "keyveil-torn" in one}
    assert line.startswith("keyveil: The package keyveil-torn offers 'torn', which cannot be used (")
    assert run(["certify", "--mechanism", "torn", "--epsilon", "1", "--keys", "2"]) == 2
    assert "keyveil-torn" in capsys.readouterr().err


def test_two_packages_with_one_name(site: Path) -> None:
    for package in ("first", "second"):
        offer(site, package, {"packed": "packed:Packed"})
    with pytest.raises(MechanismError, match="first and second all offer 'packed'"):
        kv.mechanism("packed", SCHEMA, 1)


def test_a_package_cannot_take_a_name_of_keyveils_own(site: Path) -> None:
    offer(site, "keyveil-thief", {"ssr": "packed:Packed"})
    assert isinstance(kv.mechanism("ssr", SCHEMA, 1, max_pairs=1), SSR)
    with pytest.warns(KeyveilWarning, match="keyveil-thief offers 'ssr'.*belongs to Keyveil itself"):
        assert registry.mechanism_names().count("ssr") == 1


def test_the_error_of_a_broken_contract_survives_a_worker_process() -> None:
    import pickle

    sent = pickle.loads(pickle.dumps(ContractError("contract/fold", "x.fold is wrong.")))
    assert (sent.code, sent.member, str(sent)) == ("contract/fold", "fold", "x.fold is wrong.")
