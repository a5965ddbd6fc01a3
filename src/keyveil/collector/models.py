"""The forms of requests and answers, as /openapi.json shows them to people who write clients."""

from __future__ import annotations

from datetime import date
from typing import Annotated, Any, Literal

from pydantic import BaseModel, ConfigDict, Field

from keyveil.campaign.wire import JSON, MOST_REPORTS, PACKED
from keyveil.collector.administration import MOST_TOKENS
from keyveil.collector.problems import PROBLEM
from keyveil.learn.questions import KINDS, MOST_QUANTILES

CSV = "text/csv"
ARROW = "application/vnd.apache.arrow.stream"
PARQUET = "application/vnd.apache.parquet"
TALLY = "application/vnd.keyveil.tally"

Number = float | None  # unknown numbers are null


class RoundView(BaseModel):
    """A round as devices are told of it."""

    document: dict[str, Any]
    hash: str
    number: int
    state: Literal["waiting", "open", "closed", "folded"]


class CampaignView(BaseModel):
    """A campaign as everybody may see it, with its latest round."""

    campaign: dict[str, Any]
    hash: str
    state: Literal["draft", "open", "closed", "estimated", "archived"]
    round: RoundView | None


class Campaigns(BaseModel):
    """All campaigns of this collector."""

    campaigns: list[dict[str, Any]]


class Action(BaseModel):
    """A step that an administrator takes: open a draft, close the present round, have no further rounds, archive, or
    try again to count what was set aside."""

    model_config = ConfigDict(extra="forbid")
    action: Literal["open", "close", "stop", "archive", "retry"]


class Enrolments(BaseModel):
    """How many enrolment tokens are wanted."""

    model_config = ConfigDict(extra="forbid")
    count: Annotated[int, Field(ge=1, le=MOST_TOKENS, strict=True)]


class Tokens(BaseModel):
    """Enrolment tokens; they are shown this once and kept only as hashes."""

    tokens: list[str]


class Revocations(BaseModel):
    """Enrolment tokens that shall no longer be good."""

    model_config = ConfigDict(extra="forbid")
    tokens: Annotated[list[Annotated[str, Field(max_length=512)]], Field(min_length=1, max_length=MOST_TOKENS)]


class Revoked(BaseModel):
    """How many of some enrolment tokens were known and good before."""

    revoked: int


class TokenRequest(BaseModel):
    """A token that is wanted: good for all campaigns unless some are named, and for ever unless a last day is."""

    model_config = ConfigDict(extra="forbid")
    name: Annotated[str, Field(max_length=64)]
    role: Literal["analyst", "admin"]
    campaigns: list[str] | None = None
    expires: date | None = None


class NewToken(BaseModel):
    """A token; it is shown this once and kept only as a hash."""

    name: str
    token: str


class TokenView(BaseModel):
    """What is known about a token."""

    name: str
    role: Literal["analyst", "admin"]
    campaigns: list[str] | None
    expires: str | None
    state: Literal["good", "expired", "revoked"]


class TokenList(BaseModel):
    """All tokens that were ever made."""

    tokens: list[TokenView]


class JournalPage(BaseModel):
    """Entries of the journal in order; ``more`` says whether others follow."""

    entries: list[dict[str, Any]]
    more: bool


class ClockView(BaseModel):
    """The time as the collector believes it, and by how many hours the machine's clock differs, if it is held back."""

    believed: str
    held_hours: float | None


class Gone(BaseModel):
    """What was deleted or revoked."""

    name: str


class Stored(BaseModel):
    """The name of a dictionary that is kept now."""

    sha256: str


class Row(BaseModel):
    """What is known about one key; means are in the schema's units."""

    key: str
    frequency: Number
    frequency_se: Number
    frequency_low: Number
    frequency_high: Number
    selected_low: Number
    selected_high: Number
    mean: Number
    mean_se: Number
    mean_low: Number
    mean_high: Number
    true_frequency: Number
    true_mean: Number
    flag: str  # the more severe of the two that follow
    frequency_flag: str
    mean_flag: str


class Days(BaseModel):
    """Days as 2026-11-20, first and last included."""

    first: str
    last: str


class EstimatesView(BaseModel):
    """Estimates of all keys, as ``Estimates.document`` has them, and the round if only one is meant."""

    mechanism: str
    epsilon: str
    options: dict[str, Any]
    n: int
    reports: int  # the same as n
    confidence: float
    population: bool
    decision: str  # how keys are told from absent
    undercount: dict[str, Any] | None  # what the cap on pairs hides, with its state; null where no cap can bind
    round: int | None
    as_of: Days | None  # on which the campaign's reports can have been drawn; null if it has no dates
    estimates: list[Row]
    exact: dict[str, Any]  # means on [-1, 1], and what rows leave out


