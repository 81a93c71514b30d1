"""What a compilation shows: the progress bar."""

import tqdm

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
