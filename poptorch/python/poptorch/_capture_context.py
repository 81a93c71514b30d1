"""What annotations need to know while a model is captured: the strategy, and the blocks met so far."""

import threading

from .errors import createPoptorchError

_here = threading.local()  # context: of the capture that this thread has under way; other threads go on as ever


class CaptureContext:
    """Lives for one capture. ipus: the device of each block start, in order."""

    def __init__(self, options, training):
        self.options = options
        self.strategy = options._execution_strategy
        self.training = training
        self.ipus = []
        self.next_auto_id = 0
        self.strategy._begin_capture()

    def __enter__(self):
        _here.context = self
        return self

    def __exit__(self, *exception):
        _here.context = None

    def place(self, block_id, ipu_id):
        """Stage, phase and device of a block that starts now."""
        if block_id is None:
            block_id = str(self.next_auto_id)
            self.next_auto_id += 1
        stage, phase, ipu = self.strategy._place(block_id, ipu_id)
        if not isinstance(ipu, int) or ipu < 0:
            raise createPoptorchError(f'[Block] block "{block_id}" is on IPU {ipu!r}; ids are whole numbers from 0.')
        self.ipus.append(ipu)
        return stage, phase, ipu


def current():
    """The context of the capture that this thread has under way, None on the host."""
    return getattr(_here, "context", None)
