from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

from keyveil.kernels import backend
from keyveil.kernels.backend import kernel, prepare
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


def test_machine_code_that_came_with_an_image_is_brought_once(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """From a folder that may be read-only to one that Numba can write; what is there already stays."""
    monkeypatch.setattr(backend, "_lasting", False)
    warm, kept = tmp_path / "image" / "kernels", tmp_path / "kept"
    (warm / "inner").mkdir(parents=True)
    (warm / "inner" / "code").write_bytes(b"1")
    os.utime(warm / "inner" / "code", (1000, 1000))
    (warm / "inner").chmod(0o500)
    monkeypatch.setenv("KEYVEIL_KERNELS", "numba")
    monkeypatch.setenv("KEYVEIL_WARM_KERNELS", str(warm))
    monkeypatch.setenv("NUMBA_CACHE_DIR", str(kept))
    prepare()
    assert (kept / "inner" / "code").stat().st_mtime == 1000 and (kept / "inner").stat().st_mode & 0o200
    (kept / "inner" / "code").write_bytes(b"own")
    prepare()
    assert (kept / "inner" / "code").read_bytes() == b"own" and len(list(tmp_path.iterdir())) == 2


def test_a_prepared_process_does_not_go_to_the_twin(monkeypatch: pytest.MonkeyPatch) -> None:
    """A server: the twin of small work would be slower for as long as its work stays small."""
    ran: list[str] = []
    double = kernel(twin=lambda words: ran.append("twin"))(lambda words: ran.append("loop"))
    double.__dict__["compiled"] = double.loop
    monkeypatch.setenv("KEYVEIL_KERNELS", "numba")
    monkeypatch.setattr(backend, "_lasting", False)
    double(np.zeros(3))
    monkeypatch.setattr(backend, "_lasting", True)
    double(np.zeros(3))
    assert ran == ["twin", "loop"]
