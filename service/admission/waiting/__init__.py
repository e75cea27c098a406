"""What waits in the queues, and in which line: rows, classes, their terms, and whose guards have run out."""
