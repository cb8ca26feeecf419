"""Many threads at one gate: one winner per slot, and a ledger that tells the same story."""

import threading
from collections import Counter
from collections.abc import Callable
from pathlib import Path

from preempt_exporter.gate.answers import Answer
from preempt_exporter.gate.gate import Gate
from tests.gate.gates import REQUEST, Place


def together(count: int, work: Callable[[int], None]) -> None:
    """Run `work(0)` to `work(count - 1)` at the same time; an error in any of them is an error."""
    errors: list[BaseException] = []
    start = threading.Barrier(count)

    def guarded(number: int) -> None:
        try:
            start.wait()
            work(number)
        except BaseException as error:
            errors.append(error)

    threads = [threading.Thread(target=guarded, args=(number,)) for number in range(count)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert errors == []


def test_one_of_many_admissions_wins_the_slot(tmp_path: Path) -> None:
    """Sixteen threads ask for the same task at once, again after each preemption."""
    place = Place(tmp_path)
    gate = place.gate()
    key = ("r", "t")
    for expected in ("admitted", "admitted", "rejected"):
        answers: dict[int, Answer] = {}
        together(16, lambda number, into=answers: into.update({number: gate.admit(key, REQUEST)}))  # type: ignore[misc]
        outcomes = Counter(answer.outcome for answer in answers.values())
        assert outcomes == {expected: 1, "refused": 15}
        gate.preempt(key)
    assert place.events() == ["admit", "preempt", "admit", "preempt", "reject", "drain"]


def test_the_ledger_tells_what_the_threads_were_told(tmp_path: Path) -> None:
    """Eight workers run forty tasks through losses; a new gate knows each as the old one does."""
    place = Place(tmp_path)
    gate = place.gate()

    def work(number: int) -> None:
        for task in range(5):
            run_through_losses(gate, (f"r{number}", str(task)), losses=task % 3)

    together(8, work)
    restarted = place.gate()
    for number in range(8):
        for task in range(5):
            before, after = gate.about((f"r{number}", str(task))), restarted.about((f"r{number}", str(task)))
            assert before is not None
            assert before == after
            assert before.state == ("drained" if task % 3 == 2 else "complete")
    ids = [record.id for record in place.records()]
    assert len(ids) == len(set(ids))


def run_through_losses(gate: Gate, key: tuple[str | None, str], *, losses: int) -> None:
    """Lose the slot so often, then complete if the gate still admits."""
    gate.enqueue(key, REQUEST)
    for _ in range(losses):
        assert gate.admit(key, REQUEST).outcome == "admitted"
        gate.checkpoint(key, checkpoint_tokens=100)
        gate.preempt(key)
    if gate.admit(key, REQUEST).outcome == "admitted":
        gate.complete(key, output_tokens=200)
