"""``python -m benchmarks``: the same as ``keyveil bench``."""

from __future__ import annotations

import sys

from keyveil.cli import main

if __name__ == "__main__":
    sys.argv.insert(1, "bench")
    main()
