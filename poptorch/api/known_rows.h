// Rows of data sets that hold all their data in memory, for loaders that know what samples are made of.
#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <optional>
#include <vector>

namespace poptorch {

// An error that names the rule, unless it holds for the tensor.
void check_tensor(bool holds, const char* rule, const at::Tensor& tensor);

// Of the images at those places, those that are not marked as known, or not the same as before: where they are. Nothing
// if there is no image at one of the places. known: bool, one for each image.
std::optional<std::vector<std::int64_t>> changed_images(const at::Tensor& images, const at::Tensor& before,
                                                        const at::Tensor& known,
                                                        const std::vector<std::int64_t>& indices);

// Rows of a tensor, written to `rows` if given: contiguous, of that shape and type. Nothing if it does not have one of
// them.
std::optional<at::Tensor> picked_rows(const at::Tensor& tensor, const std::vector<std::int64_t>& indices,
                                      at::Tensor rows = {});

// Bytes that a data loader may hold of a data set: what ASPEN_LOADER_MEMORY says, 1G without it.
std::uint64_t loader_memory();

}  // namespace poptorch
