"""Who is considered next: the queue whose turn it is, and its best row."""
