"""Tests on real parts: real PostgreSQL, real Valkey, real processes, real HTTP."""
