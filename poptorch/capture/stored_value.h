// Fixed arguments of ATen ops as bytes, for host calls of programs on disk: numbers, texts, tensors on the host and
// lists of them.
#pragma once

#include <ATen/core/ivalue.h>

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "aspen/program_file/byte_stream.h"

namespace poptorch {

struct StoredTensor {
  enum class Kind : std::uint8_t { kAbsent, kUndefined, kTensor, kNumber };  // kNumber: written as a Python number
  Kind kind = Kind::kAbsent;
  std::int64_t type = 0;  // c10::ScalarType
  std::vector<std::int64_t> shape;
  std::vector<std::byte> bytes;
};

struct StoredValue {
  enum class Kind : std::uint8_t {
    kNone,
    kTensor,
    kInteger,
    kReal,
    kFlag,
    kComplex,
    kText,
    kDevice,
    kIntegers,
    kReals,
    kFlags,
    kTensors,
    kOptionalTensors,
  };
  Kind kind = Kind::kNone;
  std::vector<std::int64_t> integers;
  std::vector<double> reals;
  std::string text;
  std::vector<StoredTensor> tensors;
};

template <class Stream>
void visit(Stream& stream, StoredTensor& tensor) {
  stream.choice(tensor.kind, StoredTensor::Kind::kNumber);
  stream(tensor.type, tensor.shape, tensor.bytes);
}

template <class Stream>
void visit(Stream& stream, StoredValue& value) {
  stream.choice(value.kind, StoredValue::Kind::kOptionalTensors);
  stream(value.integers, value.reals, value.text, value.tensors);
}

// None: something that another process could not have, such as a generator of random numbers.
std::optional<StoredValue> stored_value(const c10::IValue& value);
c10::IValue restored_value(const StoredValue& stored);  // an aspen::FileError for what cannot be

// -- structs with a `visit` of their own ------------------------------------------------------------------------------
struct PlainWriter : aspen::ByteWriter<PlainWriter> {};
struct PlainReader : aspen::ByteReader<PlainReader> {
  using ByteReader::ByteReader;
};

template <class T>
std::vector<std::byte> bytes_of(T& fields) {
  PlainWriter writer;
  writer(fields);
  return writer.take();
}

template <class T>
T from_bytes(std::span<const std::byte> bytes) {
  T fields;
  PlainReader reader(bytes);
  reader(fields);
  reader.expect_end();
  return fields;
}

}  // namespace poptorch
