#include "poptorch/capture/stored_value.h"

#include <ATen/core/List.h>
#include <ATen/ops/empty.h>

#include <cstring>

namespace poptorch {
namespace {

using Kind = StoredValue::Kind;

std::optional<StoredTensor> stored_tensor(const at::Tensor& tensor) {
  if (!tensor.defined()) return StoredTensor{.kind = StoredTensor::Kind::kUndefined};
  if (!tensor.device().is_cpu() || tensor.layout() != c10::kStrided || tensor.is_quantized()) return std::nullopt;
  const at::Tensor exact = tensor.detach().resolve_conj().resolve_neg().contiguous();
  const bool is_number = tensor.unsafeGetTensorImpl()->is_wrapped_number();
  StoredTensor stored{.kind = is_number ? StoredTensor::Kind::kNumber : StoredTensor::Kind::kTensor,
                      .type = static_cast<std::int64_t>(tensor.scalar_type()),
                      .shape = tensor.sizes().vec()};
  const auto* first = static_cast<const std::byte*>(exact.data_ptr());
  stored.bytes.assign(first, first + exact.nbytes());
  return stored;
}

// Whether torch can hold elements of this type in plain memory.
bool is_plain(std::int64_t type) {
  if (type < 0 || type >= static_cast<std::int64_t>(c10::ScalarType::NumOptions)) return false;
  const auto scalar = static_cast<c10::ScalarType>(type);
  return !c10::isQIntType(scalar) && scalar != c10::ScalarType::Undefined;
}

at::Tensor restored_tensor(const StoredTensor& stored) {
  if (stored.kind == StoredTensor::Kind::kUndefined) return {};
  if (!is_plain(stored.type)) throw aspen::FileError("a tensor has a type {}", stored.type);
  const auto type = static_cast<c10::ScalarType>(stored.type);
  std::uint64_t bytes = c10::elementSize(type);
  for (const std::int64_t extent : stored.shape) {
    if (extent < 0 || (extent > 0 && bytes > stored.bytes.size() / static_cast<std::uint64_t>(extent))) {
      throw aspen::FileError("a tensor has an extent of {} and {} bytes", extent, stored.bytes.size());
    }
    bytes *= static_cast<std::uint64_t>(extent);
  }
  if (bytes != stored.bytes.size()) throw aspen::FileError("a tensor has {} bytes, not {}", stored.bytes.size(), bytes);
  at::Tensor tensor = at::empty(stored.shape, type);
  if (bytes > 0) std::memcpy(tensor.data_ptr(), stored.bytes.data(), bytes);
  if (stored.kind == StoredTensor::Kind::kNumber) {
    if (tensor.dim() != 0) throw aspen::FileError("a number has {} dimensions", tensor.dim());
    tensor.unsafeGetTensorImpl()->set_wrapped_number(true);
  }
  return tensor;
}

std::optional<StoredValue> stored_tensors(Kind kind, const std::vector<c10::optional<at::Tensor>>& tensors) {
  StoredValue stored{.kind = kind};
  for (const auto& tensor : tensors) {
    std::optional<StoredTensor> one = tensor ? stored_tensor(*tensor) : StoredTensor{};
    if (!one) return std::nullopt;
    stored.tensors.push_back(std::move(*one));
  }
  return stored;
}

template <class T>
const T& only(const std::vector<T>& items) {
  if (items.size() != 1) throw aspen::FileError("an argument has {} values where one is wanted", items.size());
  return items[0];
}

c10::IValue restored_tensors(const StoredValue& stored) {
  if (stored.kind == Kind::kTensor) return restored_tensor(only(stored.tensors));
  if (stored.kind == Kind::kTensors) {
    c10::List<at::Tensor> list;
    for (const StoredTensor& tensor : stored.tensors) list.push_back(restored_tensor(tensor));
    return list;
  }
  c10::List<c10::optional<at::Tensor>> list;
  for (const StoredTensor& tensor : stored.tensors) {
    const bool is_absent = tensor.kind == StoredTensor::Kind::kAbsent;
    list.push_back(is_absent ? c10::optional<at::Tensor>() : restored_tensor(tensor));
  }
  return list;
}

c10::Device restored_device(const std::string& text) {
  try {
    return c10::Device(text);
  } catch (const c10::Error&) {
    throw aspen::FileError("there is no device \"{}\"", text);
  }
}

}  // namespace

std::optional<StoredValue> stored_value(const c10::IValue& value) {
  if (value.isNone()) return StoredValue{};
  if (value.isTensor()) return stored_tensors(Kind::kTensor, {value.toTensor()});
  if (value.isInt()) return StoredValue{.kind = Kind::kInteger, .integers = {value.toInt()}};
  if (value.isDouble()) return StoredValue{.kind = Kind::kReal, .reals = {value.toDouble()}};
  if (value.isBool()) return StoredValue{.kind = Kind::kFlag, .integers = {value.toBool() ? 1 : 0}};
  if (value.isComplexDouble()) {
    const auto number = value.toComplexDouble();
    return StoredValue{.kind = Kind::kComplex, .reals = {number.real(), number.imag()}};
  }
  if (value.isString()) return StoredValue{.kind = Kind::kText, .text = value.toStringRef()};
  if (value.isDevice()) return StoredValue{.kind = Kind::kDevice, .text = value.toDevice().str()};
  if (value.isIntList()) return StoredValue{.kind = Kind::kIntegers, .integers = value.toIntVector()};
  if (value.isDoubleList()) return StoredValue{.kind = Kind::kReals, .reals = value.toDoubleVector()};
  if (value.isBoolList()) {
    StoredValue stored{.kind = Kind::kFlags};
    for (const bool flag : value.toBoolList()) stored.integers.push_back(flag ? 1 : 0);
    return stored;
  }
  if (value.isTensorList()) {
    const std::vector<at::Tensor> tensors = value.toTensorVector();
    return stored_tensors(Kind::kTensors, {tensors.begin(), tensors.end()});
  }
  if (value.isOptionalTensorList()) return stored_tensors(Kind::kOptionalTensors, value.toOptionalTensorVector());
  return std::nullopt;
}

c10::IValue restored_value(const StoredValue& stored) {
  switch (stored.kind) {
    case Kind::kNone: return {};
    case Kind::kInteger: return only(stored.integers);
    case Kind::kReal: return only(stored.reals);
    case Kind::kFlag: return only(stored.integers) != 0;
    case Kind::kComplex:
      if (stored.reals.size() != 2) throw aspen::FileError("a complex number has {} parts", stored.reals.size());
      return c10::complex<double>(stored.reals[0], stored.reals[1]);
    case Kind::kText: return stored.text;
    case Kind::kDevice: return restored_device(stored.text);
    case Kind::kIntegers: return stored.integers;
    case Kind::kReals: return stored.reals;
    case Kind::kFlags: {
      c10::List<bool> flags;
      for (const std::int64_t flag : stored.integers) flags.push_back(flag != 0);
      return flags;
    }
    case Kind::kTensor:
    case Kind::kTensors:
    case Kind::kOptionalTensors: break;
  }
  return restored_tensors(stored);
}

}  // namespace poptorch
