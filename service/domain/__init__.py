"""Words and rules of the field. Standard library only; no I/O, no clock."""
