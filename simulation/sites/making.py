"""A cluster and a policy together."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

from service.admission.world import Configuration
from service.domain.queue import Stop
from service.domain.resources import CPUS, MEMORY
from service.domain.tree import QueueSettings
from simulation.sites.cluster import Cluster, read_cluster
from simulation.sites.policy import SitePolicy, read_policy
from simulation.sites.site import Site, SiteWrong


def read_site(cluster: Path, policy: Path) -> Site:
    """Raises SiteWrong."""
    return site_of(read_cluster(cluster), read_policy(policy))


def site_of(cluster: Cluster, policy: SitePolicy) -> Site:
    """Raises SiteWrong if nobody can submit, or a queue may use a pool that is not there."""
    _check(cluster, policy)
    configuration = Configuration(
        version=1,
        nodes_version=1,
        queues=policy.queues,
        cohorts=policy.cohorts,
        pools=cluster.pools,
        nodes=cluster.nodes,
    )
    numbered = list(enumerate(policy.tree.queues.values(), start=1))
    queue_of: dict[str, int] = {}
    for number, queue in numbered:
        if queue.tenant is not None:
            queue_of.setdefault(queue.tenant, number)
    return Site(
        name=policy.name,
        configuration=configuration,
        policy=policy.policy,
        queue_of=queue_of,
        open_queue=next((number for number, queue in numbered if queue.tenant is None), None),
        shares=_shares(policy.tree.queues, gpus=cluster.gpus),
        outages=cluster.outages,
    )


def _check(cluster: Cluster, policy: SitePolicy) -> None:
    queues = policy.tree.queues.values()
    if not any(queue.stop is Stop.NONE for queue in queues):
        raise SiteWrong(f"{policy.name} has no queue that admits anybody")
    pools = {pool.name for pool in cluster.pools.values()}
    for queue in queues:
        if queue.policy.pools is not None and not pools.intersection(queue.policy.pools):
            named = ", ".join(queue.policy.pools) or "none"
            raise SiteWrong(
                f"queue {queue.name} of {policy.name}: {cluster.name} has none of its pools ({named})"
            )


def _shares(queues: Mapping[str, QueueSettings], *, gpus: int) -> dict[str, float]:
    """Of each tenant with queues of its own."""
    own = [queue for queue in queues.values() if queue.tenant is not None]
    weights = sum(queue.policy.weight for queue in own) or 1.0
    shares: dict[str, float] = {}
    for queue in own:
        assert queue.tenant is not None
        nominal = queue.quota.nominal
        share = gpus * queue.policy.weight / weights
        if nominal is not None:
            share = float(sum(each for name, each in nominal.items() if name not in (CPUS, MEMORY)))
        shares[queue.tenant] = shares.get(queue.tenant, 0.0) + share
    return shares
