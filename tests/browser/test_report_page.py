"""The page of `muster simulate`, opened in a real browser. Pictures of it are kept in build/browser."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from simulation.report.page.page import page_of
from tests.browser.chromium import Browser, browser
from tests.simulation.comparisons import made_comparison

KEPT = Path(__file__).parents[2] / "build" / "browser"

VIEWS = pytest.mark.parametrize(
    ("width", "scheme"), [(1280, "light"), (1280, "dark"), (400, "light"), (400, "dark")]
)


@pytest.fixture(scope="module")
def chromium() -> Iterator[Browser]:
    with browser() as opened:
        yield opened


@pytest.fixture(scope="module", params=[2, 7], ids=["two policies", "seven policies"])
def page(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Path:
    names = ("fifo", "best-effort", "easy", "conservative", "shortest", "decayed-share", "default")
    path = tmp_path_factory.mktemp("page") / f"policies-{request.param}.html"
    path.write_text(page_of(made_comparison(names[: request.param])), encoding="utf-8")
    return path


@VIEWS
def test_the_page_is_whole(chromium: Browser, page: Path, width: int, scheme: str) -> None:
    chromium.open(page, width=width, scheme=scheme)
    assert chromium.console() == []
    images = chromium.ask("[...document.images].map(it => [it.complete, it.naturalWidth, it.width])")
    assert len(images) == 8
    assert all(complete and natural > 0 and shown > 0 for complete, natural, shown in images), images
    assert chromium.ask("document.documentElement.scrollWidth") <= chromium.ask("window.innerWidth") == width
    # Also what is closed at first may not push the page apart.
    chromium.ask("document.querySelectorAll('details').forEach(it => it.open = true)")
    assert chromium.ask("document.documentElement.scrollWidth") <= width
    chromium.keep_picture(KEPT / f"{page.stem}-{width}-{scheme}.png")


@VIEWS
def test_text_stands_out_from_its_ground(chromium: Browser, page: Path, width: int, scheme: str) -> None:
    """4.5 to 1, as WCAG asks for."""
    chromium.open(page, width=width, scheme=scheme)
    for selector in ("body", "p.soft", ".warnings li", "thead th", "td.best", "summary"):
        assert chromium.ask(CONTRAST.replace("SELECTOR", selector)) >= 4.5, selector


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_pictures_follow_the_scheme(chromium: Browser, page: Path, scheme: str) -> None:
    chromium.open(page, width=1280, scheme=scheme)
    shown = chromium.ask("[...document.images].every(it => it.currentSrc === it.src)")
    assert shown is (scheme == "light")


#: Of the text of an element to the ground that is drawn behind it.
CONTRAST = """(() => {
  const channels = colour => colour.match(/[\\d.]+/g).map(Number);
  const light = colour => {
    const [r, g, b] = channels(colour).map(it => it / 255)
      .map(it => it <= 0.04045 ? it / 12.92 : ((it + 0.055) / 1.055) ** 2.4);
    return 0.2126 * r + 0.7152 * g + 0.0722 * b;
  };
  const element = document.querySelector('SELECTOR');
  let behind = element;
  while (channels(getComputedStyle(behind).backgroundColor)[3] === 0) behind = behind.parentElement;
  const [a, b] = [light(getComputedStyle(element).color), light(getComputedStyle(behind).backgroundColor)];
  return (Math.max(a, b) + 0.05) / (Math.min(a, b) + 0.05);
})()"""
