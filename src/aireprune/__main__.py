"""python -m aireprune is the command aire."""

from aireprune.cli import main

main()
