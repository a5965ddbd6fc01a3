"""Padded reports of a round in bulk: what is wrong with each of them, and the tally of those that are right.

An upload is checked, a collector folds and ``keyveil tally`` counts through these functions and no others.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from keyveil.campaign.rounds import RoundDocument
from keyveil.core.codecs.padding import unpad_many
from keyveil.core.codecs.payloads import FINE, Flaws, Payloads, first_flaws
from keyveil.core.report import Reports
from keyveil.core.tally import Tally
from keyveil.kernels.reading import fast
from keyveil.robustness.sketches import sketch


def flaws_of(document: RoundDocument, publics: NDArray[np.uint8], padded: Payloads) -> Flaws:
    """What is wrong with each padded report, given its public bytes [n, 16]."""
    mechanism = document.mechanism
    payloads, padding = _unpadded(document, padded)
    return first_flaws(padding, mechanism.read_encoded(payloads, mechanism.read_words(publics), keep=False).flaws)


def tally_of(document: RoundDocument, publics: NDArray[np.uint8], padded: Payloads) -> tuple[Tally, Flaws]:
    """The tally of the reports that a device could have sent, and what is wrong with each of the others."""
    payloads, flaws = _unpadded(document, padded)
    whole = slice(None) if not flaws.any() else flaws == FINE  # almost always all of them, and then without a copy
    tally, flaws[whole] = document.mechanism.tally_good(publics[whole], payloads[whole])
    return tally, flaws


def sketch_of(document: RoundDocument, publics: NDArray[np.uint8], padded: Payloads) -> Tally:
    """The sketch of reports without flaws."""
    mechanism = document.mechanism
    payloads, _ = _unpadded(document, padded)
    return sketch(mechanism, Reports(publics, mechanism.read_encoded(payloads, mechanism.read_words(publics)).rows))


def _unpadded(document: RoundDocument, padded: Payloads) -> tuple[Payloads, Flaws]:
    return unpad_many(padded, document.report_bytes, document.mechanism.codec.varies, fast)
