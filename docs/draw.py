"""`make pictures`: the pictures of the README, made by the repository's own commands."""

from __future__ import annotations

import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

from PIL import Image
from playwright.sync_api import sync_playwright

PLACE = Path(__file__).parent / "pictures"
LARGEST = 300_000  # bytes
SOURCE = "drift:sudden:60000:glyphs:A-E|glyphs:F-J"


def streamgmm(*arguments: str) -> list[str]:
    return [sys.executable, "-m", "streamgmm.cli", *arguments]


def main() -> None:
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        subprocess.run(streamgmm("demo", "--out", str(folder / "demo")), check=True)
        for picture in ("centroids", "curve"):
            shutil.copyfile(folder / "demo" / f"{picture}.png", PLACE / f"{picture}.png")
        run = folder / "letters"
        subprocess.run(streamgmm("train", SOURCE, "--samples", "120000", "--reheat", "--out", str(run)), check=True)
        take_screenshot(run, PLACE / "page.png")
    for path in PLACE.glob("*.png"):
        if path.stat().st_size > LARGEST:
            raise SystemExit(f"{path.name} has {path.stat().st_size:,} bytes; at most {LARGEST:,} are committed.")


def take_screenshot(run: Path, path: Path) -> None:
    """The page as a browser shows it."""
    chromium = shutil.which("chromium") or shutil.which("chromium-browser")
    if chromium is None:
        raise SystemExit("there is no Chromium here (Debian: apt-get install chromium)")
    server = subprocess.Popen(streamgmm("dashboard", str(run), "--port", "0"), stdout=subprocess.PIPE, text=True)
    assert server.stdout is not None
    try:
        address = server.stdout.readline().split()[0]
        with sync_playwright() as driver:
            browser = driver.chromium.launch(executable_path=chromium, args=["--no-sandbox", "--disable-gpu"])
            page = browser.new_page(viewport={"width": 1280, "height": 1110})
            page.goto(address)
            page.get_by_text("64 components").wait_for()
            page.wait_for_timeout(1500)  # until everything is drawn
            page.screenshot(path=path)
            browser.close()
    finally:
        server.terminate()
        server.wait()
    Image.open(path).convert("P", palette=Image.Palette.ADAPTIVE, colors=256).save(path, optimize=True)


if __name__ == "__main__":
    main()
