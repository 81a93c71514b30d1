"""What a compilation shows and leaves behind: the progress bar and the graph as text."""

import os

import tqdm

from .errors import createPoptorchError

_BAR_FORMAT = "{l_bar}{bar}| {n_fmt}/{total_fmt} [{elapsed}<{remaining}]"


class ProgressBar:
    """The bar "Graph compilation", of 100 steps."""

    def __init__(self, show):
        self._show = show
        self._bar = None

    def __enter__(self):
        if self._show:
            self._bar = tqdm.tqdm(total=100, desc="Graph compilation", bar_format=_BAR_FORMAT)
        return self

    def update(self, fraction):
        if self._bar is not None:
            self._bar.update(max(0, round(100 * fraction) - self._bar.n))

    def __exit__(self, kind, *exception):
        if self._bar is not None:
            if kind is None:
                self.update(1.0)
            self._bar.close()


def export_text(core):
    """POPTORCH_EXPORT_PROTO_FILE: the compiled graph as text."""
    path = os.environ.get("POPTORCH_EXPORT_PROTO_FILE", "")
    if not path:
        return
    if os.environ.get("POPTORCH_EXPORT_PROTO_AS_BINARY", "0") not in ("", "0"):
        raise createPoptorchError(
            "[compile] POPTORCH_EXPORT_PROTO_AS_BINARY is set, but the graph is only written as text; unset it."
        )
    os.makedirs(os.path.dirname(os.path.abspath(path)), exist_ok=True)
    with open(path, "w", encoding="utf-8") as file:
        file.write(core.graph_text())
