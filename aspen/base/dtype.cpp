#include "aspen/base/dtype.h"

#include <array>

#include "aspen/base/error.h"

namespace aspen {
namespace {

struct Row {
  std::string_view name;
  std::size_t bytes;
};

constexpr std::array<Row, kNumDTypes> kRows{{
    {"f32", 4},
    {"f16", 2},
    {"bf16", 2},
    {"f64", 8},
    {"i32", 4},
    {"i16", 2},
    {"i8", 1},
    {"u8", 1},
    {"bool", 1},
    {"i64", 8},
}};

}  // namespace

std::size_t size_of(DType type) { return kRows[static_cast<std::size_t>(type)].bytes; }

std::string_view name_of(DType type) { return kRows[static_cast<std::size_t>(type)].name; }

DType dtype_from_name(std::string_view name) {
  for (std::size_t i = 0; i < kRows.size(); ++i) {
    if (kRows[i].name == name) return static_cast<DType>(i);
  }
  throw UserError("unknown element type \"{}\"; the types are f32, f16, bf16, f64, i32, i16, i8, u8, bool, i64.", name);
}

void fail_not_arithmetic(DType type) { throw InternalError("a kernel was called with {}", name_of(type)); }

void fail_not_floating(DType type) { throw InternalError("a floating point kernel was called with {}", name_of(type)); }

}  // namespace aspen
