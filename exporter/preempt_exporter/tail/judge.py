"""Was a file's content read under another identity of the same ledger? Decides what to do with an unjudged file."""

from collections.abc import Sequence

from msgspec import Struct
from msgspec.structs import replace

from preempt_exporter.tail.identity import ANCHOR_BYTES, Relation, Trail, bytes_kept_from, compare
from preempt_exporter.tail.lines import ContentChanged
from preempt_exporter.tail.positions import PastContent
from preempt_exporter.tail.source import PlainSource
from preempt_exporter.tail.track import Stage, Track

_SEARCH_BYTES = 1 << 26


class Verdict(Struct, kw_only=True):
    """What to do with the file."""

    stage: Stage
    """`READING` on after `trail`; `WAITING` for it to differ or to be quiet; `FINISHED`: it adds nothing; `UNJUDGED`:
    it is empty."""
    trail: Trail | None = None
    """What of its content was read; None: what the file's own track says."""
    skipping: bool = False
    follows: PastContent | None = None
    """The past content that this file goes on with."""
    likely: bool = False
    """Not certain: some lines may be lost by it."""
    copies: PastContent | Track | None = None
    """Whose content this file repeats, wholly or up to here."""


def judge(
    track: Track,
    source: PlainSource,
    *,
    tracks: Sequence[Track],
    past: Sequence[PastContent],
    now_s: float,
    quiet_s: float,
) -> Verdict:
    """Hold an unjudged file against everything that was read in its ledger.

    A rotated form that goes on after what the live file has read waits for the live file, whose bytes it repeats; the
    live file never waits for its copy. A live file is not held against one that was seen to be rotated away from its
    name, nor against content that a rotated copy has taken along: what stands there now was written after that. Once
    seen empty it is held against copies found since, and nothing else.
    """
    size = source.stat().st_size
    live = track.seat == "live"
    quiet = track.quiet_for_s(now_s) >= quiet_s
    if not size:
        return Verdict(stage=Stage.FINISHED if quiet and not live else Stage.UNJUDGED)
    best: tuple[Relation, Track | PastContent, Trail] | None = None
    empty_s = track.empty_s
    others: list[Track | PastContent] = [*tracks, *past]
    if empty_s is not None:
        others = [other for other in tracks if other.may_be_a_copy() and other.found_s >= empty_s]
    for other in others:
        if other is track:
            continue
        trail, gone_from_here = _known(other)
        if trail.offset <= track.trail.offset or (live and gone_from_here):
            continue
        relation = compare(source.read_at, size, trail)
        if relation is Relation.PREFIX:
            best = (relation, other, trail)
            break
        if relation is Relation.CONTINUES and (best is None or best[2].offset < trail.offset):
            best = (relation, other, trail)
    if best is None:
        anew = live and empty_s is None and not track.trail.offset
        return _cut_in_front(source, size, tracks, past) if anew else Verdict(stage=Stage.READING)
    relation, other, trail = best
    if relation is Relation.PREFIX:
        if not quiet:
            return Verdict(stage=Stage.WAITING, copies=other)
        stage = Stage.READING if live else Stage.FINISHED
        return Verdict(stage=stage, trail=trail.cut_to(size, source.read_at), copies=other)
    if isinstance(other, PastContent):
        return Verdict(
            stage=Stage.READING, trail=replace(trail), skipping=other.position.skipping, follows=other, copies=other
        )
    if not live and not _has_nothing_more(other, size, quiet, now_s, quiet_s):
        return Verdict(stage=Stage.WAITING, copies=other)
    return Verdict(stage=Stage.READING, trail=replace(trail), skipping=other.skipping, copies=other)


def _known(other: Track | PastContent) -> tuple[Trail, bool]:
    if isinstance(other, Track):
        return other.trail, other.rotated_here
    return other.position.trail, other.position.rotated_here


def _has_nothing_more(other: Track, size: int, quiet: bool, now_s: float, quiet_s: float) -> bool:
    """Whether the file that ours repeats has ended before ours does, so that only ours has the rest."""
    if other.stage is Stage.FINISHED or other.seat == "detached":
        return True
    return quiet and other.quiet_for_s(now_s) >= quiet_s and other.size < size and other.seen >= other.size


def _cut_in_front(source: PlainSource, size: int, tracks: Sequence[Track], past: Sequence[PastContent]) -> Verdict:
    """A live file that replaced another may hold its last lines again, the older ones cut off: go on after them."""
    replaced: list[PastContent | Track] = [content for content in past if not content.position.rotated_here]
    replaced += [other for other in tracks if other.seat == "detached"]
    for other in reversed(replaced):
        trail, _ = _known(other)
        kept = bytes_kept_from(source.read_at, size, trail, _SEARCH_BYTES)
        if kept:
            window = source.read_at(0, kept)
            begun = Trail().advanced(window, 0, kept)
            return Verdict(stage=Stage.READING, trail=begun, likely=kept > ANCHOR_BYTES, copies=other)
    return Verdict(stage=Stage.READING)


def verify(track: Track, source: PlainSource) -> None:
    """See that the file still holds what was read: head and anchor, and all that is known of it after a restart.

    Raises `ContentChanged`.
    """
    trail = track.trail
    if track.unverified:
        changed = source.stat().st_size < trail.offset or not holds_what_was_read(track, source)
    else:
        anchor = source.read_at(trail.offset - len(trail.anchor), len(trail.anchor))
        changed = anchor != trail.anchor or source.read_at(0, len(trail.head)) != trail.head
    if changed:
        raise ContentChanged


def holds_what_was_read(track: Track, source: PlainSource) -> bool:
    """Whether the file holds nothing else than was read, as far as it goes."""
    return compare(source.read_at, source.stat().st_size, track.trail) is not Relation.DIFFERENT
