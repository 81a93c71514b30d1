"""Samplers of poptorch.DataLoader: the share of one of several processes."""

import copyreg

import torch


def _restored_generator(device, state):
    generator = torch.Generator(device)
    generator.set_state(state)
    return generator


# Loaders of other processes are sent there with their samplers, and torch cannot pickle the generators these may have.
copyreg.pickle(torch.Generator, lambda generator: (_restored_generator, (generator.device, generator.get_state())))


class ProcessShareSampler(torch.utils.data.Sampler):
    """The contiguous share of one process in a data set.

    With drop_last every process gets the same whole number of combined batches; otherwise shares are nearly equal and
    the first processes take one element more. A shuffled share is cut from a permutation that is the same in every
    process and new in each epoch; what one epoch leaves out is moved into the next.
    """

    def __init__(self, num_elements, combined_batch_size, num_processes, process_id, drop_last, seed):
        """seed: None for no shuffling."""
        super().__init__(None)
        self._num_elements = num_elements
        self._generator = None
        if seed is not None:
            self._generator = torch.Generator()
            self._generator.manual_seed(seed)
        self._shift_window = False
        if drop_last:
            self._length = combined_batch_size * (num_elements // (combined_batch_size * num_processes))
            self._start = process_id * self._length
            self._left_over = num_elements - num_processes * self._length
        else:
            share, more = divmod(num_elements, num_processes)
            self._length = share + (1 if process_id < more else 0)
            self._start = process_id * share + min(process_id, more)
            self._left_over = 0

    def __iter__(self):
        if self._generator is None:
            return iter(range(self._start, self._start + self._length))
        order = torch.randperm(self._num_elements, generator=self._generator)
        start = self._start + (self._left_over if self._shift_window else 0)
        self._shift_window = not self._shift_window
        return iter(order[start : start + self._length].tolist())

    def __len__(self):
        return self._length
