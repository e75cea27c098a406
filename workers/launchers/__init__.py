"""Backends that run members: one protocol, several launchers."""
