"""Alembic migrations, a package so that the wheel carries them."""
