"""What is carried over from a card is what YAML says is there."""

from __future__ import annotations

from pathlib import Path

import pytest
import yaml

from aireprune.files.front_matter import entries, front_matter, items, read_front_matter

CARD = """---
license: other
license_name: "our own"
language:
  - en
  - "no"   # Norwegian
tags: [mamba,
  'text: generation']
model-index:
- name: x
  results:
  - task: {type: text}
extra: |
  license: not this one
empty:
---
# A model
license: nor this one
"""


@pytest.mark.parametrize("card", [CARD, "\ufeff" + CARD, CARD.replace("\n", "\r\n")])
def test_entries_mean_what_they_meant(card: str, tmp_path: Path) -> None:
    (tmp_path / "README.md").write_bytes(card.encode())
    found = read_front_matter(tmp_path)
    whole = yaml.safe_load(CARD.split("---\n")[1])
    assert {key: yaml.safe_load(f"{text}\n")[key] for key, text in found.items()} == whole
    assert yaml.safe_load(front_matter(found).strip("-\n")) == whole


@pytest.mark.parametrize("entry", ["tags: [a, 'b c']", "tags:\n- a\n- 'b c'", "tags:\n  -   a\n  - 'b c'"])
def test_items_of_a_list(entry: str) -> None:
    assert items(entry) == ["a", "'b c'"]


def test_single_values_and_none() -> None:
    assert items("tags: a") == ["a"]
    assert items("tags:") == items("") == []


@pytest.mark.parametrize("card", ["", "# A model\n", "---\nlicense: mit\n", "text\n---\nlicense: mit\n---\n"])
def test_a_card_without_front_matter(card: str) -> None:
    assert entries(card) == {}


def test_cards_that_are_not_there_or_cannot_be_read(tmp_path: Path) -> None:
    folder = tmp_path / "in"
    folder.mkdir()
    assert read_front_matter(folder) == {}
    (folder / "README.md").write_bytes(b"---\nlicense: \xff\n---\n")
    assert read_front_matter(folder) == {}
    (tmp_path / "secret").write_text("---\nlicense: mit\n---\n")
    (folder / "README.md").unlink()
    (folder / "README.md").symlink_to(tmp_path / "secret")
    assert read_front_matter(folder) == {}, "a link that leads out of the folder"
