"""The programs of this folder, each as a process of its own, as users start theirs."""
import json
import pathlib
import subprocess
import sys

import pytest

FOLDER = pathlib.Path(__file__).parent


def run(name, *arguments):
    result = subprocess.run([sys.executable, FOLDER / f"{name}.py", *arguments], capture_output=True, text=True)
    assert result.returncode == 0, result.stderr
    return json.loads(result.stdout.splitlines()[-1])


def assert_follow(losses, expected):
    """Loss by loss as in plain PyTorch: rounding makes some 3e-7 over these few hundred steps."""
    assert len(losses) >= len(expected) > 0
    worst = max(abs(a - b) / max(abs(b), 1) for a, b in zip(losses, expected))
    assert worst < 1e-5, f"a loss differs by {worst:.1e} of its size"


def test_classify_learns_and_loads_what_it_saved(tmp_path):
    result = run("classify", tmp_path)
    assert result["losses"][0] < 1.2 and result["losses"][1] < 0.7 * result["losses"][0], result
    assert result["accuracy"] > 0.80, result
    assert result["predicted"] == result["label"], result
    assert result["difference_from_torch"] < 1e-4, result


def test_port_follows_plain_torch():
    result = run("port")
    assert_follow(result["losses"], result["losses_in_torch"])
    assert result["accuracy"] > 0.65, result["accuracy"]
    assert abs(result["accuracy"] - result["accuracy_in_torch"]) < 0.02, result["accuracy"]


def test_pipeline_on_four_devices_follows_plain_torch():
    result = run("pipeline")
    assert_follow(result["losses"], result["losses_in_torch"])
    early, late = result["losses"][:40], result["losses"][-40:]
    assert sum(late) < 0.5 * sum(early), "the pipeline did not learn"
    assert result["accuracy"] > 0.75, result["accuracy"]


@pytest.mark.parametrize("name", sorted(p.stem for p in FOLDER.glob("*.py") if not p.stem.startswith("test_")
                                        and p.stem != "pictures"))
def test_every_program_is_run(name):
    assert f'run("{name}"' in pathlib.Path(__file__).read_text(), f"no test runs {name}.py"
