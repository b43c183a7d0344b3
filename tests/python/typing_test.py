"""Types: the package's own, and those that a user's program sees."""

import pathlib
import subprocess
import sys
import textwrap

import kinema


def mypy(*words):
    done = subprocess.run([sys.executable, "-m", "mypy", "--disallow-untyped-defs", "--disallow-incomplete-defs",
                           "--check-untyped-defs", "--ignore-missing-imports", "--cache-dir", "/dev/null", *words],
                          capture_output=True, text=True)
    return done.returncode, done.stdout + done.stderr


def test_the_package_is_typed():
    status, out = mypy("-p", "kinema")
    assert status == 0, out


def test_a_users_program(tmp_path):
    program = tmp_path / "program.py"
    program.write_text(textwrap.dedent("""\
        import kinema as k

        out = k.Pipeline("model")("a fox", seed=0)
        seconds: float = out.seconds
        run = k.train("a.yml", max_train_steps=3)
        steps: int = run.steps
        graph = k.graph.Graph()
        x = graph.input([2])
        y: k.graph.Tensor = k.graph.sum(x * 2.0 + x)
        steps = run.folder
        """))
    status, out = mypy(str(program))
    assert status == 1 and out.count("error:") == 1, out
    assert "program.py:10" in out and "Path" in out, out
    assert (pathlib.Path(kinema.__file__).parent / "py.typed").exists()
