"""What one cycle goes by and adds to, after it has settled what was there."""

from __future__ import annotations

from dataclasses import dataclass

from service.admission.claims.book import ClaimBook
from service.admission.claims.dating import Ends
from service.admission.claims.kept_quota import KeptQuota
from service.admission.fit import Fitter
from service.admission.order.precedence import Precedence


@dataclass(frozen=True, slots=True, kw_only=True)
class Books:
    """Admissions, claims, when what is held ends, who goes before claims, and the quota that is kept for
    them."""

    fitter: Fitter
    claims: ClaimBook
    ends: Ends
    precedence: Precedence
    kept: KeptQuota
