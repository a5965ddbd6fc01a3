"""Reports on their way: what a device sends, what bytes become, and how counts add up."""

from __future__ import annotations

from dataclasses import replace
from functools import partial
from typing import Any

from keyveil.core.codecs.symbols import Codec
from keyveil.core.errors import ReportError, TallyError
from keyveil.core.report import Report, Reports
from keyveil.core.schema import Schema
from keyveil.core.tally import Tally
from keyveil.lab.coins import SeededCoins
from keyveil.mechanisms.base import Mechanism
from keyveil.testing.laws import laws
from keyveil.testing.people import full_record, people, raw_record
from keyveil.testing.verdict import hold, refuses


def reports_are_what_devices_draw(mechanism: Mechanism) -> None:
    """A report is the given or freshly drawn public bytes and the response to the cleaned record, and nothing else."""
    records = [full_record(mechanism), next(iter(mechanism.every_record()))]
    for pairs in (list(one) for one in records):
        if len(pairs) and max(key for key, _ in pairs) >= mechanism.schema.d:
            continue
        record = raw_record(mechanism, pairs)
        public = bytes(range(100, 116))
        report = mechanism.perturb(record, SeededCoins(18), public)
        hold(report.public == public, mechanism, "perturb", "changes the public bytes that it was given")
        expected = mechanism.respond(mechanism.read(record), mechanism.word(public), SeededCoins(18))
        hold(report.payload == expected, mechanism, "perturb", "does something that respond does not")
        drawn = mechanism.perturb(record, SeededCoins(19)).public
        hold(drawn == SeededCoins(19).bytes(16), mechanism, "perturb", "does not draw the public bytes first")


def reports_travel(mechanism: Mechanism) -> None:
    """Every possible report has one encoding, which is decoded strictly, and bulk rows keep it."""
    for word, pairs, expected in laws(mechanism):
        codec = mechanism.codec_at(word)
        for payload in expected:
            data = codec.encode(payload)
            hold(codec.decode(data) == payload, mechanism, "codec", f"does not decode what it encoded of {payload!r}")
            hold(len(data) <= codec.longest, mechanism, "codec", f"has longest {codec.longest}, but needs {len(data)}")
            bulk = codec.unstack(codec.stack([payload]))
            hold(bulk == [payload], mechanism, "codec", f"does not unstack what it stacked of {payload!r}")
            for wrong in (data + b"\0", b"\xff" * (len(data) + 9)):
                strict = refuses(ReportError, partial(codec.decode, wrong))
                hold(strict, mechanism, "codec", f"decodes {wrong.hex()}, which no device sends, without a ReportError")
            if data:
                cut = _decoded_or_refused(codec, data[:-1])
                hold(cut != payload, mechanism, "codec", "decodes a report that was cut off as if it were whole")
        hold(sum(expected.values()) == 1, mechanism, "respond", f"has no law for {pairs} at word {word:x}")


def parts_add_up(mechanism: Mechanism) -> None:
    """Counting is a sum: any split, any order, and bytes in between; tallies of other mechanisms are refused."""
    records = people(mechanism, 3000, 5).records(mechanism.schema)
    reports = mechanism.perturb_many(records, SeededCoins(13))
    whole = mechanism.tally(reports)
    thirds = [mechanism.tally(Reports(reports.publics[i::3], reports.payloads[i::3])) for i in range(3)]
    same = sum(thirds[1:], thirds[0]) == whole == thirds[2] + thirds[0] + thirds[1]
    hold(same, mechanism, "fold", "gives counts of parts that do not add up to those of the whole")
    hold(Tally.from_bytes(whole.to_bytes()) == whole, mechanism, "tally", "does not survive its own bytes")
    some = Reports(reports.publics[:200], reports.payloads[:200])
    publics = [public.tobytes() for public in some.publics]
    payloads = mechanism.codec.unstack(some.payloads)
    sent = [Report(public, payload) for public, payload in zip(publics, payloads, strict=True)]
    encoded = [mechanism.encode(report) for report in sent]
    written = mechanism.encode_many(some)
    alike = [written.one(number) for number in range(len(encoded))] == encoded
    hold(alike, mechanism, "encode_many", "writes many reports otherwise than one by one")
    singles = [mechanism.decode(data, public) for data, public in zip(encoded, publics, strict=True)]
    hold(mechanism.tally(singles) == mechanism.tally(some), mechanism, "tally", "counts single reports otherwise")
    bytewise = mechanism.tally_encoded(publics, encoded)
    hold(bytewise == mechanism.tally(some), mechanism, "tally_encoded", "counts encoded reports otherwise")
    other = replace(mechanism, epsilon=mechanism.epsilon / 2)
    foreign = other.tally(other.perturb_many(records, SeededCoins(14)))
    hold(refuses(TallyError, lambda: whole + foreign), mechanism, "fingerprint", "is the same at another epsilon")
    renamed = replace(mechanism, schema=Schema(keys=[f"k{key}" for key in range(mechanism.schema.d)]))
    for stranger in (other, renamed):
        strict = refuses(TallyError, lambda stranger=stranger: stranger.estimate(whole))  # type: ignore[misc]
        hold(strict, mechanism, "estimate", "takes a tally of another epsilon or schema without a TallyError")


def _decoded_or_refused(codec: Codec, data: bytes) -> Any:
    try:
        return codec.decode(data)
    except ReportError:
        return None
