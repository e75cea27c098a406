"""Submits beside open event streams."""
