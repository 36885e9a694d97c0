"""The version of this package, which outputs that are joined later have to agree in."""

from __future__ import annotations

VERSION = "0.1.0"
