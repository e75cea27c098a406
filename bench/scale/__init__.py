"""What cycles, the worker and submits cost, over the size of the cluster, the backlog and the clients."""
