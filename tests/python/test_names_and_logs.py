"""modelName and logDir: what is called so, and what is written there."""

import os
import subprocess
import sys
import textwrap


def run(folder, program, **environment):
    """Runs a program in a folder, with the log of the core in the file core.log and the graphs in the folder dump."""
    text = "import poptorch, torch\n" + textwrap.dedent(program)
    environment = {"POPTORCH_LOG_LEVEL": "DEBUG", "POPTORCH_LOG_DEST": "core.log", "ASPEN_DUMP": "dump", **environment}
    result = subprocess.run([sys.executable, "-c", text], capture_output=True, text=True, timeout=120, check=False,
                            cwd=folder, env={**os.environ, **environment})
    assert result.returncode == 0, result.stdout + result.stderr


TWO_MODELS = """
    for name, folder in (("first", "logs"), ("second", "more/logs")):
        options = poptorch.Options().modelName(name).logDir(folder).showCompilationProgressBar(False)
        poptorch.inferenceModel(torch.nn.Linear(2, 2), options)(torch.zeros(1, 2))
"""


def test_log_files_are_in_log_dir(tmp_path):
    run(tmp_path, TWO_MODELS)
    first, second = (tmp_path / folder / "core.log" for folder in ("logs", "more/logs"))
    assert "compiled first: " in first.read_text() and "compiled second: " not in first.read_text()
    assert "compiled second: " in second.read_text()
    assert not (tmp_path / "core.log").exists()


def test_an_absolute_log_file_stays_where_it_is(tmp_path):
    path = tmp_path / "elsewhere" / "all.log"
    run(tmp_path, TWO_MODELS, POPTORCH_LOG_DEST=str(path))
    assert "compiled first: " in path.read_text() and "compiled second: " in path.read_text()
    assert not (tmp_path / "logs").exists()


def test_graphs_are_named_after_their_models(tmp_path):
    run(tmp_path, TWO_MODELS)
    names = {path.name for path in (tmp_path / "dump").iterdir()}
    assert {"first.00.begin.ir", "second.00.begin.ir"} <= names
    assert (tmp_path / "dump" / "first.00.begin.ir").read_text().startswith("graph @first(")


def test_models_without_a_name_are_called_training_and_inference(tmp_path):
    run(tmp_path, """
        options = poptorch.Options().showCompilationProgressBar(False)
        poptorch.inferenceModel(torch.nn.Linear(2, 2), options)(torch.zeros(1, 2))
        model = torch.nn.Sequential(torch.nn.Linear(2, 2))
        try:
            poptorch.trainingModel(model, options)(torch.zeros(1, 2))
        except poptorch.Error as error:
            assert "Couldn't find a loss in graph training" in str(error), error
    """)
    names = {path.name for path in (tmp_path / "dump").iterdir()}
    assert {"inference.00.begin.ir", "training.00.begin.ir"} <= names
