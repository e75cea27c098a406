"""`python -m service.cli` is `muster`, also where the virtual environment is not active."""

from __future__ import annotations

from service.cli.main import main

if __name__ == "__main__":
    main()
