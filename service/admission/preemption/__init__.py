"""For whom running units give way, which of them, when, and what is told of it."""
