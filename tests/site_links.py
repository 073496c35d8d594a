"""Check the links within the built documentation: ``python tests/site_links.py docs/_build``.

Every address in an attribute href or src that stays within the site must name a file of it, and an anchor that the file
has. It needs the standard library alone.
"""

import sys
from html.parser import HTMLParser
from pathlib import Path
from urllib.parse import unquote, urldefrag, urlsplit


class Page(HTMLParser):
    """Addresses and anchors of a page."""

    def __init__(self, path: Path) -> None:
        super().__init__()
        self.addresses: list[str] = []
        self.anchors: set[str] = set()
        self.feed(path.read_text(encoding="utf-8"))

    def handle_starttag(self, tag: str, attributes: list[tuple[str, str | None]]) -> None:
        """Note what a tag links to, and what it can be linked by."""
        for name, value in attributes:
            if name in ("href", "src") and value:
                self.addresses.append(value)
            elif name in ("id", "name") and value:
                self.anchors.add(value)


def dead_links(site: Path) -> list[str]:
    """The links within a site that lead nowhere, as "page: address"."""
    site = site.resolve()
    # the theme leaves a template of its own in _static
    pages = {path: Page(path) for path in sorted(site.rglob("*.html")) if "_static" not in path.parts}
    dead = []
    for path, page in pages.items():
        for address in dict.fromkeys(page.addresses):
            url, anchor = urldefrag(address)
            if urlsplit(url).scheme or url.startswith("//"):
                continue
            target = (path.parent / unquote(urlsplit(url).path)).resolve() if url else path
            if target.is_dir():
                target /= "index.html"
            known = target.is_file() and target.is_relative_to(site)
            # the anchors of a file that is not a page cannot be known
            if not known or (anchor and target in pages and unquote(anchor) not in pages[target].anchors):
                dead.append(f"{path.relative_to(site)}: {address}")
    return dead


if __name__ == "__main__":
    wrong = dead_links(Path(sys.argv[1]))
    if wrong:
        sys.exit("\n".join([f"{len(wrong)} links lead nowhere:", *wrong]))
    print("every link within the site leads somewhere")
