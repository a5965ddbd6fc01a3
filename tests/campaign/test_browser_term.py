"""The term ``browser``: left out by default, true or nothing, and part of the terms."""

from __future__ import annotations

import pytest

from keyveil.campaign.documents import Campaign, problems
from keyveil.core.errors import CampaignError
from tests.device.collector import document


def test_it_changes_the_terms_and_is_left_out_by_default() -> None:
    plain, fleeting = Campaign.from_document(document()), Campaign.from_document(document(browser=True))
    assert "browser" not in plain.document()
    assert fleeting.document()["browser"] is True
    assert plain.terms != fleeting.terms


@pytest.mark.parametrize("said", [False, None, 1, "yes"])
def test_it_is_true_or_nothing(said: object) -> None:
    with pytest.raises(CampaignError, match="browser is true"):
        Campaign.from_document(document(browser=said))
    assert [one.code for one in problems(document(browser=said))] == ["campaign/browser"]
