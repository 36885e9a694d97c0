"""Documents of --json held against docs/schema.json."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

DOCUMENT = json.loads((Path(__file__).parents[1] / "docs" / "schema.json").read_text())
COMMANDS = DOCUMENT["$defs"]["commands"]


def check(command: str, document: Any) -> None:
    jsonschema = pytest.importorskip("jsonschema", reason="jsonschema is not installed: nothing was checked")
    jsonschema.Draft202012Validator({**DOCUMENT, "$ref": f"#/$defs/commands/{command}"}).validate(document)
