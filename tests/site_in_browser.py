"""Open the built documentation in Chromium: ``python tests/site_in_browser.py docs/_build [pictures]``.

The start page, a gallery page and an API page must load without an error on the console, and the search must find
BilevelSearchCV. With a second argument, screenshots are kept in that directory. It is skipped where there is no
Chromium, or no playwright (``pip install playwright``).
"""

import shutil
import socket
import subprocess
import sys
import time
import urllib.request
from pathlib import Path
from typing import Any

PAGES = {
    "start": "index.html",
    "guide": "guide/parameters.html",
    "theory": "theory.html",
    "gallery": "gallery/plot_circle_star.html",
    "api": "api/sklearn_scb2o.SCB2OOptimizer.html",
}


def _failure(request: Any) -> list[str]:
    """Why a request failed, unless the next page was opened meanwhile."""
    return [] if request.failure == "net::ERR_ABORTED" else [f"{request.url} did not load: {request.failure}"]


def check(root: str, executable: str, pictures: Path | None) -> list[str]:
    """What is wrong with the site."""
    from playwright.sync_api import sync_playwright

    wrong = []
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=executable, args=["--no-sandbox"])
        page = browser.new_page(viewport={"width": 1280, "height": 900})
        page.on("console", lambda m: wrong.append(f"{m.text} {m.location['url']}") if m.type == "error" else None)
        page.on("pageerror", lambda error: wrong.append(str(error)))
        page.on("requestfailed", lambda request: wrong.extend(_failure(request)))
        page.on("request", lambda request: None if request.url.startswith(root) else wrong.append(request.url))
        for name, path in PAGES.items():
            page.goto(root + path, wait_until="load")
            if pictures:
                page.screenshot(path=pictures / f"{name}.png")
        page.goto(root + "index.html", wait_until="load")
        page.keyboard.press("Control+k")
        page.locator("dialog input[type=search], #search-input").first.fill("BilevelSearchCV")
        page.keyboard.press("Enter")
        page.wait_for_selector("#search-results li a", timeout=20_000)
        if pictures:
            page.screenshot(path=pictures / "search.png")
        found = page.locator("#search-results li a").all_inner_texts()
        if not any("BilevelSearchCV" in text for text in found):
            wrong.append(f"the search for BilevelSearchCV finds {found}")
        browser.close()
    return wrong


def main() -> None:
    """Serve the site, and look at it."""
    site, pictures = Path(sys.argv[1]), Path(sys.argv[2]) if len(sys.argv) > 2 else None
    names = ("chromium", "chromium-browser", "google-chrome")
    executable = next(filter(None, map(shutil.which, names)), None)
    try:
        import playwright  # noqa: F401
    except ImportError:
        executable = None
    if executable is None:
        print("skipped: no Chromium, or no playwright")
        return
    if pictures:
        pictures.mkdir(parents=True, exist_ok=True)
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    command = [sys.executable, "-m", "http.server", str(port), "--bind", "127.0.0.1", "--directory", str(site)]
    server = subprocess.Popen(command, stderr=subprocess.DEVNULL, stdout=subprocess.DEVNULL)
    try:
        root = f"http://127.0.0.1:{port}/"
        for _ in range(100):
            try:
                urllib.request.urlopen(root).close()
                break
            except OSError:
                time.sleep(0.1)
        wrong = check(root, executable, pictures)
    finally:
        server.terminate()
        server.wait()
    if wrong:
        sys.exit("\n".join(wrong))
    print(f"{len(PAGES)} pages and the search are in order")


if __name__ == "__main__":
    main()
