# make demo: a machine with Python >= 3.11 and make is enough.   make test: everything CI checks.
PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
export PYTHONDONTWRITEBYTECODE :=  # where it is set, every process of the tests compiles our sources again

.PHONY: demo test lint types tests docs package faults clean

demo: $(VENV)/.installed
	$(BIN)/aire demo

test: lint types tests

lint: $(VENV)/.installed-dev
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .

types: $(VENV)/.installed-dev
	$(BIN)/mypy

tests: $(VENV)/.installed-dev
	OMP_NUM_THREADS=1 $(BIN)/python -m pytest -n 2  # two workers: one thread each for matrix products

# The documentation as a site that opens from disk, site/index.html; a broken link is an error.
docs: $(VENV)/.installed-dev
	NO_MKDOCS_2_WARNING=1 $(BIN)/python -m mkdocs build --strict --quiet

# The source distribution and the wheel, in dist/, installed and tried where the repository is not.
# AIRE_REPOSITORY=https://... gives the metadata its addresses.
package: $(VENV)/.installed-dev
	rm -rf dist
	$(BIN)/python -m build --no-isolation
	OMP_NUM_THREADS=1 $(BIN)/python -m pytest -n 0 tests/test_packaging.py

# Damaged and hostile files, kills and full disks, for about ten minutes: docs/reliability.md. make faults SEED=7
SEED ?= 1
faults: $(VENV)/.installed-dev
	OMP_NUM_THREADS=1 $(BIN)/python tests/faults/run.py --inputs 100000 --seed $(SEED)

$(BIN)/python:
	$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11) and "aireprune needs Python 3.11 or newer")'
	$(PYTHON) -m venv $(VENV)

$(VENV)/.installed: pyproject.toml | $(BIN)/python
	$(BIN)/python -m pip install --quiet -e .
	@touch $@

$(VENV)/.installed-dev: pyproject.toml | $(BIN)/python
	$(BIN)/python -m pip install --quiet -e ".[dev]"
	@touch $@ $(VENV)/.installed

clean:
	rm -rf $(VENV) dist site .pytest_cache .mypy_cache .ruff_cache
