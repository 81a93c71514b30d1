"""Rows that were made of images once and are used again, each as long as its image is the same."""

import torch


class RememberedRows:
    """For `count` images, (count, height, width, channels), and rows like the one given. Also keeps the bytes that each
    row was made of, which tell whether the row still holds."""

    def __init__(self, images, row):
        self.rows = torch.empty((len(images), *row.shape), dtype=row.dtype)
        self._sources = torch.empty(images.shape, dtype=images.dtype)
        self._is_made = torch.zeros(len(images), dtype=torch.bool)

    @staticmethod
    def size(images, row):
        """Bytes that it takes."""
        return images.numel() + len(images) * row.numel() * row.element_size()

    def fits(self, images, row):
        return self._sources.shape == images.shape and self.rows.shape[1:] == row.shape and self.rows.dtype == row.dtype

    def provide(self, images, indices, make):
        """Makes the rows at `indices`, a tensor, as far as they are not those of the images: make(index) gives one."""
        sources = images.index_select(0, indices)
        holds = (self._sources.index_select(0, indices) == sources).flatten(1).all(1)
        holds &= self._is_made.index_select(0, indices)
        if bool(holds.all()):
            return
        for position in (~holds).nonzero().flatten().tolist():
            index = int(indices[position])
            self.rows[index] = make(index)
            self._sources[index] = sources[position]
            self._is_made[index] = True
