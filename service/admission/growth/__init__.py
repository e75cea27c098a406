"""Which running groups grow into room that nobody who waits could use."""
