"""Why each one who is left out waits."""