class AnswerRows(BaseModel):
    """Rows that answer a question; their fields depend on its kind."""

    answers: list[dict[str, Any]]


class Alive(BaseModel):
    """The process answers."""

    status: Literal["ok"]


_TEXT: dict[str, Any] = {"type": "string"}
_BYTES: dict[str, Any] = {"type": "string", "format": "binary"}

PROBLEMS: dict[int | str, dict[str, Any]] = {
    "default": {
        "description": "A refusal",
        "content": {
            PROBLEM: {
                "schema": {
                    "type": "object",
                    "required": ["type", "title", "status", "detail", "code"],
                    "properties": {
                        "type": {"type": "string", "examples": ["/problems/round/closed"]},
                        "title": _TEXT,
                        "status": {"type": "integer"},
                        "detail": {"type": "string", "description": "One sentence for people."},
                        "code": {"type": "string", "description": "Stable; what programs should look at."},
                    },
                }
            }
        },
    }
}

QUERY_BODY: dict[str, Any] = {
    "requestBody": {
        "required": True,
        "content": {
            JSON: {
                "schema": {
                    "type": "object",
                    "required": ["kind"],
                    "additionalProperties": False,
                    "properties": {
                        "kind": {"enum": list(KINDS)},
                        "key": _TEXT,
                        "given": {"type": "object", "additionalProperties": {"type": "boolean"}},
                        "keys": {"type": "array", "items": _TEXT, "minItems": 1},
                        "quantiles": {"type": "array", "items": _TEXT, "minItems": 1, "maxItems": MOST_QUANTILES},
                        "of": {"enum": ["frequency", "mean"]},
                        "count": {"type": "integer", "minimum": 1},
                        "round": {"type": "integer", "minimum": 1},
                        "confidence": {"type": ["string", "number"]},
                    },
                }
            }
        },
    }
}

DICTIONARY_BODY: dict[str, Any] = {"requestBody": {"required": True, "content": {JSON: {"schema": {"type": "array"}}}}}

UPLOAD: dict[str, Any] = {
    "tags": ["devices"],
    "summary": "Upload reports",
    "description": (
        "Reports of one round; may be repeated as often as wanted, each is counted once. Answered once all accepted "
        "ones are on the disk. Where the campaign asks for enrolment, the token goes into the Authorization header."
    ),
    "operationId": "upload_reports",
    "security": [{}, {"token": []}],
    "parameters": [{"name": "name", "in": "path", "required": True, "schema": _TEXT}],
    "requestBody": {
        "required": True,
        "content": {
            JSON: {
                "schema": {
                    "type": "object",
                    "additionalProperties": False,
                    "required": ["round", "document", "reports"],
                    "properties": {
                        "round": {"type": "integer", "minimum": 1, "maximum": 65535},
                        "document": {"type": "string", "pattern": "^[0-9a-f]{64}$"},
                        "reports": {
                            "type": "array",
                            "minItems": 1,
                            "maxItems": MOST_REPORTS,
                            "items": {
                                "type": "object",
                                "additionalProperties": False,
                                "required": ["id", "payload"],
                                "properties": {
                                    "id": {"type": "string", "pattern": "^[0-9a-f]{32}$"},
                                    "payload": {"type": "string", "pattern": "^[0-9A-Za-z_-]*$"},
                                },
                            },
                        },
                    },
                }
            },
            PACKED: {"schema": _BYTES},
        },
    },
    "responses": {
        "200": {
            "description": "What became of the reports",
            "content": {
                JSON: {
                    "schema": {
                        "type": "object",
                        "required": ["accepted", "duplicates", "refused"],
                        "properties": {
                            "accepted": {"type": "integer"},
                            "duplicates": {"type": "integer"},
                            "refused": {
                                "type": "array",
                                "items": {
                                    "type": "object",
                                    "required": ["id", "code"],
                                    "properties": {"id": _TEXT, "code": _TEXT},
                                },
                            },
                        },
                    }
                }
            },
        },
        **PROBLEMS,
    },
}


def content(*media_types: str) -> dict[int | str, dict[str, Any]]:
    """The media types in which a route answers, for its description."""
    forms = {one: {"schema": {"type": "object"} if one == JSON else _BYTES} for one in media_types}
    return {200: {"description": "As requested", "content": forms}}


ESTIMATES: dict[int | str, dict[str, Any]] = {
    200: {
        "model": EstimatesView,
        "description": "As requested",
        "content": {CSV: {"schema": _TEXT}, ARROW: {"schema": _BYTES}},
    }
}
