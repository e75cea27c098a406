"""What is kept for whom until when, and who may use it meanwhile."""
