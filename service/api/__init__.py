"""The HTTP edge: wire types, controllers, problem details."""
