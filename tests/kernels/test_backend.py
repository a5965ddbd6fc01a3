from __future__ import annotations

import os
import subprocess
import sys

import numpy as np
import pytest

from keyveil.kernels.backend import kernel
from keyveil.kernels.walsh import walsh


def test_importing_the_kernels_does_not_import_numba() -> None:
    script = (
        "import sys\n"
        "from keyveil.kernels import bernoulli, bits, em, hashing, siphash, subsets, walsh\n"
        "assert 'numba' not in sys.modules and 'scipy' not in sys.modules\n"
    )
    subprocess.run([sys.executable, "-c", script], check=True)


def test_the_environment_can_choose_the_twins() -> None:
    script = (
        "import sys, numpy as np\n"
        "from keyveil.kernels.walsh import walsh\n"
        "assert walsh(np.array([3, 1])).tolist() == [4, 2] and 'numba' not in sys.modules\n"
    )
    subprocess.run([sys.executable, "-c", script], check=True, env={**os.environ, "KEYVEIL_KERNELS": "numpy"})


def test_without_numba_the_twin_runs(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("keyveil.kernels.backend.find_spec", lambda name: None)
    answer = kernel(twin=lambda: "twin")(lambda: "loop")
    assert answer() == "twin"


def test_a_kernel_keeps_documentation_loop_and_twin() -> None:
    assert walsh.__doc__ == walsh.loop.__doc__
    assert walsh.loop(np.array([3, 1])).tolist() == walsh.twin(np.array([3, 1])).tolist() == [4, 2]


def test_machine_code_that_cannot_be_kept_is_made_anew() -> None:
    """A full disk or a damaged file of the cache: the kernel compiles without one and gives the same numbers."""
    double = kernel(twin=lambda words: 2 * words, work=None)(lambda words: words + words)

    def unkept(words: np.ndarray) -> np.ndarray:
        raise OSError(28, "No space left on device")

    double.__dict__["compiled"] = unkept
    assert double(np.array([3, 1])).tolist() == [6, 2]
    assert double.compiled is not unkept
