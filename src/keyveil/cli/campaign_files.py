"""Campaign documents on disk: read, written from options, and their long lists of keys put beside them."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping
from datetime import timedelta
from pathlib import Path
from typing import Any

from keyveil.campaign.dictionaries import parted
from keyveil.campaign.documents import VERSION, Campaign, Fetch
from keyveil.campaign.recurrence import read_day
from keyveil.cli.data import listed
from keyveil.core.canonical import decimal, exact
from keyveil.core.clock import system_clock, today
from keyveil.core.dimensions import by_coordinate
from keyveil.core.errors import CampaignError, KeyveilError
from keyveil.mechanisms.overflow.beside import OPTION, with_usual_group

MOST_DIGITS = 18  # of a number of keys; Python refuses to read thousands
_FLAGS = {"name": "mechanism", "epsilon": "epsilon"}


def read_json(path: Path) -> Any:
    """A JSON file as it is; refused with one sentence if it is none."""
    try:
        return json.loads(path.read_text(encoding="utf-8"))
    except FileNotFoundError:
        raise KeyveilError("input/file", f"There is no file {path}.") from None
    except (OSError, UnicodeDecodeError, RecursionError) as reason:
        raise KeyveilError("input/file", f"{path} cannot be read: {reason}.") from reason
    except json.JSONDecodeError as wrong:
        raise KeyveilError(
            "input/json", f"{path} is not JSON: {wrong.msg} in line {wrong.lineno}, column {wrong.colno}."
        ) from None
    except ValueError:  # Python reads no whole numbers of thousands of digits
        raise KeyveilError("input/json", f"{path} holds a number with too many digits.") from None


def beside(path: Path) -> Path:
    """The path of the document that describes a file of reports or counts."""
    return Path(f"{path}.json")


def write_json(path: Path, document: Any) -> None:
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(json.dumps(document, indent=2, ensure_ascii=False) + "\n", encoding="utf-8")
    except OSError as reason:
        raise KeyveilError("output/file", f"{path} cannot be written: {reason}.") from reason


def drafted(
    *,
    name: str,
    purpose: str,
    keys: str | None,
    low: str | None,
    high: str | None,
    levels: str | None,
    hierarchy: bool = False,
    groups: str | None = None,
    mechanism: str,
    epsilon: str,
    options: Mapping[str, str | int],
    enough: int | None,
    opens: str | None,
    closes: str | None,
    min_reports: int | None,
    enrolment: str | None,
    contact: str | None,
    browser: bool = False,
    every: int | None = None,
    until: str | None = None,
    renew: int | None = None,
    one_in: int | None = None,
    reason: str = "",
) -> dict[str, Any]:
    """A campaign document from the options of the command line; what is not given has its default."""
    if taken := {"name", "epsilon"} & set(options):  # a document lists them beside the options
        raise KeyveilError("mechanism/option", f"{mechanism} has no option {min(taken)!r}; say --{_FLAGS[min(taken)]}.")
    schema = schema_document(keys, low, high, levels, hierarchy, groups)
    if every is not None:
        opens, closes = _dates(every, opens, closes)
    renew_from = None if renew is None else opens or closes
    window = {"opens": opens, "closes": closes, "enough": enough}
    settings = {"min_reports": min_reports, "enrolment": enrolment, "contact": contact, "browser": browser or None}
    settings |= {"every_days": every, "series_until": until}
    settings |= {"renew_days": renew, "renew_from": renew_from, "one_in": one_in, "reason": reason or None}
    document = {
        "keyveil": VERSION,
        "name": name,
        "purpose": purpose,
        "schema": schema,
        "protocol": {"name": mechanism, "epsilon": epsilon, **with_usual_group(mechanism, options)},
        "rounds": [{key: one for key, one in window.items() if one is not None}],
        **{key: one for key, one in settings.items() if one is not None},
    }
    slim, beside = parted(document)
    complete = Campaign.from_document(slim, None if beside is None else lambda _: beside)
    told = {**complete.document(), "schema": complete.schema.document()}
    if OPTION in complete.protocol.parameters:
        return told
    return {**told, "protocol": {name: one for name, one in told["protocol"].items() if name != OPTION}}  # no group


def schema_document(
    keys: str | None,
    low: str | None,
    high: str | None,
    levels: str | None,
    hierarchy: bool = False,
    groups: str | None = None,
) -> dict[str, Any]:
    """The document of a schema from the options of the command line."""
    schema: dict[str, Any] = {"keys": _keys(keys)}
    schema |= {
        end: _ends(schema["keys"], end, text) for end, text in (("low", low), ("high", high)) if text is not None
    }
    if levels is not None:
        schema["levels"] = [_bound("levels", text) for text in listed(levels) or []]
    if hierarchy:
        schema["hierarchy"] = True
    if groups is not None:
        schema["groups"] = listed(groups)
    return schema


def _dates(every: int, opens: str | None, closes: str | None) -> tuple[str, str]:
    """The first and last day of a campaign that returns: from tomorrow, and until the next one, unless given."""
    first = read_day(opens) or today(system_clock) + timedelta(days=1)
    return first.isoformat(), closes or (first + timedelta(days=every - 1)).isoformat()


def fetch_beside(path: Path, given: Path | None, data: bytes | None) -> Fetch:
    """Finds the dictionary of a document: taken out of it, named, or in ``HASH.json`` beside it."""

    def fetch(name: str) -> bytes:
        if data is not None and hashlib.sha256(data).hexdigest() == name:
            return data
        where = given or path.with_name(f"{name}.json")
        try:
            return where.read_bytes()
        except OSError:
            raise CampaignError(
                "campaign/dictionary",
                f"The list of keys {name[:8]}… is not in {where.name}; say where with --keys-file.",
            ) from None

    return fetch


def _keys(text: str | None) -> list[str] | int:
    if not text:
        raise KeyveilError("campaign/keys", "A campaign asks about keys: --keys burger,fries or --keys @names.txt.")
    if text.startswith("@"):
        try:
            lines = Path(text[1:]).read_text(encoding="utf-8").splitlines()
        except (OSError, UnicodeDecodeError) as reason:
            raise KeyveilError("input/file", f"{text[1:]} cannot be read: {reason}.") from reason
        return [line.strip() for line in lines if line.strip()]
    if text.isascii() and text.isdigit():
        if len(text) > MOST_DIGITS:
            raise KeyveilError("campaign/keys", f"--keys takes a number of keys of at most {MOST_DIGITS} digits.")
        return int(text)
    return [key.strip() for key in text.split(",") if key.strip()]


def _ends(keys: list[str] | int, end: str, text: str) -> Any:
    """A bound of all keys, or one for each where coordinates have their own, as in rating=1,price=0."""
    if isinstance(keys, int) or "=" not in text:
        return _bound(end, text)
    each = by_coordinate(keys, text)
    return [_bound(end, each[key]) for key in keys]


def _bound(end: str, text: str) -> int | str:
    try:
        return decimal(exact(text))
    except ValueError:
        raise KeyveilError("schema/range", f"--{end} takes a decimal number, not {text!r}.") from None
