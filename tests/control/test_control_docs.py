"""The examples of docs/control.md run as they stand."""

import ast
import re
import subprocess
from pathlib import Path

from preempt_exporter.control.tokens import token_path
from tests.control.running_control import DEADLINE_S, TOKEN, control

DOC = Path(__file__).resolve().parents[2] / "docs" / "control.md"


def examples(language: str) -> list[str]:
    """The fenced blocks of a language."""
    return re.findall(rf"```{language}\n(.*?)```", DOC.read_text(encoding="utf-8"), re.DOTALL)


def test_the_shell_functions_work_a_task_and_start_nothing_in_a_drained_lane(tmp_path: Path) -> None:
    """Admitted, worked and completed; after a drain the next task's artifact is not made."""
    (functions,) = examples("sh")
    with control(tmp_path) as running:
        token_path(running.ledger).write_text(TOKEN, encoding="utf-8")
        script = (
            f'{functions}\nmake_artifact() {{ echo "made $1"; }}\n'
            'work a; control /admin/drain \'{"lane":"free"}\'; work b; echo "exit $?"\n'
        )
        done = subprocess.run(
            ["sh", "-c", script],
            capture_output=True,
            text=True,
            timeout=DEADLINE_S,
            check=False,
            env={"PATH": "/usr/bin:/bin", "LEDGER_PATH": str(running.ledger), "CONTROL_URL": running.url},
        )
        assert "made a" in done.stdout, done.stderr
        assert "made b" not in done.stdout
        assert done.stdout.endswith("exit 75\n")
        assert running.events() == ["admit", "complete", "lane_drain", "enqueue", "reject"]


def test_the_client_s_example_completes_its_task(tmp_path: Path) -> None:
    """Copied into a file and run against a service."""
    example = next(block for block in examples("python") if "inspect_ai" not in block)
    with control(tmp_path) as running:
        names: dict[str, object] = {"token": TOKEN}
        exec(compile(example.replace("http://127.0.0.1:8080", running.url), str(DOC), "exec"), names)
        assert running.events() == ["admit", "checkpoint", "complete"]


def test_the_inspect_hook_speaks_of_operations_that_there_are(tmp_path: Path) -> None:
    """It parses, and each task operation that it names is answered."""
    hook = next(block for block in examples("python") if "inspect_ai" in block)
    words = {node.value for node in ast.walk(ast.parse(hook)) if isinstance(node, ast.Constant)}
    with control(tmp_path) as running:
        for op in ("admit", "preempt", "complete", "drain"):
            assert op in words
            assert running.post(f"/v1/tasks/t/{op}").status == 200
