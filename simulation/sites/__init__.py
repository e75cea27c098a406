"""Where a log is replayed: the nodes of a cluster file, and the queues and settings of a policy file."""
