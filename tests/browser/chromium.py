"""A real browser without a screen: Debian's Chromium and its driver. Nothing is downloaded."""

from __future__ import annotations

import shutil
from base64 import b64decode
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from selenium import webdriver
from selenium.webdriver.chrome.service import Service

CHROMIUM, DRIVER = shutil.which("chromium"), shutil.which("chromedriver")
_OPTIONS = (
    "--headless=new",
    # Root may use no sandbox, and what is opened here was made here.
    "--no-sandbox",
    "--disable-gpu",
    "--disable-dev-shm-usage",
    "--disable-extensions",
    "--disable-background-networking",
    "--host-resolver-rules=MAP * ~NOTFOUND",
)


@contextmanager
def browser() -> Iterator[Browser]:
    """It ends with the block."""
    assert CHROMIUM is not None
    assert DRIVER is not None
    options = webdriver.ChromeOptions()
    options.binary_location = CHROMIUM
    for option in _OPTIONS:
        options.add_argument(option)
    options.set_capability("goog:loggingPrefs", {"browser": "ALL"})
    driver = webdriver.Chrome(options=options, service=Service(DRIVER))
    try:
        yield Browser(driver)
    finally:
        driver.quit()


class Browser:
    def __init__(self, driver: webdriver.Chrome) -> None:
        self._driver = driver

    def open(self, page: Path, *, width: int, scheme: str) -> None:
        """`scheme`: light or dark, as its user likes it."""
        self._tell("Emulation.setEmulatedMedia", features=[{"name": "prefers-color-scheme", "value": scheme}])
        self._tell(
            "Emulation.setDeviceMetricsOverride", width=width, height=900, deviceScaleFactor=1, mobile=False
        )
        self._driver.get(page.as_uri())

    def ask(self, expression: str) -> Any:
        """The value of an expression of JavaScript on the page."""
        return self._driver.execute_script(f"return {expression}")

    def console(self) -> list[str]:
        """What was written there since it was asked last."""
        return [str(entry["message"]) for entry in self._driver.get_log("browser")]  # type: ignore[no-untyped-call]

    def keep_picture(self, path: Path) -> None:
        """Of the whole page, however long it is."""
        path.parent.mkdir(parents=True, exist_ok=True)
        size = {
            name: self.ask(f"document.documentElement.{name}") for name in ("scrollWidth", "scrollHeight")
        }
        clip = {"x": 0, "y": 0, "width": size["scrollWidth"], "height": size["scrollHeight"], "scale": 1}
        taken = self._tell("Page.captureScreenshot", captureBeyondViewport=True, clip=clip)
        path.write_bytes(b64decode(taken["data"]))

    def _tell(self, command: str, **arguments: Any) -> Mapping[str, Any]:
        answer = self._driver.execute_cdp_cmd(command, arguments)
        return answer if isinstance(answer, dict) else {}
