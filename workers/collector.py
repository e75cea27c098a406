"""The garbage collector of a process that keeps a World: hundreds of thousands of objects that stay."""

from __future__ import annotations

import gc

#: A cycle makes some hundred thousand objects, nearly all of them gone by their counts when it ends.
_OBJECTS_PER_COLLECTION = 50_000


def spare_collector() -> None:
    """What is there now stays, and is not looked through again: doing that, in the middle of a cycle with
    100,000 waiting groups, takes longer than the cycle. What stayed before, of an earlier World, is looked
    through once more."""
    gc.unfreeze()
    gc.collect()
    gc.freeze()
    gc.set_threshold(_OBJECTS_PER_COLLECTION)
