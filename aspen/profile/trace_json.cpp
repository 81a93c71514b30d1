#include "aspen/profile/trace_json.h"

#include <fmt/format.h>

#include <iterator>
#include <map>
#include <nlohmann/json.hpp>

#include "aspen/profile/enum_names.h"

namespace aspen::profile {
namespace {

std::string json_text(std::string_view text) {
  using Json = nlohmann::json;
  return Json(std::string(text)).dump(-1, ' ', false, Json::error_handler_t::replace);
}

class TraceWriter {
 public:
  explicit TraceWriter(const Profile& profile) : profile_(profile) {}

  std::string write(std::int64_t max_ops) && {
    text_ = "{\"displayTimeUnit\":\"ms\",\"traceEvents\":[\n";
    name_tracks();
    std::int64_t written = 0, left_out = 0;
    for (const Block& block : profile_.trace.blocks) {
      add_block(block);
      if (block.op_durations < 0) continue;
      if (written + block.num_ops <= max_ops) {
        add_ops(block);
        written += block.num_ops;
      } else {
        left_out += block.num_ops;
      }
    }
    add_host();
    text_ += fmt::format("\n],\"otherData\":{{\"model\":{},\"ops left out\":{}}}}}\n", json_text(profile_.run.model),
                         left_out);
    return std::move(text_);
  }

 private:
  const Worker& worker_of(const Block& block) const { return profile_.workers[static_cast<std::size_t>(block.worker)]; }

  // Times of the format are microseconds.
  void add(std::string_view name, std::int64_t process, std::int64_t thread, std::int64_t begin, std::int64_t duration,
           std::string_view category, std::string_view args) {
    text_ += text_.ends_with('\n') ? "" : ",\n";
    fmt::format_to(std::back_inserter(text_),
                   R"({{"ph":"X","name":{},"cat":"{}","pid":{},"tid":{},"ts":{:.3f},"dur":{:.3f},"args":{{{}}}}})",
                   json_text(name), category, process, thread, static_cast<double>(begin) / 1e3,
                   static_cast<double>(duration) / 1e3, args);
  }

  void name(std::string_view what, std::int64_t process, std::int64_t thread, const std::string& name) {
    text_ += text_.ends_with('\n') ? "" : ",\n";
    fmt::format_to(std::back_inserter(text_), R"({{"ph":"M","name":"{}","pid":{},"tid":{},"args":{{"name":{}}}}})",
                   what, process, thread, json_text(name));
  }

  void name_tracks() {
    for (const Worker& worker : profile_.workers) {
      name("process_name", worker.replica, 0, fmt::format("replica {}", worker.replica));
      name("thread_name", worker.replica, worker.device, fmt::format("device {}", worker.device));
    }
  }

  void add_block(const Block& block) {
    const Worker& worker = worker_of(block);
    const std::string_view kind = to_string(block.kind);
    const std::string label = block.task < 0 ? std::string(kind)
                                             : fmt::format("{} of stage {}", kind,
                                                           profile_.tasks[static_cast<std::size_t>(block.task)].stage);
    add(label, worker.replica, worker.device, block.begin, block.duration, kind,
        fmt::format(R"("micro-batch":{},"call":{})", block.micro_batch, block.call));
  }

  void add_ops(const Block& block) {
    const Worker& worker = worker_of(block);
    std::int64_t at = block.begin;
    for (std::int64_t i = 0; i < block.num_ops; ++i) {
      const Op& op = profile_.ops[static_cast<std::size_t>(block.first_op + i)];
      const std::int64_t duration = profile_.trace.op_durations[static_cast<std::size_t>(block.op_durations + i)];
      add(op.name, worker.replica, worker.device, at, duration, "op",
          fmt::format(R"("module":{},"source":{})", json_text(op.module), json_text(op.source)));
      at += duration;
    }
  }

  void add_host() {
    const std::int64_t process = profile_.run.replicas;
    std::map<std::string, std::int64_t> tracks;
    for (std::size_t i = 0; i < profile_.calls.size(); ++i) {
      const Call& call = profile_.calls[i];
      add(fmt::format("call {}", i), process, 0, call.begin, call.duration, "call",
          fmt::format(R"("samples":{})", call.samples));
    }
    for (const HostEvent& event : profile_.trace.host) {
      const auto [track, is_new] = tracks.emplace(event.track, static_cast<std::int64_t>(tracks.size()) + 1);
      if (is_new) name("thread_name", process, track->second, event.track);
      add(event.name, process, track->second, event.begin, event.duration, "host", "");
    }
    name("process_name", process, 0, "host");
    name("thread_name", process, 0, "calls");
  }

  const Profile& profile_;
  std::string text_;
};

}  // namespace

std::string to_trace_json(const Profile& profile, std::int64_t max_ops) { return TraceWriter(profile).write(max_ops); }

}  // namespace aspen::profile
