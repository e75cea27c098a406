"""Requests as they come over the wire, and what is wrong with them: what the API and a replay both read."""
