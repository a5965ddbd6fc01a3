"""Everything that can go wrong, in one tree; every error is one sentence with a stable code.

    KeyveilError
    ├── EpsilonError      a privacy parameter that is not a positive, finite decimal
    ├── SchemaError       keys, ranges or maps that make no sense
    ├── RecordError       a record that the mechanism cannot take
    ├── PopulationError   columns or files that do not hold people with key-value pairs
    ├── MechanismError    an unknown name or option, or a question the mechanism cannot answer
    ├── ProtocolError     a round out of order, a history of another protocol, a broadcast out of range
    ├── CampaignError     a campaign or round document that makes no sense, or a step that its state forbids
    ├── ReportError       bytes that no honest device could have sent
    ├── AccessError       a token that is missing, unknown or not allowed to do this
    ├── StorageError      a database that cannot be reached, is full, or has no room in its queue
    ├── TallyError        a tally of another mechanism, or damaged bytes
    ├── DeviceError       what a device refuses for its owner: no consent, too large a question, a damaged file
    ├── TransportError    a collector that cannot be reached or does not answer in time
    ├── EntropyError      the operating system gave no randomness
    ├── PlanError         people who make no sense, or a wish that no collection can meet
    ├── ContractError     a mechanism that lacks a member, or one that does not keep what all mechanisms promise
    ├── PrivacyError      a channel that does not keep the requested epsilon
    └── MissingExtra      a part of Keyveil that is not installed

The code (``schema/empty``, ``tally/foreign``, …) is part of the public contract: it is what the command line prints
and, prefixed by the server's base address, what the collector uses as a problem type.
"""

from __future__ import annotations


class KeyveilError(Exception):
    """Base of all errors that a user can cause or must know about."""

    def __init__(self, code: str, sentence: str) -> None:
        super().__init__(sentence)
        self.code = code
        self.sentence = sentence

    def __reduce__(self) -> tuple[type[KeyveilError], tuple[str, str]]:
        return type(self), (self.code, self.sentence)  # survives worker processes


class EpsilonError(KeyveilError):
    """A privacy parameter that is not a positive, finite decimal."""


class SchemaError(KeyveilError):
    """Keys, ranges or maps that make no sense."""


class RecordError(KeyveilError):
    """A record that the mechanism cannot take."""


class PopulationError(KeyveilError):
    """Columns or files that do not hold people with key-value pairs."""


class MechanismError(KeyveilError):
    """An unknown name or option, or a question the mechanism cannot answer."""


class ProtocolError(KeyveilError):
    """A round out of order, a history of another protocol, or a broadcast out of range."""


class CampaignError(KeyveilError):
    """A campaign or round document that makes no sense, or a step that its state forbids."""


class ReportError(KeyveilError):
    """Bytes that no honest device could have sent."""


class AccessError(KeyveilError):
    """A token that is missing, unknown or not allowed to do this."""


class StorageError(KeyveilError):
    """A database that cannot be reached, is full, or has no room in its queue."""


class TallyError(KeyveilError):
    """A tally of another mechanism, or damaged bytes."""


class DeviceError(KeyveilError):
    """What a device refuses for its owner: no consent, too large a question, a damaged file."""


class TransportError(KeyveilError):
    """A collector that cannot be reached or does not answer in time."""


class EntropyError(KeyveilError):
    """The operating system gave no randomness."""


class ContractError(KeyveilError, AssertionError):
    """A mechanism that lacks a member, or one that does not keep what all mechanisms promise; the code names it."""

    @property
    def member(self) -> str:
        """The member that is missing or wrong."""
        return self.code.partition("/")[2]


class PlanError(KeyveilError):
    """People who make no sense, or a wish that no collection can meet; the sentence says what is possible."""


class PrivacyError(KeyveilError):
    """A channel that does not keep the requested epsilon."""


class MissingExtra(KeyveilError):
    """A part of Keyveil that is not installed."""


class KeyveilWarning(UserWarning):
    """One sentence that somebody must know although things go on, such as a package that cannot be used."""
