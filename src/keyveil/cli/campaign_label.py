"""``keyveil campaign label``: what a campaign promises, on one page, and as an entry for a public registry."""

from __future__ import annotations

import json as texts
import math
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Annotated, Any

import typer

import keyveil
from keyveil.campaign.dictionaries import parted
from keyveil.campaign.documents import Campaign
from keyveil.cli.campaign_files import fetch_beside, read_json
from keyveil.cli.connection import Database, Server, TokenFile, reach, written
from keyveil.cli.data import say, working
from keyveil.cli.options import Json
from keyveil.cli.printing import printed
from keyveil.core.epsilon import decimal_text
from keyveil.core.errors import KeyveilError
from keyveil.mechanisms.questions import ASKABLE
from keyveil.privacy.certify import Certificate

_KEYS = 20  # so many are named; of more, only their number
_NOT_PROTECTED = (
    "a device that is compromised or runs other code",
    "that a device reports at all, when, and from which network address",
    "a person who is asked the same question again under other names",
    "facts about groups: what is learnt about everybody may be guessed of each",
)


def label(
    name: Annotated[
        str | None, typer.Argument(metavar="[NAME]", help="The campaign's name, or six or more digits of its hash.")
    ] = None,
    campaign: Annotated[Path | None, typer.Option(metavar="FILE", help="A campaign document, instead of NAME.")] = None,
    registry: Annotated[
        bool, typer.Option("--registry", help="An entry for the registry of deployments (registry.opendp.org).")
    ] = False,
    curator: Annotated[str, typer.Option(help="For --registry: who publishes the results.")] = "",
    out: Annotated[Path | None, typer.Option(metavar="FILE", help="Write it there (.yaml).")] = None,
    server: Server = None,
    database: Database = None,
    token_file: TokenFile = None,
    json: Json = False,
) -> int:
    """Say on one page what a campaign promises: its privacy label, or an entry for a public registry, as YAML."""
    if (name is None) == (campaign is None):
        raise KeyveilError("campaign/label", "Name a campaign, or give its document with --campaign FILE; not both.")
    if campaign is not None:
        slim, beside = parted(read_json(campaign))
        found = Campaign.from_document(slim, fetch_beside(campaign, None, beside))
    else:
        with reach(server, database, token_file) as collector:
            found = collector.campaign(str(name))[0]
    with working("Proving epsilon"):
        document = registry_entry(found, curator) if registry else privacy_label(found)
    if out is not None:
        with written(out) as part:
            part.write(yaml(document).encode())
        say(f"Written: {out}")
    if not printed(json, document) and out is None:
        print(yaml(document), end="")
    return 0


def privacy_label(campaign: Campaign) -> dict[str, Any]:
    """What a person, or somebody who decides for others, wants to know before anything is sent."""
    certificate = campaign.protocol.certificate()
    return {
        "privacy_label": 1,
        "name": campaign.name,
        "purpose": campaign.purpose,
        "contact": campaign.contact or None,
        "asks": {"keys": _keys(campaign), "values": _range(campaign), "answers": [*campaign.answers]},
        "epsilon": {
            "at_most": decimal_text(campaign.protocol.epsilon),
            "proved": str(certificate.exact_epsilon),
            "how": _how(certificate),
            "in_words": _words(campaign, certificate),
            "covers": _unit(campaign),
        },
        "who_sees_what": {
            "the_device": "the answers; they never leave it",
            "the_collector": "one randomised report, of the same length whatever the answers are",
            "analysts": f"estimates for everybody together, from {campaign.min_reports:,} reports on",
            "everybody": "this label and the campaign's document, which never changes",
        },
        "not_protected": list(_NOT_PROTECTED),
        "days": None if campaign.dates is None else [one.isoformat() for one in campaign.dates],
        "returns": _returns(campaign),
        "reports_are_kept_days": campaign.retention_days,
        "enrolment": campaign.enrolment,
        "document": {"sha256": campaign.hash, "mechanism": campaign.protocol_name, "options": dict(campaign.options)},
        "made_by": f"Keyveil {keyveil.__version__}",
    }


