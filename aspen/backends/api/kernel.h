// What a backend offers: kernels, made while a program is compiled and run many times without allocating. Kernels see
// pointers, types and attributes; never the compiler.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "aspen/base/attrs.h"
#include "aspen/base/tensor_type.h"

namespace aspen {

// The threads a device may use. Work is cut into chunks whose number and borders depend on shapes alone, never on the
// number of threads, so that the result is the same on every machine.
class ThreadTeam {
 public:
  virtual ~ThreadTeam() = default;
  virtual std::size_t num_threads() const = 0;
  // Calls work(0) .. work(num_chunks - 1), each once, on any thread of the team, and returns when all are done. The
  // first exception is thrown again. Not to be called from within itself.
  virtual void run(std::int64_t num_chunks, const std::function<void(std::int64_t chunk)>& work) = 0;
  // Asked from within work: which thread of the team this is, counted from 0. Less than the number of chunks, too.
  virtual std::size_t this_thread() const = 0;
};

// What is to be computed. An optional input that is absent has present == false. One that `stays` is a weight in
// inference, which the host alone writes: what a kernel packs of it can be expected to be packed once. That holds for
// an op wherever it is placed, so that a choice by it does, too.
struct KernelInput {
  TensorType type;
  bool present = true, stays = false;
  bool operator==(const KernelInput&) const = default;
};

// How half results are rounded: to the nearest unless there is a stream of random numbers for them.
struct Rounding {
  enum class Draws : std::uint8_t {
    kPerReplica,
    kShared,    // by all replicas
    kPerShard,  // the same as for the whole tensor, of which each replica has a shard
  };
  std::int64_t stream = 0;  // 0: none
  Draws draws = Draws::kPerReplica;
  bool operator==(const Rounding&) const = default;
};

struct KernelRequest {
  std::string op;
  Attrs attrs;
  std::vector<KernelInput> inputs;
  std::vector<TensorType> outputs;
  bool half_partials = false;  // long sums of half products may be kept in half
  Rounding rounding;           // other than to the nearest: make_kernel's business, not a backend's
  std::string candidate;       // which of Backend::candidates is to serve it; "": the one by rule
  bool operator==(const KernelRequest&) const = default;
};

// Where a run stands. Random ops derive their numbers from these and from their own stream id alone,
// so that the order in which ops run never shows in the result.
struct StepContext {
  std::uint64_t seed = 0;
  std::uint64_t step = 0;  // micro-batches since the program was loaded
  std::uint64_t replica = 0;
  std::uint64_t num_replicas = 1;
  ThreadTeam* team = nullptr;  // the threads of this device; nullptr: the calling one alone
};

struct KernelArgs {
  std::span<const void* const> inputs;  // nullptr for an absent optional input
  std::span<void* const> outputs;       // may equal an input where the op declares in-place use
  void* workspace = nullptr;            // 64-byte aligned, workspace_bytes() long
  const StepContext* step = nullptr;
  const void* packed = nullptr;  // what Kernel::pack has made of an operand; nullptr: run() makes it itself
};

// One kernel serves every instruction of a program that asks for the same, in every replica: run() is called by several
// threads at once, each with buffers and a workspace of its own, and what a kernel holds does not change by it.
class Kernel {
 public:
  virtual ~Kernel() = default;
  virtual std::size_t workspace_bytes() const { return 0; }
  // A kernel that brings an operand into an order of its own before it computes says which one, and what that takes.
  // Where the operand stays as it is from run to run it is packed once, into 64-byte aligned memory, and every run is
  // handed that; elsewhere run() packs, in its workspace. The result is the same.
  virtual std::size_t packed_bytes() const { return 0; }
  virtual std::size_t packed_input() const { return 1; }
  virtual void pack(const KernelArgs& args, void* packed) const {
    static_cast<void>(args);
    static_cast<void>(packed);
  }
  // Whether run() calls code that is not ours, which may start threads: it then gets the cpus of the whole process.
  virtual bool calls_host() const { return false; }
  // Makes whatever `num_threads` threads need to run the kernel at the same time, so that run() allocates nothing.
  virtual void reserve(std::size_t num_threads) const { static_cast<void>(num_threads); }
  virtual void run(const KernelArgs& args) const = 0;
};

// A request together with the pointers of one run: what a plain kernel function receives.
class KernelCall {
 public:
  KernelCall(const KernelRequest& request, const KernelArgs& args) : request_(request), args_(args) {}

