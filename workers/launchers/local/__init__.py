"""Members as real processes of this machine, each under a small supervisor of its own."""
