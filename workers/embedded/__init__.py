"""PostgreSQL and Valkey from wheels: started, watched and ended without anything from the system."""
