"""A virtual clock around the real cycle: the World and its plans as they are, and books in memory in the
place of both stores and of whatever runs."""
