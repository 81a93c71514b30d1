#include "aspen/compiler/make_kernels.h"

#include <algorithm>
#include <atomic>
#include <thread>
#include <unordered_map>

#include "aspen/compiler/make_kernel.h"
#include "aspen/runtime/cpu_share.h"

namespace aspen {
namespace {

// Fewer kernels than this are made before a thread has begun.
constexpr std::size_t kFewestPerThread = 8;

struct RequestHash {
  std::size_t operator()(const KernelRequest* request) const {
    std::size_t hash = std::hash<std::string>()(request->op) ^ request->attrs.hash();
    const auto add = [&](std::size_t number) { hash = hash * 0x9E3779B97F4A7C15u + number; };
    const auto add_type = [&](const TensorType& type) {
      add(static_cast<std::size_t>(type.dtype));
      for (std::int64_t extent : type.shape) add(static_cast<std::size_t>(extent));
    };
    for (const KernelInput& input : request->inputs) {
      input.present ? add_type(input.type) : add(1);
      add(input.stays ? 1 : 0);
    }
    for (const TensorType& output : request->outputs) add_type(output);
    add(request->half_partials ? 1 : 0);
    add(static_cast<std::size_t>(request->rounding.stream));
    add(std::hash<std::string>()(request->candidate));
    return hash;
  }
};

struct RequestEqual {
  bool operator()(const KernelRequest* a, const KernelRequest* b) const { return *a == *b; }
};

KernelOrError make(const KernelRequest& request, const Backend& backend) {
  try {
    return {.kernel = make_kernel(request, backend), .error = nullptr};
  } catch (...) {
    return {.kernel = nullptr, .error = std::current_exception()};
  }
}

std::vector<KernelOrError> make_each(const std::vector<const KernelRequest*>& requests, const Backend& backend) {
  std::vector<KernelOrError> made(requests.size());
  std::atomic<std::size_t> next = 0;
  const auto work = [&] {
    for (std::size_t i = next++; i < requests.size(); i = next++) made[i] = make(*requests[i], backend);
  };
  std::size_t num_threads = requests.size() / kFewestPerThread;
  if (num_threads > 1) num_threads = std::min(num_threads, usable_cpus(0).cpus.size());
  std::vector<std::jthread> helpers;
  for (std::size_t i = 1; i < num_threads; ++i) helpers.emplace_back(work);
  work();
  helpers.clear();  // waits for them
  return made;
}

}  // namespace

MadeKernels make_kernels(const std::vector<const KernelRequest*>& requests, const Backend& backend) {
  std::unordered_map<const KernelRequest*, std::size_t, RequestHash, RequestEqual> indices;
  std::vector<const KernelRequest*> distinct;
  std::vector<std::size_t> index_of;  // among the distinct ones, by request
  for (const KernelRequest* request : requests) {
    auto [found, is_new] = indices.emplace(request, distinct.size());
    if (is_new) distinct.push_back(request);
    index_of.push_back(found->second);
  }
  const std::vector<KernelOrError> made = make_each(distinct, backend);
  MadeKernels result{.of_request = {}, .num_made = distinct.size()};
  for (std::size_t index : index_of) result.of_request.push_back(made[index]);
  return result;
}

}  // namespace aspen
