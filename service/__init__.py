"""Muster: batch admission of whole GPU job groups."""
