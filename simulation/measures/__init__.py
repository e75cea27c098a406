"""What became of the groups, in figures: pure functions over arrays."""
