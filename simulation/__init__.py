"""Policies tried on logs: what the real cycle would have made of them, on a virtual clock."""
