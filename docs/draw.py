"""Make the pictures of the README with the commands of the package (``make pictures``)."""

from __future__ import annotations

import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

from PIL import Image
from playwright.sync_api import sync_playwright

PLACE = Path(__file__).parent / "pictures"
LARGEST = 300_000  # bytes of a committed picture
SOURCE = "drift:sudden:60000:glyphs:A-E|glyphs:F-J"


def streamgmm(*arguments: str) -> list[str]:
    """Return the command line that runs streamgmm.

    Parameters
    ----------
    *arguments : str
        Command and options.
    """
    return [sys.executable, "-m", "streamgmm", *arguments]


def main() -> None:
    """Run the demo and a training, and take a screenshot of the dashboard."""
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
            raise SystemExit(f"{path.name} has {path.stat().st_size:,} bytes; expected at most {LARGEST:,}.")


def take_screenshot(run: Path, path: Path) -> None:
    """Take a screenshot of the dashboard of a run.

    Parameters
    ----------
    run : Path
        The run folder.
    path : Path
        The picture to write.
    """
    chromium = shutil.which("chromium") or shutil.which("chromium-browser")
    if chromium is None:
        raise SystemExit("Chromium is not installed (Debian: apt-get install chromium).")
    server = subprocess.Popen(streamgmm("dashboard", str(run), "--port", "0"), stdout=subprocess.PIPE, text=True)
    assert server.stdout is not None
    try:
        address = server.stdout.readline().split()[0]
        with sync_playwright() as driver:
            browser = driver.chromium.launch(executable_path=chromium, args=["--no-sandbox", "--disable-gpu"])
            page = browser.new_page(viewport={"width": 1280, "height": 1110})
            page.goto(address)
            page.get_by_text("64 components").wait_for()
            page.wait_for_timeout(1500)  # Bokeh does not say when everything is drawn
            page.screenshot(path=path)
            browser.close()
    finally:
        server.terminate()
        server.wait()
    Image.open(path).convert("P", palette=Image.Palette.ADAPTIVE, colors=256).save(path, optimize=True)


if __name__ == "__main__":
    main()
