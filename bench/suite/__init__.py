"""The performance suite of a peer, Kueue, regenerated and run through every process of the stack."""
