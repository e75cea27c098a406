"""What is printed beside a run: the peer's figures, and what could not be beaten."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass


@dataclass(frozen=True, slots=True, kw_only=True)
class Peer:
    """Seconds. `published`: the means that Kueue's thresholds are derived from (its client asks at most 50
    times a second). `here`: Kueue on 2 cores and 24 GiB without that cap. `bound`: arrivals and capacity
    alone, without preemption: nothing takes time but the work. Admissions by class, the largest first."""

    published: float
    published_usage_percent: float
    published_admission: str
    here: float
    here_usage_percent: float
    here_admission: str
    bound: float
    bound_admission: str


PEERS: Mapping[str, Peer] = {
    "baseline": Peer(
        published=351.1,
        published_usage_percent=55.9,
        published_admission="large 16.5, medium 76.8, small 215.5",
        here=298.6,
        here_usage_percent=22,
        here_admission="large 30.2, medium 82.2, small 175.8",
        bound=67.3,
        bound_admission="large 2.3, medium 11.2, small 13.6",
    ),
    "large-scale": Peer(
        published=1179.4,
        published_usage_percent=38.64,
        published_admission="large 105.6, medium 256.4, small 700.4",
        here=965.2,
        here_usage_percent=0.4,
        here_admission="large 132.9, medium 230.8, small 447.4",
        bound=4.7,
        bound_admission="large 0.07, medium 1.4, small 2.0",
    ),
    "tas": Peer(
        published=401.5,
        published_usage_percent=62.41,
        published_admission="large 37.9-39.6, medium 106.3-107.1, small 237.8-246.8",
        here=331.1,
        here_usage_percent=20,
        here_admission="large 73, medium 103, small 194",
        bound=67.3,
        bound_admission="as baseline",
    ),
}


def beside_peer(name: str, told: Mapping[str, str]) -> str:
    """A table: what was measured, the peer's figures, and the bound. `told`: wall, usage and admission."""
    peer = PEERS[name]
    rows = (
        ("Muster, this run", told["wall"], told["usage"], told["admission"]),
        (
            "Kueue, published mean",
            f"{peer.published:g}",
            f"{peer.published_usage_percent:g} (of quota held)",
            peer.published_admission,
        ),
        ("Kueue, 2 cores, no cap", f"{peer.here:g}", f"{peer.here_usage_percent:g}", peer.here_admission),
        ("bound without overhead", f"{peer.bound:g}", "–", peer.bound_admission),
    )
    head = f"{name:<24} {'wall s':>8}  {'useful usage %':<20}  mean time to admission, s"
    return "\n".join([head, *(f"{a:<24} {b:>8}  {c:<20}  {d}" for a, b, c, d in rows)])
