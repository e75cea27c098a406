"""Submits over HTTP."""
