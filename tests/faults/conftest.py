"""Faults done for real to a real stack under load. `make faults` runs this folder; `make test` does not.

How to write one:

    def test_something_happens(up: Up, tmp_path: Path) -> None:
        with load_on(up, tmp_path) as trial:          # trial.py
            ...                                       # the fault, and its end

- `up` is one `muster up` for all tests of a module (PostgreSQL, Valkey, API, worker, dispatcher, ticker,
  8 GPUs), with leases of 3 s. Leave it as you found it: nothing frozen, no node cordoned, no part away.
  For other settings or a stack of your own: `with server_folder() as folder, data_folder(folder) as data`
  and `trial.start(data, nodes=..., MUSTER_...=...)`.
- `load_on` submits a gang that runs across the fault, streams small groups in with idempotency keys, and
  has the Witness look at books, ledger and processes all the while: never half of a gang holds, no device
  has two members, no two generations of a unit live.
- The load may take more than there is: a gang of yours that has to end while it goes on has one member,
  because larger ones may be passed by what fits beside them.
- Groups of your own come from `trial.journal` (their members note that they began and ended) and go
  through `trial.submit(body, "Cancelled", ...)`, which remembers how they may end.
- When the block is left, section 13 of the architecture is checked: ready and a clean audit within 10 s
  (`RECOVERY_SECONDS`), then, when all groups have ended, `verdict.judge` says what else. So the test itself
  only asserts what is special about its fault, for example `trial.assert_unharmed()`.
- `trial.point.set("worker.committed")` has whoever comes to that named point (service/points.py) killed
  there, once; `"freeze"` stops it instead. `trial.point.wait_struck()` gives the pid. The stack's watch
  starts killed parts again.
- `faults.py` has kills, frozen parts, emptied stores, second workers; `asker.py` single HTTP requests.

One stack at a time takes the processors: give tests of one stack the same `xdist_group`.
"""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from tests import servers
from tests.e2e.stacks import Up, data_folder
from tests.faults.trial import start


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption("--kills", help="how many random kills there are in a row")
    parser.addoption("--seed", help="of the random kills; `new` draws one")


@pytest.fixture(scope="module")
def up() -> Iterator[Up]:
    """A stack of the module's own; it has to stop in good order."""
    with servers.server_folder() as folder, data_folder(folder) as data:
        stack = start(data)
        yield stack
        assert stack.stop() == 0
