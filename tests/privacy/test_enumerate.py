from __future__ import annotations

from fractions import Fraction

import pytest

from keyveil.core.coins import Coins
from keyveil.core.errors import PrivacyError
from keyveil.privacy.enumerate import law


def test_two_dice() -> None:
    total = law(lambda coins: coins.below(6) + coins.below(6))
    assert total[0] == Fraction(1, 36) and total[5] == Fraction(6, 36)
    assert sum(total.values()) == 1


def test_a_branch_may_draw_more_than_another() -> None:
    def program(coins: Coins) -> str:
        if coins.chance(1, 3):
            return "left"
        return "right" if coins.choose([1, 0, 3]) else "middle"

    assert law(program) == {"left": Fraction(1, 3), "middle": Fraction(1, 6), "right": Fraction(1, 2)}


def test_runs_subsets_and_sure_things() -> None:
    assert law(lambda coins: coins.pick((2, 3), (4, 1))) == {
        **{(0, rank): Fraction(3, 10) for rank in range(2)},
        **{(1, rank): Fraction(1, 10) for rank in range(4)},
    }
    assert set(law(lambda coins: tuple(coins.subset(2, 4))).values()) == {Fraction(1, 6)}
    assert law(lambda coins: coins.chance(5, 5)) == {True: Fraction(1)}
    assert law(lambda coins: coins.below(1)) == {0: Fraction(1)}


def test_a_program_without_choices_is_certain() -> None:
    assert law(lambda coins: "always") == {"always": Fraction(1)}


def test_huge_weights_stay_exact() -> None:
    heads = Fraction(2**200, 2**200 + 1)
    assert law(lambda coins: coins.choose([2**200, 1]))[0] == heads


@pytest.mark.parametrize(
    "program",
    [lambda coins: coins.bytes(4), lambda coins: coins.below(2**40), lambda coins: coins.words(3)],
    ids=["raw bytes", "too many branches", "bulk"],
)
def test_what_cannot_be_enumerated_is_refused(program: object) -> None:
    with pytest.raises(PrivacyError):
        law(program)  # type: ignore[arg-type]


def test_too_many_paths_are_refused() -> None:
    with pytest.raises(PrivacyError) as refused:
        law(lambda coins: tuple(coins.below(10) for _ in range(5)), limit=1000)
    assert refused.value.code == "privacy/too-large"
