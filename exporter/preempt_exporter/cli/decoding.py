"""Which ledgers are read by the operator's field mapping, and which natively."""

import fnmatch
import re
from collections.abc import Sequence
from pathlib import PurePath

from preempt_exporter.config import Config
from preempt_exporter.ledger.chunk import Chunk
from preempt_exporter.ledger.chunk_decoder import ChunkDecoder, decode_natively
from preempt_exporter.ledger.decode import Decoded
from preempt_exporter.ledger.mapping import Mapping
from preempt_exporter.settings import MappingRule
from preempt_exporter.state.figures import Figures
from preempt_exporter.tail.folders import rotated_form
from preempt_exporter.tail.ledgers import covers

_PACKED = re.compile(r"\.(?:gz|zst)$")


class MappedLedgers:
    """Decodes each ledger by the rules whose `files` match it, or natively where none does."""

    def __init__(self, rules: Sequence[MappingRule]) -> None:
        """`rules` in the order of the configuration."""
        self.rules = rules
        self._mappings: dict[str, Mapping | None] = {}

    def decode(self, chunk: Chunk) -> Decoded:
        """A `ChunkDecoder`."""
        mapping = self.mapping_of(chunk.ledger)
        if mapping is None:
            return decode_natively(chunk)
        return mapping.decode(chunk.data, at_file_start=chunk.offset == 0)

    def mapping_of(self, ledger: str) -> Mapping | None:
        """The mapping of the ledger with that live path; None: its lines are ours."""
        if ledger not in self._mappings:
            rules = [rule for rule in self.rules if any(_matches(glob, ledger) for glob in rule.files)]
            self._mappings[ledger] = Mapping(rules) if rules else None
        return self._mappings[ledger]

    def read_natively(self) -> list[str]:
        """Of the ledgers asked about those that no rule means."""
        return [ledger for ledger, mapping in self._mappings.items() if mapping is None]


def chunk_decoder(config: Config) -> ChunkDecoder:
    """How `config` has lines read; without mappings that is the native way and nothing else."""
    return MappedLedgers(config.mappings).decode if config.mappings else decode_natively


def begin_counting_ignored(figures: Figures, config: Config) -> None:
    """Have the count of ignored lines start at 0 where there are mappings, so that its first increase shows."""
    if config.mappings:
        figures.counts.ignored = figures.counts.ignored or 0


def _matches(glob: str, ledger: str) -> bool:
    """Whether the glob means the ledger, or the one that it is a rotated or compressed form of."""
    path = PurePath(ledger)
    form = rotated_form(path.name)
    names = {path.name, _PACKED.sub("", path.name), form[0] if form else path.name}
    if "/" in glob:
        return any(covers([glob], str(path.with_name(name))) for name in names)
    return any(fnmatch.fnmatchcase(name, glob) for name in names)
