"""What one cycle goes by and adds to, after it has settled what was there."""

from __future__ import annotations

from dataclasses import dataclass

from service.admission.claims import ClaimBook
from service.admission.dating import Ends
from service.admission.fit import Fitter
from service.admission.kept_quota import KeptQuota
from service.admission.precedence import Precedence


@dataclass(frozen=True, slots=True, kw_only=True)
class Books:
    """Admissions, claims, when what is held ends, who goes before claims, and the quota that is kept for
    them."""

    fitter: Fitter
    claims: ClaimBook
    ends: Ends
    precedence: Precedence
    kept: KeptQuota
