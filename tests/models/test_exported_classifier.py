"""A classifier that was trained and exported in Python is run by aspen-run, which has neither Python nor torch."""

import pathlib
import subprocess
import sys

import numpy
import poptorch
import pytest
import torch
from tutorial import TutorialCNN

sys.path.insert(0, str(pathlib.Path(__file__).parents[1] / "programs"))
from pictures import FOLDER, Pictures  # noqa: E402

RUNNER = pathlib.Path(poptorch.__file__).parents[2] / "apps" / "aspen-run"
pytestmark = pytest.mark.skipif(not FOLDER.exists(), reason="the Debian package dataset-fashion-mnist is not there")
BATCH, TESTED = 100, 5000


def pictures(train, count):
    data = Pictures(train, count)
    return torch.from_numpy(data.pictures).float().div(255).sub(0.5).div(0.5)[:, None], torch.from_numpy(data.labels)


def options():
    return poptorch.Options().showCompilationProgressBar(False)


def trained():
    torch.manual_seed(42)
    model = TutorialCNN().train()
    sgd = poptorch.optim.SGD(model.parameters(), lr=0.005, momentum=0.9)
    trainer = poptorch.trainingModel(model, options().deviceIterations(100), sgd)
    x, labels = pictures(True, 9600)
    for rows in torch.arange(9600).chunk(6):
        trainer(x[rows], labels[rows])
    trainer.destroy()
    return model.eval()


def test_aspen_run_classifies_like_python(tmp_path):
    model = trained()
    x, labels = pictures(False, TESTED)
    exporter = poptorch.inferenceModel(model, options().useOfflineIpuTarget())
    exporter.compileAndExport(tmp_path / "classifier.poptorch", x[:BATCH])
    numpy.save(tmp_path / "x.npy", x.numpy())
    run = subprocess.run([RUNNER, tmp_path / "classifier.poptorch", f"x={tmp_path / 'x.npy'}", "--output", tmp_path],
                         check=False, capture_output=True, text=True, timeout=300)
    assert run.returncode == 0, run.stderr
    results = torch.from_numpy(numpy.load(tmp_path / "output0.npy"))
    loaded = poptorch.load(tmp_path / "classifier.poptorch")
    expected = torch.cat([loaded(part) for part in x.split(BATCH)])
    assert torch.equal(results, expected)  # the same kernels on the same weights
    accuracy = (results.argmax(1) == labels).float().mean().item()
    assert accuracy == (expected.argmax(1) == labels).float().mean().item() > 0.75


def test_aspen_run_needs_neither_python_nor_torch():
    linked = subprocess.run(["ldd", RUNNER], check=True, capture_output=True, text=True).stdout
    assert "libc.so" in linked and "torch" not in linked and "python" not in linked and "c10" not in linked
