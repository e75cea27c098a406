"""The typed client of Muster's HTTP API."""

from __future__ import annotations

from service.client.client import Client
from service.client.errors import ApiError, ClientError, Unintelligible, Unreachable

__all__ = ["ApiError", "Client", "ClientError", "Unintelligible", "Unreachable"]
