"""Where a unit goes: a whole gang within a domain, its slices and its ranks."""
