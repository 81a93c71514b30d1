// Tensors in .npy files, as numpy.save writes them: little-endian, row-major.
#pragma once

#include <cstddef>
#include <filesystem>
#include <optional>
#include <vector>

#include "aspen/base/tensor_type.h"

namespace aspen {

struct Array {
  TensorType type;
  std::vector<std::byte> bytes;
};

// Errors name the file and what is wrong with it.
// float64 becomes float32, as everywhere in Aspen.
Array read_npy(const std::filesystem::path& file);
// numpy has no bfloat16: such numbers are written as float32, which holds them exactly.
void write_npy(const std::filesystem::path& file, const Array& array);

// float32 as float16 or bfloat16, rounded to the nearest; int64 as int32, where a number that does not fit is an error,
// and int32 as int64. Any other change of type is nothing.
std::optional<Array> converted(const Array& array, DType type, const std::filesystem::path& file);

}  // namespace aspen
