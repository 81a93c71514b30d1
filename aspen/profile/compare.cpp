#include "aspen/profile/compare.h"

#include <algorithm>
#include <cmath>
#include <map>
#include <tuple>

#include "aspen/profile/enum_names.h"
#include "aspen/profile/json_writer.h"

namespace aspen::profile {

// Found by the writer where the structs are.
template <class Stream>
void visit(Stream& stream, NumberChange& row) {
  stream("name", row.name)("unit", row.unit)("before", row.before)("after", row.after);
  stream("more_is_better", row.more_is_better);
}

template <class Stream>
void visit(Stream& stream, OpChange& row) {
  stream("name", row.name)("module", row.module)("pass", row.pass)("before", row.before)("after", row.after);
}

template <class Stream>
void visit(Stream& stream, BufferChange& row) {
  stream("name", row.name)("kind", row.kind)("before", row.before)("after", row.after);
}

template <class Stream>
void visit(Stream& stream, OptionChange& row) {
  stream("name", row.name)("before", row.before)("after", row.after);
}

template <class Stream>
void visit(Stream& stream, Comparison& comparison) {
  stream("numbers", comparison.numbers)("ops", comparison.ops)("buffers", comparison.buffers);
  stream("options", comparison.options);
}

namespace {

constexpr std::size_t kMostRows = 100;

struct Pair {
  double before = 0, after = 0;
};

// By key, what both runs have of it.
template <class Key>
using Pairs = std::map<Key, Pair>;

using OpKey = std::tuple<std::string, std::string, std::string>;
using BufferKey = std::tuple<std::string, std::string>;

void add_ops(const Profile& profile, double Pair::*side, Pairs<OpKey>& pairs) {
  const double iterations =
      static_cast<double>(profile.run.device_iterations) * static_cast<double>(profile.calls.size());
  if (iterations == 0) return;
  for (const Op& op : profile.ops) {
    pairs[{op.name, op.module, std::string(to_string(op.pass))}].*side += static_cast<double>(op.duration) / iterations;
  }
}

void add_buffers(const Profile& profile, double Pair::*side, Pairs<BufferKey>& pairs) {
  for (const Buffer& buffer : profile.memory.buffers) {
    if (buffer.on_host) continue;
    pairs[{buffer.name, std::string(to_string(buffer.kind))}].*side +=
        static_cast<double>(buffer.bytes * buffer.copies);
  }
}

// The rows whose difference is more than `least`, largest first.
template <class Key>
std::vector<std::pair<Key, Pair>> largest(const Pairs<Key>& pairs, double least) {
  std::vector<std::pair<Key, Pair>> rows;
  for (const auto& row : pairs) {
    if (std::abs(row.second.after - row.second.before) > least) rows.emplace_back(row);
  }
  std::stable_sort(rows.begin(), rows.end(), [](const auto& a, const auto& b) {
    return std::abs(a.second.after - a.second.before) > std::abs(b.second.after - b.second.before);
  });
  if (rows.size() > kMostRows) rows.resize(kMostRows);
  return rows;
}

std::vector<NumberChange> numbers(const Profile& before, const Profile& after) {
  const auto peak = [](const Profile& profile) {
    std::int64_t result = 0;
    for (const DeviceUse& use : profile.analysis.memory) result = std::max(result, use.peak);
    return static_cast<double>(result);
  };
  const Analysis &a = before.analysis, &b = after.analysis;
  return {
      {"Step time", "ns", static_cast<double>(a.iteration), static_cast<double>(b.iteration), false},
      {"Throughput", "samples/s", a.samples_per_second, b.samples_per_second, true},
      {"Compute", "flop/s", a.flops_per_second, b.flops_per_second, true},
      {"Peak memory", "bytes", peak(before), peak(after), false},
      {"Devices waiting", "share", a.ramp + a.bubble, b.ramp + b.bubble, false},
      {"Between calls", "share", a.host_share, b.host_share, false},
  };
}

std::vector<OptionChange> options(const Profile& before, const Profile& after) {
  std::map<std::string, OptionChange> changes;
  for (const Option& option : before.run.options) changes[option.name].before = option.value;
  for (const Option& option : after.run.options) changes[option.name].after = option.value;
  std::vector<OptionChange> result;
  for (auto& [name, change] : changes) {
    if (change.before != change.after) result.push_back({name, change.before, change.after});
  }
  return result;
}

}  // namespace

Comparison compare(const Profile& before, const Profile& after) {
  Comparison result;
  result.numbers = numbers(before, after);
  result.options = options(before, after);
  Pairs<OpKey> ops;
  add_ops(before, &Pair::before, ops);
  add_ops(after, &Pair::after, ops);
  double total = 0;
  for (const auto& [key, pair] : ops) total += pair.before;
  for (const auto& [key, pair] : largest(ops, total * 1e-3)) {
    const auto& [name, module, pass] = key;
    result.ops.push_back({name, module, pass, pair.before, pair.after});
  }
  Pairs<BufferKey> buffers;
  add_buffers(before, &Pair::before, buffers);
  add_buffers(after, &Pair::after, buffers);
  for (const auto& [key, pair] : largest(buffers, 0)) {
    const auto& [name, kind] = key;
    result.buffers.push_back({name, kind, pair.before, pair.after});
  }
  return result;
}

std::string to_json(const Comparison& comparison) {
  JsonWriter writer;
  visit(writer, const_cast<Comparison&>(comparison));  // a writer changes nothing
  return writer.text();
}

}  // namespace aspen::profile
