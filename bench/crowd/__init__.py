"""A crowd of groups waits for a large cluster."""
