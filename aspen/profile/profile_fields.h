// The fields of a profile, listed once for writing and reading. Each list takes its struct apart into all of its
// fields: one that is added to a struct does not compile until it stands here, too.
#pragma once

#include "aspen/profile/profile.h"

namespace aspen::profile {

template <class Stream>
void visit(Stream& stream, Option& row) {
  auto& [name, value] = row;
  stream("name", name)("value", value);
}

template <class Stream>
void visit(Stream& stream, Run& run) {
  auto& [model, aspen, created, backend, execution, training, complete, replicas, gradient_accumulation,
         device_iterations, micro_batch_size, options] = run;
  stream("model", model)("aspen", aspen)("created", created)("backend", backend)("execution", execution);
  stream("training", training)("complete", complete)("replicas", replicas);
  stream("gradient_accumulation", gradient_accumulation)("device_iterations", device_iterations);
  stream("micro_batch_size", micro_batch_size)("options", options);
}

template <class Stream>
void visit(Stream& stream, Peak& peak) {
  auto& [flops_per_second, bytes_per_second] = peak;
  stream("flops_per_second", flops_per_second)("bytes_per_second", bytes_per_second);
}

template <class Stream>
void visit(Stream& stream, Machine& machine) {
  auto& [processor, num_cpus, thread, all] = machine;
  stream("processor", processor)("num_cpus", num_cpus)("thread", thread)("all", all);
}

template <class Stream>
void visit(Stream& stream, Phase& row) {
  auto& [name, duration] = row;
  stream("name", name)("duration", duration);
}

template <class Stream>
void visit(Stream& stream, Worker& row) {
  auto& [replica, device, crew, num_threads] = row;
  stream("replica", replica)("device", device)("crew", crew)("num_threads", num_threads);
}

template <class Stream>
void visit(Stream& stream, Task& row) {
  auto& [name, section, device, stage, phase, first_op, num_ops] = row;
  stream("name", name)("section", section)("device", device)("stage", stage)("phase", phase);
  stream("first_op", first_op)("num_ops", num_ops);
}

template <class Stream>
void visit(Stream& stream, Wait& row) {
  auto& [task, on, lag, in_all_replicas] = row;
  stream("task", task)("on", on)("lag", lag)("in_all_replicas", in_all_replicas);
}

template <class Stream>
void visit(Stream& stream, Op& row) {
  auto& [name, module, source, text, kernel, pass, task, num_parts, calls_host, is_copy, flops, bytes_read,
         bytes_written, calls, duration, shortest, longest] = row;
  stream("name", name)("module", module)("source", source)("text", text)("kernel", kernel)("pass", pass);
  stream("task", task)("num_parts", num_parts)("calls_host", calls_host)("is_copy", is_copy);
  stream("flops", flops)("bytes_read", bytes_read)("bytes_written", bytes_written);
  stream("calls", calls)("duration", duration)("shortest", shortest)("longest", longest);
}

template <class Stream>
void visit(Stream& stream, Call& row) {
  auto& [begin, duration, loading, samples] = row;
  stream("begin", begin)("duration", duration)("loading", loading)("samples", samples);
}

template <class Stream>
void visit(Stream& stream, Block& row) {
  auto& [worker, call, kind, task, micro_batch, begin, duration, first_op, num_ops, op_durations] = row;
  stream("worker", worker)("call", call)("kind", kind)("task", task)("micro_batch", micro_batch);
  stream("begin", begin)("duration", duration)("first_op", first_op)("num_ops", num_ops);
  stream("op_durations", op_durations);
}

template <class Stream>
void visit(Stream& stream, HostEvent& row) {
  auto& [track, name, begin, duration] = row;
  stream("track", track)("name", name)("begin", begin)("duration", duration);
}

template <class Stream>
void visit(Stream& stream, Trace& trace) {
  auto& [blocks, op_durations, host] = trace;
  stream("blocks", blocks)("op_durations", op_durations)("host", host);
}

template <class Stream>
void visit(Stream& stream, Buffer& row) {
  auto& [name, module, kind, device, on_host, op, offset, bytes, copies, stride, first, last] = row;
  stream("name", name)("module", module)("kind", kind)("device", device)("on_host", on_host)("op", op);
  stream("offset", offset)("bytes", bytes)("copies", copies)("stride", stride)("first", first)("last", last);
}

template <class Stream>
void visit(Stream& stream, Region& row) {
  auto& [name, device, on_host, offset, bytes] = row;
  stream("name", name)("device", device)("on_host", on_host)("offset", offset)("bytes", bytes);
}

template <class Stream>
void visit(Stream& stream, Memory& memory) {
  auto& [budget, regions, buffers] = memory;
  stream("budget", budget)("regions", regions)("buffers", buffers);
}

template <class Stream>
void visit(Stream& stream, WorkerShares& row) {
  auto& [worker, busy, transfer, ramp, bubble, shared] = row;
  stream("worker", worker)("busy", busy)("transfer", transfer)("ramp", ramp)("bubble", bubble)("shared", shared);
}

template <class Stream>
void visit(Stream& stream, StageTime& row) {
  auto& [stage, device, forward, backward, update] = row;
  stream("stage", stage)("device", device)("forward", forward)("backward", backward)("update", update);
}

template <class Stream>
void visit(Stream& stream, DeviceUse& row) {
  auto& [device, reserved, always_live, peak, peak_op, reserved_host] = row;
  stream("device", device)("reserved", reserved)("always_live", always_live)("peak", peak)("peak_op", peak_op);
  stream("reserved_host", reserved_host);
}

template <class Stream>
void visit(Stream& stream, Advice& row) {
  auto& [topic, title, why, how, confidence, gain, saved_bytes] = row;
  stream("topic", topic)("title", title)("why", why)("how", how)("confidence", confidence)("gain", gain);
  stream("saved_bytes", saved_bytes);
}

template <class Stream>
void visit(Stream& stream, Analysis& analysis) {
  auto& [calls, call_duration, iteration, samples_per_second, flops_per_iteration, flops_per_second, share_of_peak,
         host_share, loading_share, ramp, bubble, workers, stages, memory, op_limits, critical_path, advice] = analysis;
  stream("calls", calls)("call_duration", call_duration)("iteration", iteration);
  stream("samples_per_second", samples_per_second)("flops_per_iteration", flops_per_iteration);
  stream("flops_per_second", flops_per_second)("share_of_peak", share_of_peak);
  stream("host_share", host_share)("loading_share", loading_share)("ramp", ramp)("bubble", bubble);
  stream("workers", workers)("stages", stages)("memory", memory)("op_limits", op_limits);
  stream("critical_path", critical_path)("advice", advice);
}

template <class Stream>
void visit(Stream& stream, Profile& profile) {
  auto& [run, machine, compilation, from_cache, workers, tasks, waits, ops, calls, trace, memory, analysis] = profile;
  stream("run", run)("machine", machine)("compilation", compilation)("from_cache", from_cache);
  stream("workers", workers)("tasks", tasks)("waits", waits)("ops", ops)("calls", calls)("trace", trace);
  stream("memory", memory)("analysis", analysis);
}

}  // namespace aspen::profile
