"""examples/digits.ipynb runs from top to bottom, on what comes with the package."""

from __future__ import annotations

from pathlib import Path

import pytest
from pages import PACKAGE, ROOT

nbformat = pytest.importorskip("nbformat", reason="nbformat is not installed: the notebook was not run")
nbclient = pytest.importorskip("nbclient", reason="nbclient is not installed: the notebook was not run")
pytest.importorskip("ipykernel", reason="ipykernel is not installed: the notebook was not run")
pytest.importorskip("matplotlib", reason="matplotlib is not installed: the notebook was not run")
NOTEBOOK = ROOT / "examples" / "digits.ipynb"


def printed(cell: dict[str, object]) -> str:
    return "".join(output.get("text", "") for output in cell.get("outputs", []))  # type: ignore[attr-defined]


def test_the_notebook_runs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PYTHONPATH", str(PACKAGE.parent))
    monkeypatch.setenv("TMPDIR", str(tmp_path))
    monkeypatch.setenv("MPLBACKEND", "agg")
    monkeypatch.setenv("IPYTHONDIR", str(tmp_path / "ipython"))
    notebook = nbformat.read(NOTEBOOK, as_version=4)
    nbclient.NotebookClient(notebook, timeout=120, resources={"metadata": {"path": str(tmp_path)}}).execute()
    cells = [printed(cell) for cell in notebook.cells if cell.cell_type == "code"]
    assert cells[0] == "128 states in 4 layers\n"
    assert "balanced: accuracy 9" in " ".join(cells)
    assert "plan.json" in cells[-1]


def test_it_is_kept_without_results() -> None:
    """Results would change with every machine; who opens it runs it."""
    notebook = nbformat.read(NOTEBOOK, as_version=4)
    assert all(not cell.get("outputs") for cell in notebook.cells)
