// Attributes of ops without inputs.
#pragma once

#include "aspen/base/attrs.h"

namespace aspen {

// full: every element is `value`.
struct FullAttrs {
  DType dtype = DType::kF32;
  std::vector<std::int64_t> shape;
  double value = 0;

  void visit(AttrVisitor& v) {
    v("dtype", dtype);
    v("shape", shape);
    v("value", value);
  }
};

// iota: start + i * step, one dimension.
struct IotaAttrs {
  DType dtype = DType::kI32;
  std::int64_t size = 0;
  double start = 0;
  double step = 1;

  void visit(AttrVisitor& v) {
    v("dtype", dtype);
    v("size", size);
    v("start", start);
    v("step", step);
  }
};

// constant: bytes known while compiling.
struct ConstantAttrs {
  DType dtype = DType::kF32;
  std::vector<std::int64_t> shape;
  Blob data;  // contiguous, row major

  void visit(AttrVisitor& v) {
    v("dtype", dtype);
    v("shape", shape);
    v("data", data);
  }
};

}  // namespace aspen
