"""The spend contract once more, as plainly as it can be said: a list of epochs, and sums over it. For tests only."""

from dataclasses import dataclass, field


@dataclass
class Epoch:
    shard: str
    number: int
    tokens: int
    expires_ms: int
    digest: str
    ended: str = ""
    billed: int = 0
    artifact: str = ""
    burn: int | None = None


def cases(shard: str) -> tuple[str, set[int] | None]:
    base, slash, part = shard.partition("/")
    if not slash:
        return base, None
    first, _, last = part.partition("-")
    return base, set(range(int(first), int(last) + 1))


def share_a_case(one: str, other: str) -> bool:
    base, held = cases(one)
    other_base, other_held = cases(other)
    return base == other_base and (held is None or other_held is None or bool(held & other_held))


@dataclass
class ReferenceSpend:
    cases_per_shard: int
    budget: int | None = None
    charge_burned: bool = False
    grants: bool = True
    stopped: bool = False
    now_ms: int = 0
    epochs: list[Epoch] = field(default_factory=list)
    checkpoints: dict[str, list[tuple[int, str]]] = field(default_factory=dict)

    def expired(self, epoch: Epoch) -> bool:
        return epoch.ended == "expired" or (not epoch.ended and self.now_ms >= epoch.expires_ms)

    def committed(self) -> int:
        return sum(epoch.billed for epoch in self.epochs)

    def reserved(self) -> int:
        return sum(epoch.tokens for epoch in self.epochs if not epoch.ended)

    def lost(self) -> list[Epoch]:
        return [epoch for epoch in self.epochs if epoch.ended in ("expired", "cancelled", "superseded")]

    def burned(self) -> int:
        return sum(epoch.burn or 0 for epoch in self.lost())

    def charged(self) -> int:
        return sum(min(epoch.burn or 0, epoch.tokens) for epoch in self.lost()) if self.charge_burned else 0

    def accepted(self) -> list[tuple[str, int, str, int]]:
        return sorted(
            (epoch.shard, epoch.number, epoch.artifact, epoch.billed)
            for epoch in self.epochs
            if epoch.ended == "committed"
        )

    def accepted_shards(self) -> list[str]:
        held: dict[str, set[int]] = {}
        for shard, *_ in self.accepted():
            base, part = cases(shard)
            every = set(range(self.cases_per_shard))
            held.setdefault(base, set()).update(every if part is None else part)
        return sorted(base for base, part in held.items() if part == set(range(self.cases_per_shard)))

    def find(self, shard: str, number: int) -> Epoch | None:
        return next((epoch for epoch in self.epochs if (epoch.shard, epoch.number) == (shard, number)), None)

    def highest(self, shard: str) -> int:
        return max((epoch.number for epoch in self.epochs if epoch.shard == shard), default=-1)

    def reclaim(self) -> int:
        over = [epoch for epoch in self.epochs if not epoch.ended and self.expired(epoch)]
        for epoch in over:
            epoch.ended = "expired"
        return len(over)

    def reserve(self, shard: str, number: int | None, tokens: int, lease_ms: int, digest: str) -> str:
        self.reclaim()
        own_live = next((epoch for epoch in self.epochs if epoch.shard == shard and not epoch.ended), None)
        if number is not None:
            same = self.find(shard, number)
            if same:
                return "ALREADY_COMMITTED" if same.ended in ("committed", "compensated") else "ALREADY_RESERVED"
            if number < self.highest(shard):
                return "STALE_EPOCH"
        near = [epoch for epoch in self.epochs if share_a_case(epoch.shard, shard)]
        if any(epoch.ended == "committed" for epoch in near):
            return "SHARD_ACCEPTED"
        if any(not epoch.ended and (number is None or epoch is not own_live) for epoch in near):
            return "ALREADY_RESERVED"
        if not self.grants or self.stopped:
            return "RUN_STOPPED"
        if own_live:
            own_live.ended = "superseded"
        if self.budget is not None and self.committed() + self.reserved() + self.charged() + tokens > self.budget:
            if own_live:
                own_live.ended = ""
            return "OVER_BUDGET"
        new = self.highest(shard) + 1 if number is None else number
        self.epochs.append(Epoch(shard, new, tokens, self.now_ms + lease_ms, digest))
        return "GRANTED" if number is None else "RESERVED"

    def lease(self, shard: str, number: int) -> Epoch | str:
        epoch = self.find(shard, number)
        if number < self.highest(shard):
            return "STALE_EPOCH"
        if epoch and self.expired(epoch):
            return "LEASE_EXPIRED"
        return epoch if epoch and not epoch.ended else "UNRESERVED_SPEND"

    def renew(self, shard: str, number: int, lease_ms: int) -> str:
        epoch = self.lease(shard, number)
        if isinstance(epoch, str):
            return epoch
        epoch.expires_ms = self.now_ms + lease_ms
        return "RENEWED"

    def release(self, shard: str, number: int) -> str:
        epoch = self.lease(shard, number)
        if isinstance(epoch, str):
            return epoch
        epoch.ended = "cancelled"
        return "RELEASED"

    def checkpoint(self, shard: str, number: int, index: int, tokens: int, digest: str) -> str:
        epoch = self.lease(shard, number)
        if isinstance(epoch, str):
            return epoch
        if epoch.digest != digest:
            return "DIGEST_MISMATCH"
        epoch.burn = tokens
        self.checkpoints.setdefault(shard, []).append((index, digest))
        return "CHECKPOINTED"

    def resume(self, shard: str, number: int, digest: str) -> str:
        epoch = self.lease(shard, number)
        if isinstance(epoch, str):
            return epoch
        if epoch.digest != digest:
            return "DIGEST_MISMATCH"
        saved = self.checkpoints.get(shard)
        if not saved:
            return "RESUME 0"
        index, of = saved[-1]
        if of != digest:
            saved.clear()
            return "RESTART 0"
        return f"RESUME {index}"

    def commit(self, shard: str, number: int, tokens: int, artifact: str, at_most: bool) -> str:
        same = self.find(shard, number)
        if same and same.ended in ("committed", "compensated"):
            return "ALREADY_COMMITTED"
        epoch = self.lease(shard, number)
        if isinstance(epoch, str):
            return epoch
        if tokens > epoch.tokens or (tokens < epoch.tokens and not at_most):
            return "UNRESERVED_SPEND"
        if not artifact:
            return "ARTIFACT_MISSING"
        epoch.ended, epoch.billed, epoch.artifact = "committed", tokens, artifact
        return "COMMITTED"

    def compensate(self, shard: str, number: int, artifact: str) -> str:
        epoch = self.find(shard, number)
        if not epoch or epoch.ended != "committed" or epoch.artifact != artifact:
            return "UNRESERVED_SPEND"
        epoch.ended = "compensated"
        return "COMPENSATED"
