"""Metadata that only the place of a build knows: the repository's address, and with it links that work outside of it.

The address is AIRE_REPOSITORY, or the repository of a GitHub workflow. Where neither is set the package has no project
addresses, and the links of its README stay relative.
"""

from __future__ import annotations

import os
import re
from pathlib import Path
from typing import Any

from hatchling.metadata.plugin.interface import MetadataHookInterface

LINK = re.compile(r'(\]\(|srcset="|src="|href=")(?![a-z]+:|#)([^)"\s]+)')
PICTURE = (".svg", ".png")


class CustomMetadataHook(MetadataHookInterface):
    def update(self, metadata: dict[str, Any]) -> None:
        text, address = Path(self.root, "README.md").read_text(encoding="utf-8"), repository()
        if address:
            text = with_absolute_links(text, address)
            metadata["urls"] = {
                "Repository": address,
                "Documentation": f"{address}/tree/HEAD/docs",
                "Changelog": f"{address}/blob/HEAD/CHANGELOG.md",
                "Issues": f"{address}/issues",
            }
        metadata["readme"] = {"content-type": "text/markdown", "text": text}


def repository() -> str:
    server, name = os.environ.get("GITHUB_SERVER_URL", ""), os.environ.get("GITHUB_REPOSITORY", "")
    return os.environ.get("AIRE_REPOSITORY") or (f"{server}/{name}" if server and name else "")


def with_absolute_links(text: str, address: str) -> str:
    """Files of the repository by their addresses: pages to read, pictures as they are."""

    def absolute(link: re.Match[str]) -> str:
        kind = "raw" if link[2].endswith(PICTURE) else "blob"
        return f"{link[1]}{address}/{kind}/HEAD/{link[2]}"

    return LINK.sub(absolute, text)
