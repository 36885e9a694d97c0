"""One file: everything is inside, what came from files is only text, and a policy forbids the rest."""

from __future__ import annotations

import base64
import hashlib
import html.parser
import json
import re

import pytest

from aireprune import embedded
from aireprune.reports.document import Document
from aireprune.reports.gather import document_of
from aireprune.reports.making import made
from aireprune.reports.page import LARGEST, SCRIPTS, Page, asset, page, page_bytes, write_page
from aireprune.reports.subject import find_subject

HOSTILE = "</script><script>alert(1)</script></title>@document@<img src=x onerror=alert(1)>"


class Parts(html.parser.HTMLParser):
    """Tags with their attributes, and the text inside of each script, style and title."""

    def __init__(self, text):
        super().__init__()
        self.tags, self.inside, self.texts = [], None, []
        self.feed(text)

    def handle_starttag(self, tag, attrs):
        self.tags.append((tag, dict(attrs)))
        if tag in ("script", "style", "title"):
            self.inside = tag
            self.texts.append((tag, dict(attrs), ""))

    def handle_endtag(self, tag):
        if tag == self.inside:
            self.inside = None

    def handle_data(self, data):
        if self.inside:
            tag, attrs, text = self.texts[-1]
            self.texts[-1] = (tag, attrs, text + data)


@pytest.fixture(scope="module")
def text():
    return page(document_of(find_subject(embedded.MODEL)))


def test_nothing_is_fetched(text):
    parts = Parts(text)
    assert not [tag for tag, attrs in parts.tags if "src" in attrs]
    assert [attrs["href"] for tag, attrs in parts.tags if "href" in attrs] == ["#main"]
    (policy,) = [attrs["content"] for tag, attrs in parts.tags if attrs.get("http-equiv") == "Content-Security-Policy"]
    assert policy.startswith("default-src 'none'; script-src 'sha256-")
    style = next(text for tag, _, text in parts.texts if tag == "style")
    assert set(re.findall(r"url\((\w+):", style)) == {"data"}


def test_only_the_scripts_of_the_package_may_run(text):
    parts = Parts(text)
    (policy,) = [attrs["content"] for tag, attrs in parts.tags if attrs.get("http-equiv") == "Content-Security-Policy"]
    allowed = set(re.findall(r"'sha256-([^']+)'", policy))
    run = [text for tag, attrs, text in parts.texts if tag == "script" and "type" not in attrs]
    assert run == [asset(name) for name in SCRIPTS]
    assert {base64.b64encode(hashlib.sha256(script.encode()).digest()).decode() for script in run} == allowed


def test_what_came_from_files_is_only_text():
    document = Document(
        title=HOSTILE, subtitle=HOSTILE, verdict=HOSTILE, facts=(), making=made([HOSTILE]), notices=(HOSTILE,)
    )
    found, plain = (
        Parts(page(document)),
        Parts(page(Document(title="", subtitle="", verdict="", facts=(), making=made([])))),
    )
    assert [tag for tag, _ in found.tags] == [tag for tag, _ in plain.tags]
    (title,) = [text for tag, _, text in found.texts if tag == "title"]
    assert title == HOSTILE
    (data,) = [text for tag, attrs, text in found.texts if attrs.get("id") == "document"]
    assert json.loads(data)["title"] == HOSTILE


def test_the_licences_of_what_others_made_are_in_it(text):
    (licences,) = [text for tag, attrs, text in Parts(text).texts if attrs.get("id") == "licences"]
    for owner in ("Mike Bostock", "Observable, Inc.", "The Inter Project Authors"):
        assert owner in licences


def test_size(text):
    assert page_bytes() < len(text.encode()) < LARGEST
    assert page_bytes() < 800_000


def test_in_notebooks(tmp_path):
    document = Document(title="t", subtitle="", verdict="a < b", facts=(), making=made([]))
    written = write_page(document, tmp_path / "deep" / "page.html")
    assert isinstance(written, Page)
    assert repr(written) == f"Page({str(tmp_path / 'deep' / 'page.html')!r}: a < b)"
    assert "a &lt; b" in written._repr_html_()
    assert (tmp_path / "deep" / "page.html").read_text().startswith("<!doctype html>")
