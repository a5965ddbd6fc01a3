"""The command line: ``keyveil …``.

Bad input ends with one line on stderr that says what was wrong, and status 2; never with a traceback.
"""

from __future__ import annotations

import sys


def main() -> None:
    """Entry point of the ``keyveil`` command."""
    try:
        from keyveil.cli.app import run
    except KeyboardInterrupt:  # interrupted while modules load: nothing has begun
        sys.exit(130)
    except ModuleNotFoundError as missing:
        if (missing.name or "").startswith("keyveil"):
            raise
        print(f"keyveil: the command line needs {missing.name}: pip install 'keyveil[local]'", file=sys.stderr)
        sys.exit(2)
    sys.exit(run(sys.argv[1:]))