def registry_entry(campaign: Campaign, curator: str = "") -> dict[str, Any]:
    """An entry as the registry's files have it; what a campaign does not know is left for its curator to fill in."""
    certificate = campaign.protocol.certificate()
    returns = campaign.recurrence.every_days is not None
    questions = "; ".join(ASKABLE[kind].meaning for kind in campaign.answers)
    return {
        "url_slug": campaign.name,
        "status": "Draft",
        "tier": 3,
        "deployment": {
            "product": {
                "name": campaign.name,
                "data_curators": [curator] if curator else [],
                "intended_use": campaign.purpose,
                "data_product_type": "Summary statistics",
                "description": f"For {campaign.schema.d:,} keys ({_keys(campaign)}), {_range(campaign)}: {questions}.",
                "publication_date": "" if campaign.until is None else campaign.until.isoformat(),
            },
            "dp_flavor": {
                "name": "Pure DP",
                "data_domain": f"Sets of pairs of one of {campaign.schema.d:,} keys and a value; a person has one set.",
                "unprotected_quantities": "The number of reports, and that a device reported.",
            },
            "privacy_loss": {
                "privacy_unit": "User-campaign-level" if returns else "User-level",
                "privacy_unit_description": _unit(campaign),
                "privacy_parameters": {"epsilon": float(campaign.protocol.epsilon)},
                "privacy_parameters_description": (
                    f"Computed from the integers of the program that devices run: {certificate.exact_epsilon} "
                    f"({_how(certificate)}). {_words(campaign, certificate)}"
                ),
            },
            "model": {
                "model_name": "Local",
                "model_name_description": "The report is randomised on the device; the collector need not be trusted.",
                "release_type": "Many releases" if returns else "One release",
                "release_type_description": _returns(campaign) or "One campaign.",
                "data_source_type": "Dynamic" if returns else "Static",
                "access_type": "Non-interactive",
            },
            "accounting": {
                "post_processing": f"Nothing is shown below {campaign.min_reports:,} reports.",
                "composition": (
                    "Rounds of a campaign are proved together. Each device keeps a ledger of what it spent and refuses "
                    "beyond its cap."
                ),
            },
            "implementation": {
                "pre_processing_eda_hyperparameter_tuning": campaign.reason or "None on the people's data.",
                "mechanisms": (
                    f"{campaign.protocol_name}, {_options(campaign.options)}; Keyveil {keyveil.__version__}, "
                    "whole-number sampling from a cryptographic generator, no floating point in what is drawn."
                ),
                "justification": f"Hash of the campaign's document (SHA-256): {campaign.hash}.",
            },
            "resources": {"sources": "", "registry_authors": []},
        },
    }


def yaml(document: Mapping[str, Any], indent: int = 0) -> str:
    """A document as YAML: mappings and lists one entry a line, texts in quotes as JSON has them."""
    lines = []
    for name, value in document.items():
        space = " " * indent
        if isinstance(value, Mapping) and value:
            lines.append(f"{space}{name}:\n{yaml(value, indent + 2)}")
        elif isinstance(value, Sequence) and not isinstance(value, str) and value:
            lines.append(f"{space}{name}:\n" + "".join(f"{space}  - {_scalar(one)}\n" for one in value))
        else:
            lines.append(f"{space}{name}: {_scalar(value)}\n")
    return "".join(lines)


def _scalar(value: Any) -> str:
    return texts.dumps(value, ensure_ascii=True)  # texts of other people cannot leave their quotes


def _keys(campaign: Campaign) -> str:
    keys = campaign.schema.keys
    return ", ".join(keys) if len(keys) <= _KEYS else f"{len(keys):,} keys, beginning with {', '.join(keys[:_KEYS])}"


def _range(campaign: Campaign) -> str:
    low, high = campaign.schema.low, campaign.schema.high
    if isinstance(low, tuple) or isinstance(high, tuple):
        return "values in a range of each key's own"
    return f"values from {float(low):g} to {float(high):g}"


def _how(certificate: Certificate) -> str:
    if certificate.method == "enumeration":
        return "all outcomes were enumerated"
    return "by a closed form that was checked against all outcomes at small sizes"


def _words(campaign: Campaign, certificate: Certificate) -> str:
    """Epsilon as odds."""
    from keyveil.planning.preview import epsilon_in_words

    if campaign.protocol.single is not None:
        return epsilon_in_words(campaign.protocol.single)
    odds = math.ceil(math.exp(float(certificate.exact_epsilon)) * 1000) / 1000
    return f"Whatever is sent in all rounds, it changes the odds of anything about its sender by at most {odds:g}."


def _unit(campaign: Campaign) -> str:
    often = "in this campaign" if campaign.recurrence.every_days is None else "in one campaign of the series"
    return f"everything that one person holds (all pairs together), {often}"


def _returns(campaign: Campaign) -> str | None:
    terms = campaign.recurrence
    if terms.every_days is None:
        return None
    told = [f"Every {terms.every_days} days"]
    if terms.series_until is not None:
        told.append(f"until {terms.series_until}")
    if terms.renew_days is not None:
        told.append(f"one report of a device stands for {terms.renew_days} days")
    elif terms.one_in is not None:
        told.append(f"a device answers one of {terms.one_in} campaigns")
    else:
        told.append("a device draws a new report each time, and epsilon adds up")
    return ", ".join(told) + "."


def _options(options: Mapping[str, Any]) -> str:
    return ", ".join(f"{name}={value}" for name, value in options.items()) or "no options"
