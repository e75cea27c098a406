"""How much more each queue, user and group may take, and who may take it from whom."""
