"""How large an answer of a set response should be: scans of the closed forms of its variance for rare keys.

Floats are welcome here: a size is public configuration, and whatever it is, the channel built from it is exact.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from keyveil.core.work import spend

_COLUMNS = 6  # of numbers for every size, beside those for every pair; a scan of 64 labels of 65,536 keys takes 1.5 s

Floats = NDArray[np.float64]


def subset_size(keys: int, labels: int, max_pairs: int, e: float, frequency: float = 0.0) -> int:
    """Members of an SSR subset with the least Var f · Var f·m at such a mean frequency of all keys.

    Where labels are cells, the mass of one stands for f·m. Var f is linear in the frequency of a key, so the size that
    suits the mean frequency has the least sum of variances over all keys.
    """
    spend(labels * keys * (max_pairs + _COLUMNS) // 16, "Choosing the size of an answer")
    sizes = np.arange(1, max(labels * keys, 2), dtype=np.float64)
    of_frequency, of_product = subset_variances(sizes, keys, labels, max_pairs, e, frequency)
    return int(sizes[np.argmin(np.sqrt(of_frequency * of_product))])


def subset_variances(
    sizes: Floats, keys: int, labels: int, max_pairs: int, e: float, frequency: float = 0.0
) -> tuple[Floats, Floats]:
    """n · Var of the frequency and of the product f·m (or of a cell's mass) of a key that so many hold, for SSR.

    Values are taken to have the mean 0, and the people are the target.
    """
    symbols = labels * keys + max_pairs

    def tilt(taken: int) -> Floats:
        """E-weighted share of all subsets with ``taken`` given symbols: 1 for those that miss what is held."""
        steps = np.arange(max_pairs)[:, None]
        missing = np.prod(np.maximum(symbols - sizes - steps, 0) / (symbols - taken - steps), axis=0)
        weighted: Floats = missing + e * (1 - missing)
        return weighted

    inclusion = sizes / symbols
    both = inclusion * (sizes - 1) / (symbols - 1)
    own, other = e * inclusion / tilt(0), inclusion * tilt(1) / tilt(0)
    own_and_other, two_others = e * both / tilt(0), both * tilt(2) / tilt(0)
    gain = np.maximum(own - other, 1e-60) ** 2  # nearly all symbols in every answer: nothing is learnt
    alone, together, mixed = other * (1 - other), two_others - other**2, own_and_other - own * other
    rest = labels - 1
    stranger = labels * (alone + rest * together)
    holder = own * (1 - own) + rest * (alone + 2 * mixed + (rest - 1) * together)
    if labels == 2:
        stranger_signed = 2 * (alone - together)
        holder_signed = own + other - 2 * own_and_other
    else:  # the mass of one label, which as many hold as any other
        stranger_signed, holder_signed = alone, alone + (own * (1 - own) - alone) / labels
    return (
        ((1 - frequency) * stranger + frequency * holder) / gain,
        ((1 - frequency) * stranger_signed + frequency * holder_signed) / gain,
    )


def points_pay(keys: int, max_pairs: int, e: float) -> bool:
    """Whether three points of the value's range tell f·m better than signs where values lie inside of it.

    From there on the noise of rounding a value to a sign is larger than what foreign symbols add
    (docs/mechanisms/ssr.md, three points).
    """
    return e * max_pairs >= 2 * keys


def arc_variance(shares: Floats, max_pairs: int, e: float) -> Floats:
    """n · Var of the frequency, and of the product, of a rare key on a circle where an arc has these shares."""
    room = 1 - max_pairs * shares
    variance: Floats = 2 * (1 - shares) * (1 + max_pairs * shares * (e - 1)) ** 2 / (shares * ((e - 1) * room) ** 2)
    return variance
