"""The package as others get it: built, installed where the repository is not, and used from another folder.

The libraries it needs are those of this environment, through a path file: torch is not installed once more.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import sysconfig
import venv
import zipfile
from email import message_from_bytes
from email.message import Message
from pathlib import Path

import pytest

import aireprune

pytest.importorskip("build", reason="build is not installed: nothing was built")
pytest.importorskip("hatchling", reason="hatchling is not installed: nothing was built")
ROOT = Path(__file__).parents[1]
ADDRESS = "https://example.org/aire"
LARGEST = 15_000_000


@pytest.fixture(scope="module")
def wheel(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Built from the source distribution, which is built from the repository."""
    folder = tmp_path_factory.mktemp("dist")
    command = [sys.executable, "-m", "build", "--no-isolation", "--outdir", folder, ROOT]
    subprocess.run(command, check=True, capture_output=True, env={**os.environ, "AIRE_REPOSITORY": ADDRESS})
    assert len(list(folder.glob("*.tar.gz"))) == 1
    (found,) = folder.glob("*.whl")
    return found


@pytest.fixture(scope="module")
def elsewhere(wheel: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """An environment with nothing but the wheel installed, that finds the libraries of this one."""
    folder = tmp_path_factory.mktemp("environment")
    venv.create(folder / "env", symlinks=True)
    python = folder / "env" / "bin" / "python"
    command = [sys.executable, "-m", "pip", "--python", python, "install", "--quiet", "--no-deps", "--no-index", wheel]
    subprocess.run(command, check=True, capture_output=True, env=_clean())
    (packages,) = (folder / "env" / "lib").glob("python*/site-packages")
    libraries = [sysconfig.get_path("purelib"), sysconfig.get_path("platlib")]
    (packages / "libraries.pth").write_text("\n".join(dict.fromkeys(libraries)) + "\n")
    return folder


def _clean() -> dict[str, str]:
    """The environment without what leads to the repository or to data."""
    return {name: value for name, value in os.environ.items() if name not in ("PYTHONPATH", "AIRE_DATA")}


def aire(folder: Path, *arguments: str) -> str:
    environment = {**_clean(), "AIRE_CACHE": str(folder / "cache"), "OMP_NUM_THREADS": "1"}
    command = [folder / "env" / "bin" / "aire", *arguments]
    done = subprocess.run(command, cwd=folder, env=environment, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    return done.stdout


def metadata(wheel: Path) -> Message:
    with zipfile.ZipFile(wheel) as archive:
        (name,) = [name for name in archive.namelist() if name.endswith(".dist-info/METADATA")]
        return message_from_bytes(archive.read(name))


def test_the_wheel_has_the_package_and_nothing_else(wheel: Path) -> None:
    assert wheel.stat().st_size < LARGEST
    with zipfile.ZipFile(wheel) as archive:
        held = {name for name in archive.namelist() if name.startswith("aireprune/")}
        others = {name.split("/")[0] for name in archive.namelist()} - {"aireprune"}
    tracked = subprocess.run(["git", "ls-files", "src"], cwd=ROOT, capture_output=True, text=True, check=True)
    assert held == {name.removeprefix("src/") for name in tracked.stdout.splitlines()}
    assert others == {f"aireprune-{aireprune.__version__}.dist-info"}


def test_the_metadata(wheel: Path) -> None:
    found = metadata(wheel)
    assert found["Version"] == aireprune.__version__
    assert f"Repository, {ADDRESS}" in found.get_all("Project-URL", [])
    text = found.get_payload()
    assert isinstance(text, str)
    assert f"]({ADDRESS}/blob/HEAD/docs/method.md)" in text
    assert "](docs/" not in text
    assert '="docs/' not in text


def test_it_works_where_the_repository_is_not(elsewhere: Path) -> None:
    where = subprocess.run(
        [elsewhere / "env" / "bin" / "python", "-c", "import aireprune; print(aireprune.__file__)"],
        cwd=elsewhere, env=_clean(), capture_output=True, text=True, check=True,
    )  # fmt: skip
    assert Path(where.stdout.strip()).is_relative_to(elsewhere)
    assert aire(elsewhere, "--version") == f"aire {aireprune.__version__}\n"
    found = json.loads(aire(elsewhere, "demo", "--examples", "20", "--json"))
    assert found["full_accuracy"] > 0.9
    assert (elsewhere / "aire-demo" / "removed" / "model.safetensors").is_file()


def test_models_and_digits_come_with_it(elsewhere: Path) -> None:
    arguments = ("prune", "zoo:smnist-s5", "-o", "half", "--ratio", "0.5", "--task", "digits", "--json")
    judged = json.loads(aire(elsewhere, *arguments))
    assert judged["plan"]["source"].startswith(str(elsewhere))
    assert len(json.loads(aire(elsewhere, "inspect", "zoo:lm-mamba", "--json"))["layers"]) == 4
