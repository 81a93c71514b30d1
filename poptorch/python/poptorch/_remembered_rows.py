"""Rows that were made of images once and are used again, each as long as its image is the same."""

import torch

from . import poptorch_core


class RememberedRows:
    """For `count` images, (count, height, width, channels), and rows like the one given. Also keeps the bytes that each
    row was made of, which tell whether the row still holds."""

    def __init__(self, images, row):
        self.rows = torch.empty((len(images), *row.shape), dtype=row.dtype)
        self._sources = torch.empty_like(images)
        self._is_made = torch.zeros(len(images), dtype=torch.bool)

    @staticmethod
    def size(images, row):
        """Bytes that it takes."""
        return images.numel() + len(images) * row.numel() * row.element_size()

    def fits(self, images, row):
        return self._sources.shape == images.shape and self.rows.shape[1:] == row.shape and self.rows.dtype == row.dtype

    def provide(self, images, indices, make):
        """Makes the rows at a list of indices, as far as they are not those of the images: make(index) gives one. False
        if there is no image at one of them."""
        changed = poptorch_core.changed_images(images, self._sources, self._is_made, indices)
        for index in changed or ():
            source = images[index].clone()
            self.rows[index] = make(index)
            self._sources[index] = source
            self._is_made[index] = True
        return changed is not None
