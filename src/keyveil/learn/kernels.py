"""Laws on a grid drawn out by normal kernels of several widths, many laws at a time.

Kernels of one width are mirrored at both ends of the grid. A mirrored law repeats every two grids, so that a Fourier
transform of that length draws it out exactly. Other kernels widen with the frequency: they have one width on the scale
log(1 + f/``BEND``), with f in standard errors.
"""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

Floats = NDArray[np.float64]

WIDTHS = (0, 1, 2, 4, 8, 16, 32, 64)  # of kernels of one width, in steps of the grid
SCALE_STEP = 0.05  # of cells on the scale of the kernels that widen
BEND = 4.0  # in standard errors: where that scale turns from linear to logarithmic


def drawn_out(laws: Floats, stretched: Sequence[float], step: float) -> Floats:
    """Laws [laws, size] drawn out by every kernel, [laws, kernels, size]; ``step`` of the grid in standard errors."""
    widths = [width for width in WIDTHS if 4 * width < laws.shape[1]]
    found = _drawn(laws, widths)
    return np.concatenate([found, _stretched(laws, stretched, step)], axis=1) if stretched else found


def _drawn(laws: Floats, widths: Sequence[float]) -> Floats:
    """Laws [laws, size] drawn out by normal kernels of these widths in cells, [laws, widths, size]."""
    size = laws.shape[1]
    taps = np.zeros((len(widths), 2 * size))
    for row, width in zip(taps, widths, strict=True):
        reach = min(math.ceil(4 * width), size - 1)
        offsets = np.arange(-reach, reach + 1)
        row[offsets] = np.exp(-0.5 * (offsets / width) ** 2) if width else 1.0
    waves = np.fft.rfft(np.concatenate([laws, laws[:, ::-1]], axis=1))
    drawn = np.fft.irfft(waves[:, None] * np.fft.rfft(taps), 2 * size)[..., :size]
    found: Floats = np.maximum(drawn, 0)  # rounding may leave less than nothing
    found[:, [not width for width in widths]] = laws[:, None]
    found /= found.sum(axis=2, keepdims=True)
    return found


def _stretched(laws: Floats, widths: Sequence[float], step: float) -> Floats:
    """Laws [laws, size] drawn out by kernels that widen with the frequency, [laws, widths, size]."""
    size = laws.shape[1]
    scale = np.log1p(np.maximum(np.arange(size + 1) - 0.5, 0.0) * step / BEND)
    cells = np.linspace(0, scale[-1], max(math.ceil(scale[-1] / SCALE_STEP), 8) + 1)
    drawn = _drawn(_recut(laws, scale, cells), [width / float(cells[1]) for width in widths])
    found = _recut(drawn, cells, scale)
    found /= found.sum(axis=2, keepdims=True)
    return found


def _recut(shares: Floats, edges: Floats, others: Floats) -> Floats:
    """The shares in cells with other edges, if shares are spread evenly within cells."""
    sums = np.zeros((*shares.shape[:-1], len(edges)))
    np.cumsum(shares, axis=-1, out=sums[..., 1:])
    cell = np.clip(np.searchsorted(edges, others, side="right") - 1, 0, len(edges) - 2)
    part = np.clip((others - edges[cell]) / (edges[cell + 1] - edges[cell]), 0, 1)
    return np.diff(sums[..., cell] + part * shares[..., cell], axis=-1)
