"""How a hot loop becomes fast: compiled by Numba when that is installed, else done by its NumPy twin.

    @kernel(twin=_double_numpy)
    def double(words): ...loops...

Numba is imported at the first call, never at import, so that devices do not pay for it. Setting the environment
variable ``KEYVEIL_KERNELS=numpy`` chooses the twins. Kernels run on the caller's thread and release the GIL.
"""

from __future__ import annotations

import os
from collections.abc import Callable
from functools import cached_property, update_wrapper
from importlib.util import find_spec
from typing import Generic, ParamSpec, TypeVar

P = ParamSpec("P")
R = TypeVar("R")


def native() -> bool:
    """Whether kernels are to be compiled."""
    return os.environ.get("KEYVEIL_KERNELS") != "numpy" and find_spec("numba") is not None


def prepare() -> None:
    """Load the compiler now: a second or two that would otherwise fall into the first call of a kernel."""
    if native():
        import numba  # noqa: F401


class Kernel(Generic[P, R]):
    """A loop and its NumPy twin; calling it runs the faster one that is available."""

    def __init__(self, loop: Callable[P, R], twin: Callable[P, R]) -> None:
        self.loop = loop
        self.twin = twin
        update_wrapper(self, loop)

    def __call__(self, *args: P.args, **kwargs: P.kwargs) -> R:
        return self._chosen(*args, **kwargs)

    @cached_property
    def compiled(self) -> Callable[P, R]:
        """The loop as machine code. No fastmath: a kernel gives the same numbers everywhere."""
        from numba import njit

        machine_code: Callable[P, R] = njit(cache=True, nogil=True)(self.loop)
        return machine_code

    @cached_property
    def _chosen(self) -> Callable[P, R]:
        return self.compiled if native() else self.twin


def kernel(twin: Callable[P, R]) -> Callable[[Callable[P, R]], Kernel[P, R]]:
    """Make a kernel of a loop that Numba can compile, with the NumPy function that does the same."""
    return lambda loop: Kernel(loop, twin)


def twinless(loop: Callable[P, R]) -> Kernel[P, R]:
    """Make a kernel of a loop that has no twin of its own: its caller asks ``native`` and goes another way."""
    return Kernel(loop, loop)
