"""The whole spread of a figure, in as many points as a picture can show."""

from __future__ import annotations

import numpy as np

from simulation.measures.table import Floats

STEPS = 200


def quantiles_of(values: Floats, *, missing: int = 0) -> tuple[float | None, ...]:
    """The values below which 0, 1/200, 2/200, ... of all lie; empty without any. NaN is left out; `missing`
    ones are larger than all others, and None stands for them."""
    known = np.sort(values[~np.isnan(values)])
    total = len(known) + missing
    if not total:
        return ()
    ranks = [round(step * (total - 1) / STEPS) for step in range(STEPS + 1)]
    return tuple(float(known[rank]) if rank < len(known) else None for rank in ranks)
