"""``python -m keyveil``."""

from __future__ import annotations

from keyveil.cli import main

main()
