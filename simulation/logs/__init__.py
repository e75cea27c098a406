"""Job logs of other schedulers, and of Muster itself, as one kind of row."""
