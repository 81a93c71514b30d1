// Tensors in .npy files, as numpy.save writes them: little-endian, row-major.
#pragma once

#include <cstddef>
#include <filesystem>
#include <vector>

#include "aspen/base/tensor_type.h"

namespace aspen {

struct Array {
  TensorType type;
  std::vector<std::byte> bytes;
};

// int64 and float64 become int32 and float32, as everywhere in Aspen; an integer that does not fit is an error.
Array read_npy(const std::filesystem::path& file);
void write_npy(const std::filesystem::path& file, const Array& array);

}  // namespace aspen
