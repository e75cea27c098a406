"""The `muster` command. It starts processes, and otherwise uses service.client only."""
