// Work on the host in programs on disk: ATen ops and registered operators by their names and arguments. Layers written
// in the language of the model exist in their process alone.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "aspen/program_file/program_fields.h"
#include "aspen/runtime/program.h"
#include "poptorch/capture/host_data.h"
#include "poptorch/capture/host_work.h"
#include "poptorch/capture/stored_value.h"

namespace poptorch {

// differentiable: the inputs whose gradients are asked for; none: the forward call.
std::optional<std::vector<std::byte>> stored_call(const HostWork& work,
                                                  const std::optional<std::vector<std::int64_t>>& differentiable);
std::vector<std::byte> stored_custom_op(std::vector<std::byte> call);

// The function again; an aspen::FileError for what cannot be, or needs a library that is not loaded.
std::shared_ptr<aspen::HostFunction> read_host_function(const std::string& name, std::span<const std::byte> stored);

// An aspen::FileError if a call on the host has other operands than its function expects.
void check_host_calls(const aspen::Program& program);

template <class Stream>
void visit(Stream& stream, Wire& wire) {
  auto type = static_cast<std::int64_t>(wire.torch_type);
  visit(stream, wire.type);
  stream(type);
  if constexpr (Stream::kReads) {
    const bool is_type = type >= 0 && type < static_cast<std::int64_t>(c10::ScalarType::NumOptions);
    const auto found = is_type ? static_cast<c10::ScalarType>(type) : c10::ScalarType::Undefined;
    if (!is_supported(found) && !c10::isComplexType(found)) throw aspen::FileError("a tensor has a type {}", type);
    wire.torch_type = found;
  }
}

}  // namespace poptorch
