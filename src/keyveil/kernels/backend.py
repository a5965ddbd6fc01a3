"""How a hot loop becomes fast: compiled by Numba when that is installed, else done by its NumPy twin.

    @kernel(twin=_double_numpy)
    def double(words): ...loops...

Numba is imported at the first call, never at import, so that devices do not pay for it. Setting the environment
variable ``KEYVEIL_KERNELS=numpy`` chooses the twins. Kernels run on the caller's thread and release the GIL.

A process that has little to do does not wait for the compiler: until a kernel was given ``TWIN_WORK`` steps in all, its
twin does them. Both give the same whole numbers, so that only the time shows which one ran. Kernels of floats, whose
twins may differ in the last digit, are always compiled.

Machine code is kept for the next process beside the module or in ``NUMBA_CACHE_DIR``. Where neither can be written (a
service account, a read-only install, a full disk) every process compiles anew, and everything else is the same.
"""

from __future__ import annotations

import os
import pickle
from collections.abc import Callable
from functools import cache, cached_property, update_wrapper
from importlib.util import find_spec
from typing import Any, Generic, ParamSpec, TypeVar

import numpy as np

P = ParamSpec("P")
R = TypeVar("R")
Steps = tuple[Callable[..., Any], ...]
Work = Callable[..., int]
"""The number of elementary steps (a few nanoseconds each in NumPy) that arguments ask for."""

# Measured in fresh processes (``keyveil bench --only first-tally``): loading Numba and kept machine code takes 0.75 to
# 0.85 processor seconds, and a twin 0.3 to 6.5 ns a step. So many steps cost a twin at most 0.2 s, a quarter of that.
TWIN_WORK = 1 << 25


def sizes(*args: Any) -> int:
    """A step for every number of every array."""
    return sum(arg.size for arg in args if isinstance(arg, np.ndarray))


def native() -> bool:
    """Whether kernels are to be compiled."""
    return os.environ.get("KEYVEIL_KERNELS") != "numpy" and find_spec("numba") is not None


def prepare() -> None:
    """Load the compiler now: a second or two that would otherwise fall into the first call of a kernel.

    From then on twins are not used in its place: this process goes on for long. Machine code that came with an image
    (``KEYVEIL_WARM_KERNELS`` names its folder, which may be read-only) is brought to ``NUMBA_CACHE_DIR`` first, if
    nothing is there.
    """
    global _lasting
    if native():
        _bring(os.environ.get("KEYVEIL_WARM_KERNELS"), os.environ.get("NUMBA_CACHE_DIR"))
        import numba  # noqa: F401

        _lasting = True


_lasting = False  # whether this process was prepared for much work


def _bring(warm: str | None, kept: str | None) -> None:
    """Copy a folder as a whole, unless its place is taken; without it kernels compile, so failures are no errors."""
    if not warm or not kept or os.path.exists(kept) or not os.path.isdir(warm):
        return
    import shutil  # only servers come here

    part = f"{kept}.{os.getpid()}"  # several workers may start at once
    try:
        shutil.copytree(warm, part)  # with the times of the files, which Numba compares
        for folder, _, _ in os.walk(part):
            os.chmod(folder, 0o700)  # Numba takes nothing from a folder that it could not write to
        os.rename(part, kept)
    except OSError:
        shutil.rmtree(part, ignore_errors=True)


class Kernel(Generic[P, R]):
    """A loop and its NumPy twin; calling it runs the faster one that is available."""

    def __init__(self, loop: Callable[P, R], twin: Callable[P, R], steps: Steps = (), work: Work | None = None) -> None:
        self.loop = loop
        self.twin = twin
        self.steps = (
            steps  # that the loop calls: of its own file, whose changes Numba sees, or fixed by the wire format
        )
        self.work = work
        self._done = 0  # steps that the twin did in place of a loop that is not compiled
        self._kept = True  # whether machine code is kept for the next process
        update_wrapper(self, loop)

    def __call__(self, *args: P.args, **kwargs: P.kwargs) -> R:
        if self.work is not None and "_chosen" not in self.__dict__ and not _lasting and native():
            self._done += self.work(*args, **kwargs)
            if self._done <= TWIN_WORK:
                return self.twin(*args, **kwargs)
        try:
            return self._chosen(*args, **kwargs)
        except _UNKEPT:
            if not self._kept:
                raise
            # Machine code could be neither read nor kept. Loops touch no files, so nothing has run yet.
            self._kept = False
            self.__dict__["_chosen"] = self.__dict__["compiled"] = _compile(self.loop, self.steps, keep=False)
            return self._chosen(*args, **kwargs)

    @cached_property
    def compiled(self) -> Callable[P, R]:
        """The loop as machine code. No fastmath: a kernel gives the same numbers everywhere."""
        try:
            return _compile(self.loop, self.steps, keep=True)
        except RuntimeError:  # Numba found no folder for it that can be written
            self._kept = False
            return _compile(self.loop, self.steps, keep=False)

    @cached_property
    def _chosen(self) -> Callable[P, R]:
        if native():
            return self.compiled
        self._kept = False
        return self.twin


_UNKEPT = (OSError, EOFError, pickle.UnpicklingError)  # of Numba's own files


def _compile(loop: Callable[P, R], steps: Steps, keep: bool) -> Callable[P, R]:
    from numba import njit

    for step in steps:
        _let_loops_call(step)
    machine_code: Callable[P, R] = njit(cache=keep, nogil=True)(loop)
    return machine_code


@cache
def _let_loops_call(step: Callable[..., Any]) -> None:
    """Compile a function wherever a loop calls it. Inlined by force: calls with arrays would double the time."""
    from numba.extending import register_jitable

    register_jitable(forceinline=True)(step)


def kernel(
    twin: Callable[P, R], steps: Steps = (), work: Work | None = sizes
) -> Callable[[Callable[P, R]], Kernel[P, R]]:
    """Make a kernel of a loop that Numba can compile, with the NumPy function that does the same.

    ``work`` is ``None`` for kernels of floats.
    """
    return lambda loop: Kernel(loop, twin, steps, work)


def twinless(loop: Callable[P, R], steps: Steps = ()) -> Kernel[P, R]:
    """Make a kernel of a loop that has no twin of its own: its caller asks ``native`` and goes another way."""
    return Kernel(loop, loop, steps)
