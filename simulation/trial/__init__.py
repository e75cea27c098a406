"""From files to figures: a log replayed on a cluster under each of several policies."""
