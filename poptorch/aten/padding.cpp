// Padding. `pad` lists pairs (before, after) from the last axis backwards; negative amounts crop.
#include <limits>

#include "poptorch/aten/support/expression.h"

namespace poptorch {
namespace {

void check_amounts(Expr x, const std::vector<std::int64_t>& amounts) {
  if (amounts.size() % 2 == 0 && amounts.size() <= 2 * x.shape().size()) return;
  throw UserError("[pad] {} amounts do not fit shape {}; expected two per padded axis, from the last axis on.",
                  amounts.size(), to_string(x.shape()));
}

Expr pad_constant(Expr x, const std::vector<std::int64_t>& amounts, double value) {
  check_amounts(x, amounts);
  Shape low(x.shape().size(), 0), high(x.shape().size(), 0);
  for (std::size_t i = 0; i < amounts.size() / 2; ++i) {
    std::size_t axis = x.shape().size() - 1 - i;
    low[axis] = amounts[2 * i];
    high[axis] = amounts[2 * i + 1];
    if (x.shape()[axis] + low[axis] + high[axis] < 0) {
      throw UserError("[pad] {} and {} crop more than axis {} of shape {} has.", low[axis], high[axis], axis,
                      to_string(x.shape()));
    }
  }
  return pad(x, low, high, value);
}

// Which element of an axis stands at position i, where i may lie outside it.
std::int64_t reflected(std::int64_t i, std::int64_t size) {
  if (i < 0) i = -i;
  return i >= size ? 2 * (size - 1) - i : i;
}
std::int64_t replicated(std::int64_t i, std::int64_t size) { return std::clamp<std::int64_t>(i, 0, size - 1); }
std::int64_t wrapped(std::int64_t i, std::int64_t size) { return (i % size + size) % size; }

// What negative amounts leave of every axis.
Expr cropped(Expr x, const std::vector<std::int64_t>& amounts) {
  check_amounts(x, amounts);
  for (std::size_t i = 0; i < amounts.size() / 2; ++i) {
    std::int64_t axis = x.rank() - 1 - static_cast<std::int64_t>(i), size = x.size(axis);
    std::int64_t start = std::max<std::int64_t>(-amounts[2 * i], 0);
    std::int64_t end = size - std::max<std::int64_t>(-amounts[2 * i + 1], 0);
    if (start >= end) {
      throw UserError("[pad] {} and {} crop all of axis {} of shape {}.", amounts[2 * i], amounts[2 * i + 1], axis,
                      to_string(x.shape()));
    }
    x = slice(x, axis, start, end);
  }
  return x;
}

using Source = std::int64_t (*)(std::int64_t, std::int64_t);

// Elements outside are copies of elements inside.
Expr pad_by_copies(Expr x, const std::vector<std::int64_t>& amounts, Source source, std::int64_t limit_below_size) {
  check_amounts(x, amounts);
  PlacesByAxis places;
  for (std::size_t i = 0; i < amounts.size() / 2; ++i) {
    std::int64_t axis = x.rank() - 1 - static_cast<std::int64_t>(i), size = x.size(axis);
    std::int64_t low = amounts[2 * i], high = amounts[2 * i + 1];
    if (low == 0 && high == 0) continue;
    if (std::max(low, high) > size - limit_below_size) {
      throw UserError("[pad] {} and {} are more than axis {} of size {} can give; at most {} in this mode.", low, high,
                      axis, size, size - limit_below_size);
    }
    std::vector<std::int64_t>& along = places[axis];
    for (std::int64_t place = -low; place < size + high; ++place) along.push_back(source(place, size));
  }
  return remap(x, places);
}

constexpr std::int64_t kNoLimit = -(std::int64_t{1} << 60);

Expr pad_mode(Expr x, const std::vector<std::int64_t>& amounts, const std::string& mode, double value) {
  if (mode == "constant") return pad_constant(x, amounts, value);
  if (mode == "reflect") return pad_by_copies(x, amounts, reflected, 1);
  if (mode == "replicate") return pad_by_copies(x, amounts, replicated, kNoLimit);
  if (mode == "circular") {  // around what negative amounts leave
    std::vector<std::int64_t> around = amounts;
    for (std::int64_t& amount : around) amount = std::max<std::int64_t>(amount, 0);
    return pad_by_copies(cropped(x, amounts), around, wrapped, 0);
  }
  throw UserError("[pad] unknown mode \"{}\"; the modes are constant, reflect, replicate and circular.", mode);
}

// pad(Tensor self, int[] pad, str mode="constant", float? value=None)
void pad_of(Call& call) {
  Expr x = expr(call, call.value("self"));
  call.result(pad_mode(x, call.integers("pad"), call.text("mode"), number_or(call, "value", 0)).v, call.dtype("self"));
}

// _pad_enum(Tensor self, int[] pad, int mode, float? value=None)
void pad_enum(Call& call) {
  static const char* const kModes[] = {"reflect", "replicate", "circular", "constant"};
  Expr x = expr(call, call.value("self"));
  call.result(pad_mode(x, call.integers("pad"), kModes[call.integer("mode") & 3], number_or(call, "value", 0)).v,
              call.dtype("self"));
}

// constant_pad_nd(Tensor self, int[] pad, Scalar value=0)
void constant_pad(Call& call) {
  call.result(pad_constant(expr(call, call.value("self")), call.integers("pad"), call.number("value")).v,
              call.dtype("self"));
}

// reflection_pad1d(Tensor self, int[2] padding), replication_pad1d(...), ...
Handler fixed_mode(const char* argument, const char* mode) {
  return [argument, mode](Call& call) {
    call.result(pad_mode(expr(call, call.value("self")), call.integers(argument), mode, 0).v, call.dtype("self"));
  };
}

}  // namespace

void register_padding(HandlerTable& table) {
  table.add("aten::pad", pad_of);
  table.add("aten::_pad_enum", pad_enum);
  table.add("aten::constant_pad_nd", constant_pad);
  table.add("aten::_pad_circular", fixed_mode("pad", "circular"));
  for (const char* axes : {"1d", "2d", "3d"}) {
    table.add(std::string("aten::reflection_pad") + axes, fixed_mode("padding", "reflect"));
    table.add(std::string("aten::replication_pad") + axes, fixed_mode("padding", "replicate"));
  }
}

}  // namespace poptorch
