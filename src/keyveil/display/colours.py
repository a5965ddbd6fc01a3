"""Colours that all pictures share."""

from __future__ import annotations

INK, GRID, QUIET, EDGE = "#1f2933", "#e4e7eb", "#7b8794", "#cbd2d9"
