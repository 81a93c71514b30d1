// A program as bytes, and back: everything but its kernels, which are made again. See docs/program-format.md.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "aspen/program_file/byte_stream.h"
#include "aspen/program_file/program_check.h"
#include "aspen/runtime/program.h"

namespace aspen {

// A function on the host by what HostFunction::stored() said of it; nullptr or an error if there is no such function.
using HostFunctionReader =
    std::function<std::shared_ptr<HostFunction>(const std::string& name, std::span<const std::byte> stored)>;

// A UserError names what cannot be stored: a function that exists in this process alone.
std::vector<std::byte> encode_program(const Program& program);

// FileError: the bytes are no program that this backend could run within these limits. Reading takes memory in
// proportion to the bytes. Nothing the program does can then reach outside of its buffers: every place is checked
// against what it belongs to, and every op against its own rules.
std::unique_ptr<Program> decode_program(std::span<const std::byte> bytes, const Backend& backend,
                                        const HostFunctionReader& host_functions, const ProgramLimits& limits = {});

// A number that tells apart builds whose ops have other names or attributes, which read each other's programs wrongly.
std::uint64_t op_set();

}  // namespace aspen