  template <class A>
  const A& attrs() const {
    return request_.attrs.as<A>();
  }
  const KernelRequest& request() const { return request_; }
  std::size_t num_inputs() const { return request_.inputs.size(); }
  std::size_t num_outputs() const { return request_.outputs.size(); }
  bool has(std::size_t i) const { return i < request_.inputs.size() && request_.inputs[i].present; }
  const TensorType& in_type(std::size_t i) const { return request_.inputs[i].type; }
  const TensorType& out_type(std::size_t i) const { return request_.outputs[i]; }
  template <class T>
  const T* in(std::size_t i) const {
    return static_cast<const T*>(args_.inputs[i]);
  }
  template <class T>
  T* out(std::size_t i) const {
    return static_cast<T*>(args_.outputs[i]);
  }
  template <class T>
  T* workspace() const {
    return static_cast<T*>(args_.workspace);
  }
  const StepContext& step() const { return *args_.step; }

 private:
  const KernelRequest& request_;
  const KernelArgs& args_;
};

using KernelFunction = void (*)(const KernelCall& call);
using WorkspaceFunction = std::size_t (*)(const KernelRequest& request);

// Makes a kernel for the request, or returns nullptr to decline; `why` then says the reason.
using KernelFactory = std::function<std::unique_ptr<Kernel>(const KernelRequest& request, std::string& why)>;

// Of a plain function: never declines.
KernelFactory plain_kernel(KernelFunction function, WorkspaceFunction workspace = nullptr);

// How a kernel would do, by rule.
enum class Fit : std::uint8_t {
  kNone,   // it cannot compute what is asked for
  kPoor,   // surely slower than another
  kClose,  // about as fast as the best: which is faster depends on the machine
  kBest,
};

struct Opinion {
  Fit fit = Fit::kNone;
  const char* why = "";
};

struct CandidateOpinion {
  std::string name;  // of the candidate
  Fit fit = Fit::kNone;
  std::string why;
};

class CandidateList;

// An ordered list of factories per op: the first that does not decline is taken.
class KernelRegistry {
 public:
  void add(std::string_view op, KernelFactory factory);
  void add(std::string_view op, KernelFunction function, WorkspaceFunction workspace = nullptr);
  // What the factories of the op choose from, for opinions(); see candidates.h.
  void set_candidates(std::string_view op, std::shared_ptr<const CandidateList> candidates);

  std::unique_ptr<Kernel> create(const KernelRequest& request, std::string& why) const;
  bool has(std::string_view op) const { return factories_.find(op) != factories_.end(); }
  std::vector<CandidateOpinion> opinions(const KernelRequest& request) const;
  KernelRequest decisive(const KernelRequest& request) const;

 private:
  std::map<std::string, std::vector<KernelFactory>, std::less<>> factories_;
  std::map<std::string, std::shared_ptr<const CandidateList>, std::less<>> candidates_;
};

// A kind of device. Concrete backends are made by functions declared beside them.
class Backend {
 public:
  virtual ~Backend() = default;
  virtual std::string name() const = 0;
  // Equal where kernels for the same request compute the same bits in the same workspace: "cpu, avx512, oneDNN 2.6.3".
  virtual std::string fingerprint() const { return name(); }
  // Never nullptr: a request no kernel takes is a UserError that lists the reasons. Called by several threads at once.
  virtual std::unique_ptr<Kernel> create_kernel(const KernelRequest& request) const = 0;
  // Kernels among which a request may choose by name, in the order of the rule; none: there is no choice.
  virtual std::vector<CandidateOpinion> candidates(const KernelRequest& request) const {
    static_cast<void>(request);
    return {};
  }
  // The request whose choice holds for this one too: that of an op which others were fused into. Whether they were may
  // depend on the placement, so the choice, and with it the bits, must not depend on them.
  virtual KernelRequest decisive(const KernelRequest& request) const { return request; }
};

std::string to_string(const KernelRequest& request);  // "softmax(f32[8, 16]) -> f32[8, 16] {axis=-1}"

}  // namespace aspen
