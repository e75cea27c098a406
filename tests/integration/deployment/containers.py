"""A service of docker-compose.yml as a process of this machine, with its health check, in Docker's way."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import threading
import time
from pathlib import Path
from types import TracebackType
from typing import Self

from tests.integration.deployment.compose import (
    SERVICES,
    HealthCheck,
    environment,
    grace_seconds,
    image_environment,
    image_instructions,
)


class Container:
    """One container of `service`, with folders and stores of this machine in the place of its own.

    `volume` is what containers share, `own` is this one's. `replaced` are variables that mean another
    place here. What the container prints goes to `own/output`.
    """

    def __init__(self, service: str, *, volume: Path, own: Path, replaced: dict[str, str]) -> None:
        self.service = service
        self.health = "starting"
        self.lines: list[str] = []
        """What each health check said."""
        self._volume, self._own, self._replaced = volume, own, replaced
        self._check = HealthCheck.of(service) if "healthcheck" in SERVICES[service] else None
        self._is_over = threading.Event()
        self._process: subprocess.Popen[bytes] | None = None
        self._watch = threading.Thread(target=self._watch_health, name=f"health-{service}", daemon=True)

    @property
    def output(self) -> str:
        return (self._own / "output").read_text()

    @property
    def pid(self) -> int:
        assert self._process is not None
        return self._process.pid

    def environment(self) -> dict[str, str]:
        """The image's and the file's, with the folders of the container as folders of this machine."""
        folders = {"/var/lib/muster": self._volume, "/run/muster": self._own / "run"}
        told = {**image_environment(), **environment(self.service)}
        here = {name: str(folders.get(value, value)) for name, value in told.items()}
        # The interpreter of this environment in the place of the image's.
        path = os.pathsep.join([str(Path(sys.executable).parent), os.defpath])
        return {**here, "PATH": path, "HOME": str(self._own), **self._replaced}

    def __enter__(self) -> Self:
        self._own.mkdir(parents=True)
        with (self._own / "output").open("wb") as output:
            self._process = subprocess.Popen(
                self._command(),
                cwd=self._own,
                env=self.environment(),
                stdin=subprocess.DEVNULL,
                stdout=output,
                stderr=output,
                start_new_session=True,
            )
        if self._check is not None:
            self._watch.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._is_over.set()
        if self._watch.is_alive():
            self._watch.join()
        if self._process is not None and self._process.poll() is None:
            self._process.kill()
            self._process.wait()

    def wait_end(self, *, seconds: float) -> int:
        assert self._process is not None
        return self._process.wait(seconds)

    def wait_health(self, wanted: str, *, seconds: float) -> None:
        deadline = time.monotonic() + seconds
        while time.monotonic() < deadline:
            if self.health == wanted:
                return
            time.sleep(0.1)
        raise AssertionError(
            f"{self.service} is {self.health} and not {wanted}: {self.lines[-25:]}\n{self.output[-2000:]}"
        )

    def freeze(self) -> None:
        os.kill(self.pid, signal.SIGSTOP)

    def thaw(self) -> None:
        os.kill(self.pid, signal.SIGCONT)

    def stop(self) -> int:
        """The image's signal, and as long as the file grants. Raises TimeoutExpired where Docker kills."""
        assert self._process is not None
        self._is_over.set()
        [name] = image_instructions("STOPSIGNAL")
        self._process.send_signal(signal.Signals[name])
        return self._process.wait(grace_seconds(self.service))

    def _command(self) -> list[str]:
        assert image_instructions("ENTRYPOINT") == ['["muster"]']
        return ["muster", *SERVICES[self.service]["command"]]

    def _watch_health(self) -> None:
        """Healthy after one success. A failure counts after the start period, or once it was healthy;
        so many in a row and it is not."""
        check = self._check
        assert check is not None
        began_at, failures = time.monotonic(), 0
        while not self._is_over.wait(check.interval):
            if self._ask(check):
                self.health, failures = "healthy", 0
            elif self.health != "starting" or time.monotonic() - began_at > check.start_period:
                failures += 1
            if failures >= check.retries:
                self.health = "unhealthy"

    def _ask(self, check: HealthCheck) -> bool:
        try:
            done = subprocess.run(
                check.command,
                cwd=self._own,
                env=self.environment(),
                capture_output=True,
                text=True,
                timeout=check.timeout,
                check=False,
            )
        except subprocess.TimeoutExpired:
            self.lines.append(f"no answer within {check.timeout:g} s")
            return False
        self.lines.append(f"{done.returncode}: {(done.stdout + done.stderr).strip()}")
        return done.returncode == 0
