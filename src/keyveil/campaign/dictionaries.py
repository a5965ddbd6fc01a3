"""Long lists of keys are taken out of a campaign's document and lie beside it as a dictionary."""

from __future__ import annotations

import hashlib
from typing import Any

from keyveil.campaign.documents import dictionary_of

LONGEST_LIST = 2000  # keys that stay in the document


def parted(document: Any) -> tuple[Any, bytes | None]:
    """A document with a long list of keys taken out, and that list as a dictionary."""
    schema = document.get("schema") if isinstance(document, dict) else None
    keys = schema.get("keys") if isinstance(schema, dict) else None
    if not isinstance(schema, dict) or not isinstance(keys, list) or len(keys) <= LONGEST_LIST:
        return document, None
    data = dictionary_of(keys)
    named = {"sha256": hashlib.sha256(data).hexdigest(), "count": len(keys)}
    return {**document, "schema": {**schema, "keys": named}}, data
