// What the kernels share of oneDNN: the engine, a primitive on one thread, and its arguments. A primitive is made
// when a kernel is made; running one binds pointers and executes, with scratch memory from the kernel's workspace, so
// that several threads may run it at once, each with scratch memory of its own. Nothing is allocated by that but what
// dnnl_primitive_execute itself takes for a table of its arguments.
#pragma once

#include <cstddef>
#include <initializer_list>
#include <memory>
#include <string>
#include <vector>

#include <dnnl.hpp>

#include "aspen/base/tensor_type.h"

namespace aspen::onednn {

using Dims = dnnl::memory::dims;
using Tag = dnnl::memory::format_tag;
using Desc = dnnl::memory::desc;
// The first call holds oneDNN to the instruction set that ASPEN_CPU_ISA names (see isa.h), and off the tile
// instructions where they fault.
const dnnl::engine& engine();
// Whether oneDNN has instructions for products of bfloat16, which add up in float32. They take denormals for 0. Not
// where ASPEN_CPU_ISA names an instruction set: all of those came before.
bool multiplies_bfloat16();
// "oneDNN 2.6.3 with 0x7ff": primitives are equal where version and instructions are.
std::string fingerprint();

// Kernels deal chunks out to the threads of a device themselves (see chunks.h), and oneDNN splits work by the thread
// count it finds both when a primitive is made and when it runs. While this object lives, OpenMP counts one thread for
// the calling thread; afterwards its setting is as before, so that the threads of PyTorch in the same process are not
// touched.
class OneThread {
 public:
  OneThread();
  ~OneThread();
  OneThread(const OneThread&) = delete;
  OneThread& operator=(const OneThread&) = delete;

 private:
  int before_;
};

// Arithmetic of the types of the operands only (an environment variable could ask oneDNN to round float32 to bfloat16)
// and scratch memory given by the caller.
dnnl::primitive_attr attributes();

// Plain row-major layout of a tensor, or of a view of it with the given strides. float32 or bfloat16.
Desc plain(const Dims& dims, DType type = DType::kF32);
Desc strided(const Dims& dims, const Dims& strides, DType type = DType::kF32);
Desc any_layout(const Dims& dims, DType type = DType::kF32);

struct Parameter {
  int index;  // DNNL_ARG_...
  Desc desc;
};

// A primitive and what it takes to run it.
class Primitive {
 public:
  Primitive() = default;
  Primitive(dnnl::primitive primitive, std::size_t scratch_bytes, const std::vector<Parameter>& parameters);

  template <class Made>
  static Primitive of(const typename Made::primitive_desc& desc, const std::vector<Parameter>& parameters) {
    return Primitive(Made(desc), desc.scratchpad_desc().get_size(), parameters);
  }
  // A copy between layouts.
  static Primitive reorder(const Desc& from, const Desc& to);

  std::size_t scratch_bytes() const { return scratch_bytes_; }
  // Makes what so many runs at the same time need; what is missing is made by the run that misses it.
  void reserve(std::size_t num_runs) const;
  // data: per parameter, in the same order.
  void run(std::initializer_list<const void*> data, void* scratch) const;

 private:
  class Bindings;
  struct Delete {
    void operator()(Bindings* bindings) const;
  };

  dnnl::primitive primitive_;
  std::size_t scratch_bytes_ = 0;
  std::unique_ptr<Bindings, Delete> bindings_;
};

// Hands out aligned pieces of a workspace; on a null base it only counts.
class Workspace {
 public:
  explicit Workspace(void* base = nullptr) : base_(static_cast<std::byte*>(base)) {}
  template <class T = void>
  T* take(std::size_t bytes) {
    std::byte* at = base_ == nullptr ? nullptr : base_ + used_;
    used_ += (bytes + 63) / 64 * 64;
    return reinterpret_cast<T*>(at);
  }
  std::size_t used() const { return used_; }

 private:
  std::byte* base_;
  std::size_t used_ = 0;
};

}  // namespace aspen::onednn
