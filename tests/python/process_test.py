"""kinema as a guest of a process: signals, the program, children."""

import multiprocessing
import pathlib
import signal
import subprocess
import sys
import textwrap
import time

import kinema as k


def in_child(code, **options):
    return subprocess.Popen([sys.executable, "-c", textwrap.dedent(code)], stdout=subprocess.PIPE,
                            stderr=subprocess.PIPE, text=True, **options)


def test_the_program_is_there():
    done = subprocess.run([sys.executable, "-m", "kinema", "--version"], capture_output=True, text=True, check=True)
    assert done.stdout.startswith(f"kinema {k.__version__}")


def test_ctrl_c_ends_training_with_a_checkpoint(tiny):
    child = in_child(f"""
        import kinema as k
        class Told(k.Callback):
            def on_step_end(self, step):
                print(step.step, flush=True)
        try:
            k.train({str(tiny["config"])!r}, output_dir={str(tiny["output_dir"])!r}, run_name="run",
                    max_train_steps=1000000, callbacks=[Told()], progress=False)
        except KeyboardInterrupt:
            print("interrupted", flush=True)
        """)
    for _ in range(5):
        child.stdout.readline()
    begin = time.monotonic()
    child.send_signal(signal.SIGINT)
    rest = child.stdout.read()
    assert child.wait(60) == 0, child.stderr.read()
    assert "interrupted" in rest and time.monotonic() - begin < 30
    run = k.load(tiny["config"], output_dir=tiny["output_dir"], run_name="run").run_folder
    assert any(each.name.isdigit() for each in (pathlib.Path(run) / "checkpoints").iterdir())


def test_the_process_keeps_its_signals_and_streams():
    child = in_child("""
        import signal, sys
        before = [signal.getsignal(each) for each in (signal.SIGINT, signal.SIGPIPE, signal.SIGCHLD)]
        import kinema
        assert before == [signal.getsignal(each) for each in (signal.SIGINT, signal.SIGPIPE, signal.SIGCHLD)]
        """)
    out, errors = child.communicate(timeout=60)
    assert (child.returncode, out, errors) == (0, "", "")


def losses(folder):
    run = k.train(pathlib.Path(__file__).resolve().parents[2] / "configs" / "tiny.yml", output_dir=folder,
                  run_name="run", max_train_steps=2, progress=False)
    return run.losses.tolist()


def test_spawned_children_train_too(tmp_path):
    with multiprocessing.get_context("spawn").Pool(1) as pool:
        there = pool.apply(losses, (tmp_path / "there",))
    assert there == losses(tmp_path / "here")
