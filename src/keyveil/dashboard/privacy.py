"""What protects the people who answer: the certificate, the worst case, what leaves a device, and what it checks."""

from __future__ import annotations

from fractions import Fraction

import numpy as np
from starlette.responses import Response

from keyveil.campaign.documents import Campaign
from keyveil.campaign.rounds import RoundDocument
from keyveil.core.coins import Coins
from keyveil.core.epsilon import decimal_text
from keyveil.core.text import many
from keyveil.dashboard.about import odds_in_words, who_sees_what
from keyveil.dashboard.campaign_head import head
from keyveil.dashboard.code import code, fetched
from keyveil.dashboard.layout import facts, page, table
from keyveil.dashboard.visits import Visit
from keyveil.display.markup import Child, Html, tag, together
from keyveil.mechanisms.base import Mechanism
from keyveil.privacy.certify import Certificate
from keyveil.privacy.words import at_most, worst_pair
from keyveil.protocols.base import Round

MOST_ROUNDS = 3  # whose certificates are shown

CHECKED = (
    "It shows the person what is asked, why, at what ε, how often and until when, and sends nothing before they agree.",
    "It computes ε of the round itself, from the program that it will run, and refuses what it does not know.",
    "It holds the person’s caps on ε, for each question and over all, and debits its ledger before anything is drawn.",
    "It refuses a campaign whose document has changed: every report carries the document’s hash.",
    "It perturbs once. If it has to send again, it sends the same bytes.",
    "It draws from the operating system’s randomness only, and reports whether or not the person holds any key.",
)


def show_privacy(visit: Visit) -> Response:
    """The privacy panel of a campaign."""
    campaign, _, top = head(visit, "privacy")
    rounds = campaign.protocol.longest()[:MOST_ROUNDS]
    panels = visit.site.results.remembered(visit.name, "privacy", lambda: [_panel(campaign, one) for one in rounds])
    seen = [tag("tr", tag("th", who, scope="row"), tag("td", what)) for who, what in who_sees_what(campaign)]
    odds = visit.site.results.remembered(visit.name, "odds", lambda: odds_in_words(campaign))
    words = ["campaign", "label", visit.name]
    lines = [
        f"campaign = {fetched(campaign)}",
        "answer = [str(one.mechanism.certificate().exact_epsilon) for one in campaign.protocol.longest()]",
    ]
    return page(
        visit,
        campaign.name,
        top,
        tag("p", f"Nobody spends more than ε = {decimal_text(campaign.protocol.epsilon)} here.", class_="finding"),
        tag("p", odds),
        panels,
        tag("h2", "What a device checks before it answers"),
        tag("ul", [tag("li", one) for one in CHECKED]),
        tag("h2", "Who can see what"),
        table("Who can see what of a person", ("Who", "What"), seen),
        tag("h2", "What is not protected"),
        tag("p", "That a device answered can be seen by the network. A hacked device is not protected. The same "
            "question under another name costs again: only the caps on people’s devices limit that."),
        code(visit, words, lines, ["from keyveil.campaign.documents import Campaign"]),
    )  # fmt: skip


def _panel(campaign: Campaign, one: Round) -> Html:
    mechanism, size = one.mechanism, RoundDocument.of(campaign, one).report_bytes
    certificate: Certificate = mechanism.certificate()
    how = {
        "enumeration": "every outcome of the program that devices run was enumerated",
        "closed-form": "a closed form, checked against every outcome at small sizes",
    }[certificate.method]
    likely, unlikely = certificate.worst.chances
    spent, allowed = at_most(certificate.exact_epsilon), decimal_text(certificate.requested_epsilon)
    return together(
        tag("h2", f"Round {one.number}: {mechanism.title}" if campaign.protocol.single is None else "Certificate"),
        facts(
            ("Exact ε", f"{spent} of {allowed} that are allowed"),
            ("Promise kept", "yes" if certificate.certified else "no"),
            ("How it is known", how),
            ("Worst pair of people", _pair(certificate, likely, unlikely)),
            ("Size of a report", f"{many(size, 'byte')}, the same for everybody"),
            ("An example", _example(campaign, mechanism)),
        ),
    )


def _pair(certificate: Certificate, likely: Fraction, unlikely: Fraction) -> str:
    first, second = worst_pair(certificate)
    return (
        f"Somebody with {first} and somebody with {second}: the report that tells them apart best has "
        f"probability {_percent(likely)} for the first and {_percent(unlikely)} for the second."
    )


def _percent(chance: Fraction) -> str:
    return f"{100 * float(chance):.4g} %"


def _example(campaign: Campaign, mechanism: Mechanism) -> Child:
    """What would leave the device of a made-up person now; drawn for this page and sent to nobody."""
    key = campaign.schema.keys[0]
    levels = campaign.schema.levels_of(0)
    middle = float(campaign.schema.from_unit(np.zeros(1), np.zeros(1, dtype=np.int64))[0])
    middle = middle if levels is None else float(levels[len(levels) // 2])
    report = mechanism.perturb({key: middle}, Coins())
    return together(
        f"A made-up person holds {key} with the value {middle:g}. Their device would send ",
        tag("code", mechanism.encode(report).hex()),
        " under the random id ",
        tag("code", report.public.hex()),
        ". The same bytes could have come from somebody who holds nothing.",
    )
