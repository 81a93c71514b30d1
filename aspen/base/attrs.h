// Attributes of an op: a plain struct that lists its fields once, in `visit`. From that one list come
// printing, parsing, comparison and hashing.
//
//   struct SoftmaxAttrs {
//     std::int64_t axis = -1;
//     void visit(AttrVisitor& v) { v("axis", axis); }
//   };
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <typeinfo>
#include <vector>

#include "aspen/base/dtype.h"
#include "aspen/base/error.h"

namespace aspen {

// Bytes of a constant, shared between graphs that copy it.
struct Blob {
  std::shared_ptr<const std::vector<std::byte>> bytes;
};

// Work the core cannot do itself, run on the host in the middle of a program (see ops/host_call).
// The front end implements it; the core knows only its name.
class HostFunction {
 public:
  virtual ~HostFunction() = default;
  virtual std::string name() const = 0;
  virtual void run(std::span<const void* const> inputs, std::span<void* const> outputs) = 0;
  // What another process needs to make the same function again, if one can; see aspen/program_file.
  virtual std::optional<std::vector<std::byte>> stored() const { return std::nullopt; }
};

class Op;
class Value;

// A gradient that only the front end knows: that of a function with a backward pass of its own, or a change a hook
// makes (see ops/gradient). It adds to the graph while the graph is differentiated.
class CustomGradient {
 public:
  virtual ~CustomGradient() = default;
  virtual std::string name() const = 0;
  // One gradient per input of `op` (nullptr: none flows), given those that arrive at its outputs (nullptr: none does);
  // of an op without outputs, at its inputs.
  virtual std::vector<Value*> run(const Op& op, const std::vector<Value*>& arriving) = 0;
};

// A graph that an op owns: what a loop repeats, a branch that may be taken (see ops/control). It does not change any
// more, and copies of the op share it. Implemented by Graph, which attributes do not know.
class OwnedGraph {
 public:
  virtual ~OwnedGraph() = default;
  // `indent`: of the lines after the first.
  virtual std::string text(std::size_t indent) const = 0;
  virtual std::size_t hash() const = 0;
  virtual bool equals(const OwnedGraph& other) const = 0;  // computes the same, whatever its values are called
};
using Body = std::shared_ptr<const OwnedGraph>;

class AttrVisitor {
 public:
  virtual ~AttrVisitor() = default;
  virtual void operator()(const char* name, std::int64_t& field) = 0;
  virtual void operator()(const char* name, double& field) = 0;
  virtual void operator()(const char* name, bool& field) = 0;
  virtual void operator()(const char* name, DType& field) = 0;
  virtual void operator()(const char* name, std::string& field) = 0;
  virtual void operator()(const char* name, std::vector<std::int64_t>& field) = 0;
  virtual void operator()(const char* name, std::vector<double>& field) = 0;
  virtual void operator()(const char* name, Blob& field) = 0;
  virtual void operator()(const char* name, std::shared_ptr<HostFunction>& field) = 0;
  virtual void operator()(const char* name, std::shared_ptr<CustomGradient>& field) = 0;
  virtual void operator()(const char* name, Body& field) = 0;
};

// Takes no notice of the fields: for visitors that look at a few kinds only.
class PartialAttrVisitor : public AttrVisitor {
 public:
  void operator()(const char*, std::int64_t&) override {}
  void operator()(const char*, double&) override {}
  void operator()(const char*, bool&) override {}
  void operator()(const char*, DType&) override {}
  void operator()(const char*, std::string&) override {}
  void operator()(const char*, std::vector<std::int64_t>&) override {}
  void operator()(const char*, std::vector<double>&) override {}
  void operator()(const char*, Blob&) override {}
  void operator()(const char*, std::shared_ptr<HostFunction>&) override {}
  void operator()(const char*, std::shared_ptr<CustomGradient>&) override {}
  void operator()(const char*, Body&) override {}
};

struct NoAttrs {
  void visit(AttrVisitor&) {}
};

// Any attribute struct, by value and immutable.
class Attrs {
 public:
  Attrs() : Attrs(of(NoAttrs{})) {}

  template <class T>
  static Attrs of(T value) {
    return Attrs(std::make_shared<const Holder<T>>(std::move(value)));
  }

  template <class T>
  const T& as() const {
    const auto* holder = dynamic_cast<const Holder<T>*>(holder_.get());
    if (holder == nullptr) throw InternalError("attributes are {}, not {}", holder_->type().name(), typeid(T).name());
    return holder->value;
  }

  // Shows a copy of the struct to the visitor and returns the copy: a parsing visitor may fill it.
  Attrs visited(AttrVisitor& visitor) const { return Attrs(holder_->visited(visitor)); }

  // "{axis=-1}", "" when there are no fields; `indent` is that of the line it is to stand in.
  std::string to_string(std::size_t indent = 0) const;
  bool operator==(const Attrs& other) const;  // same struct, same fields; functions are equal only to themselves
  // Of every field, the bytes of constants included; computed once. Equal attributes have equal hashes.
  std::size_t hash() const;

 private:
  struct HolderBase {
    virtual ~HolderBase() = default;
    virtual std::shared_ptr<const HolderBase> visited(AttrVisitor&) const = 0;
    virtual const std::type_info& type() const = 0;
    mutable std::atomic<std::size_t> hash{0};  // 0: not known yet
  };

  template <class T>
  struct Holder final : HolderBase {
    explicit Holder(T v) : value(std::move(v)) {}
    std::shared_ptr<const HolderBase> visited(AttrVisitor& visitor) const override {
      T copy = value;
      copy.visit(visitor);
      return std::make_shared<const Holder<T>>(std::move(copy));
    }
    const std::type_info& type() const override { return typeid(T); }
    T value;
  };

  explicit Attrs(std::shared_ptr<const HolderBase> holder) : holder_(std::move(holder)) {}

  std::shared_ptr<const HolderBase> holder_;
};

}  // namespace aspen
