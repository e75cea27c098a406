"""Decisions only: a World and an instant in, a Plan out. No I/O, no clock, no randomness."""
