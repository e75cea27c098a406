"""One controller for each kind of resource. Handlers translate; operations decide."""
