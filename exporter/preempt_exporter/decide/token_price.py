"""What tokens cost in a lane."""

from msgspec import Struct


class TokenPrice(Struct, frozen=True, kw_only=True):
    """Money per million tokens, in whatever currency the operator writes."""

    per_million_in: float
    per_million_out: float

    def of(self, tokens_in: int, tokens_out: int) -> float:
        """What so many tokens cost."""
        return (tokens_in * self.per_million_in + tokens_out * self.per_million_out) / 1_000_000
