"""The hot statements over a long past."""
