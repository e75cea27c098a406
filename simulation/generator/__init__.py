"""Logs that are made up: seeded, from distributions that are written down, for tests that run everywhere."""
