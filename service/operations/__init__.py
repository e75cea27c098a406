"""One transaction per verb: what clients, the leader and the dispatchers may do to a group."""
