"""The site that ``make docs`` has built: every name has a page, links work, no page is too wide for a phone."""

from __future__ import annotations

import os
import zlib
from html.parser import HTMLParser
from pathlib import Path
from urllib.parse import unquote, urldefrag, urlsplit

import pytest

from tests.dashboard.browser import chromium
from tests.docs.pages import DOCS
from tests.docs.test_reference import public_names

pytestmark = [pytest.mark.source, pytest.mark.services]
SITE = DOCS / "_build" / "html"
PHONE = {"width": 390, "height": 844}
TOO_WIDE = "document.documentElement.scrollWidth - document.documentElement.clientWidth"


@pytest.fixture(scope="module", autouse=True)
def built() -> None:
    if not (SITE / "index.html").exists():
        without = pytest.fail if os.environ.get("CI") else pytest.skip
        without("the site is not built: make docs")


def html_files() -> list[Path]:
    return sorted(path for path in SITE.rglob("*.html") if "_static" not in path.parts)


class Links(HTMLParser):
    """Where a page leads to, and the anchors that it has."""

    def __init__(self, path: Path) -> None:
        super().__init__()
        self.targets: list[str] = []
        self.anchors: set[str] = set()
        self.feed(path.read_text(encoding="utf8"))

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        for name, value in attrs:
            if value and name == "id":
                self.anchors.add(value)
            elif value and ((tag == "a" and name == "href") or (tag in ("img", "script") and name == "src")):
                self.targets.append(value)


def test_every_public_name_has_a_page() -> None:
    """As the inventory of the site says, which other projects link by."""
    inventory = zlib.decompress((SITE / "objects.inv").read_bytes().split(b"\n", 4)[4]).decode()
    pages = {line.split()[0]: line.split()[3] for line in inventory.splitlines()}
    assert public_names() - set(pages) == set()
    for name in public_names():
        assert (SITE / pages[name].partition("#")[0]).is_file(), name


def test_links_lead_somewhere() -> None:
    known = {path: Links(path) for path in html_files()}
    assert len(known) > 100
    broken = []
    for path, links in known.items():
        for target in links.targets:
            address, anchor = urldefrag(unquote(target))
            address = address.partition("?")[0]
            if urlsplit(address).scheme or address.startswith("//"):
                continue
            place = (path.parent / address).resolve() if address else path
            if not place.exists() or (anchor and place in known and anchor not in known[place].anchors):
                broken.append(f"{path.relative_to(SITE)}: {target}")
    assert broken == []


def test_no_page_scrolls_sideways_on_a_phone(tmp_path: Path) -> None:
    wide = {}
    with chromium(tmp_path) as browser:
        page = browser.pages[0]
        page.set_viewport_size(PHONE)
        for path in html_files():
            page.goto(path.as_uri(), wait_until="domcontentloaded")
            if page.evaluate(TOO_WIDE) > 0:
                wide[str(path.relative_to(SITE))] = page.evaluate(TOO_WIDE)
    assert wide == {}
