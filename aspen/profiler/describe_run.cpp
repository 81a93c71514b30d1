#include "aspen/profiler/describe_run.h"

#include <algorithm>
#include <map>

namespace aspen {
namespace {

using profile::BlockKind;
using Time = WorkerEvent::Time;

class RunTables {
 public:
  RunTables(const Program& program, const RecordedRun& run, Time origin, profile::Profile& profile)
      : program_(program), run_(run), origin_(origin), profile_(profile) {
    for (const auto* tasks : {&program.step, &program.update}) {
      for (const Task& task : *tasks) {
        const auto is_backward = [](const Instruction& instruction) { return instruction.is_backward; };
        const auto found = std::find_if(task.instructions.begin(), task.instructions.end(), is_backward);
        first_backward_.push_back(found - task.instructions.begin());
        moves_.push_back(task.moves);
      }
    }
  }

  void write() {
    add_calls();
    for (std::size_t i = 0; i < run_.workers.size(); ++i) {
      const RecordedWorker& worker = run_.workers[i];
      profile_.workers.push_back({static_cast<std::int64_t>(worker.replica), static_cast<std::int64_t>(worker.device),
                                  static_cast<std::int64_t>(worker.crew),
                                  static_cast<std::int64_t>(worker.num_threads)});
      worker_ = static_cast<std::int64_t>(i);
      run_.records[i].events.for_each([&](const WorkerEvent& event) { add_event(run_.records[i], event); });
      add_totals(worker.device, run_.records[i].totals);
    }
    std::stable_sort(profile_.trace.blocks.begin(), profile_.trace.blocks.end(),
                     [](const profile::Block& a, const profile::Block& b) { return a.begin < b.begin; });
  }

 private:
  std::int64_t nanoseconds(Time time) const { return std::chrono::nanoseconds(time - origin_).count(); }

  void add_calls() {
    const auto groups = static_cast<std::int64_t>(program_.input_grouping.num_groups(program_.replicas));
    run_.calls.for_each([&](const RecordedCall& call) {
      rows_of_calls_[call.number] = static_cast<std::int64_t>(profile_.calls.size());
      profile_.calls.push_back({.begin = nanoseconds(call.begin),
                                .duration = std::chrono::nanoseconds(call.end - call.begin).count(),
                                .loading = call.loading.count(),
                                .samples = call.micro_batches * groups * profile_.run.micro_batch_size});
    });
  }

  profile::Block& add_block(const WorkerEvent& event, BlockKind kind, Time begin, Time end) {
    return profile_.trace.blocks.emplace_back(
        profile::Block{.worker = worker_,
                       .call = rows_of_calls_.at(event.call),
                       .kind = kind,
                       .micro_batch = event.micro_batch,
                       .begin = nanoseconds(begin),
                       .duration = std::chrono::nanoseconds(end - begin).count()});
  }

  // A call of which only some events are left is shown as far as they go; one that is gone is not.
  void add_event(const WorkerRecord& record, const WorkerEvent& event) {
    if (!rows_of_calls_.contains(event.call)) return;
    if (event.kind == WorkerEvent::Kind::kExchange || event.kind == WorkerEvent::Kind::kGiven) {
      const bool is_exchange = event.kind == WorkerEvent::Kind::kExchange;
      add_block(event, is_exchange ? BlockKind::kExchange : BlockKind::kOutput, event.begin, event.end);
      return;
    }
    const bool is_update = event.kind == WorkerEvent::Kind::kUpdate;
    const auto row = static_cast<std::size_t>(event.task) + (is_update ? program_.step.size() : 0);
    const std::int64_t num_ops = profile_.tasks[row].num_ops, first_backward = first_backward_[row];
    if (event.received > event.begin) {
      add_block(event, BlockKind::kInput, event.begin, event.received).task = static_cast<std::int64_t>(row);
    }
    if (is_update || moves_[row]) {
      const BlockKind kind = is_update ? BlockKind::kUpdate : BlockKind::kTransfer;
      add_ops(record, event, row, kind, {event.received, event.computed}, 0, num_ops);
    } else {
      const bool has_both = first_backward > 0 && first_backward < num_ops;
      const Time turn = has_both ? event.backward : first_backward == 0 ? event.received : event.computed;
      add_ops(record, event, row, BlockKind::kForward, {event.received, turn}, 0, first_backward);
      add_ops(record, event, row, BlockKind::kBackward, {turn, event.computed}, first_backward, num_ops);
    }
    if (event.end > event.computed) {
      add_block(event, BlockKind::kOutput, event.computed, event.end).task = static_cast<std::int64_t>(row);
    }
  }

  struct Span {
    Time begin, end;
  };
  // Instructions [first, end) of the task.
  void add_ops(const WorkerRecord& record, const WorkerEvent& event, std::size_t row, BlockKind kind, const Span& span,
               std::int64_t first, std::int64_t end) {
    if (first == end) return;
    profile::Block& block = add_block(event, kind, span.begin, span.end);
    block.task = static_cast<std::int64_t>(row);
    block.first_op = profile_.tasks[row].first_op + first;
    block.num_ops = end - first;
    if (event.durations < 0) return;
    const auto begin = static_cast<std::uint64_t>(event.durations + first);
    for (std::uint64_t i = begin; i < begin + static_cast<std::uint64_t>(end - first); ++i) {
      if (!record.durations.has(i)) return;
    }
    block.op_durations = static_cast<std::int64_t>(profile_.trace.op_durations.size());
    for (std::uint64_t i = begin; i < begin + static_cast<std::uint64_t>(end - first); ++i) {
      profile_.trace.op_durations.push_back(record.durations[i]);
    }
  }

  void add_totals(std::size_t device, const std::vector<InstructionTotal>& totals) {
    std::size_t next = 0;
    for (const profile::Task& task : profile_.tasks) {
      if (task.device != static_cast<std::int64_t>(device)) continue;
      for (std::int64_t i = task.first_op; i < task.first_op + task.num_ops; ++i) {
        const InstructionTotal& total = totals[next++];
        profile::Op& op = profile_.ops[static_cast<std::size_t>(i)];
        if (total.calls == 0) continue;
        op.shortest = op.calls == 0 ? total.shortest : std::min(op.shortest, total.shortest);
        op.longest = std::max(op.longest, total.longest);
        op.calls += total.calls;
        op.duration += total.nanoseconds;
      }
    }
  }

  const Program& program_;
  const RecordedRun& run_;
  Time origin_;
  profile::Profile& profile_;
  std::vector<std::int64_t> first_backward_;  // by row of tasks
  std::vector<bool> moves_;                   // likewise
  std::map<std::int64_t, std::int64_t> rows_of_calls_;
  std::int64_t worker_ = 0;
};

}  // namespace

RecordedRun copy_of(const RunRecorder& recorder) {
  return {.workers = recorder.workers(), .records = recorder.records(), .calls = recorder.calls()};
}

void describe_run(const Program& program, const RecordedRun& run, RunRecorder::Clock::time_point origin,
                  profile::Profile& profile) {
  RunTables(program, run, origin, profile).write();
}

}  // namespace aspen
