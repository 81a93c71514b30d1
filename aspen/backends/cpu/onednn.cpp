#include "aspen/backends/cpu/onednn.h"

#include <oneapi/dnnl/dnnl_config.h>

#if DNNL_CPU_THREADING_RUNTIME == DNNL_RUNTIME_OMP
#include <omp.h>
#endif

#include "aspen/backends/cpu/isa.h"
#include "aspen/base/error.h"

namespace aspen::onednn {
namespace {

const dnnl::stream& stream() {
  thread_local const dnnl::stream stream(engine());
  return stream;
}

// oneDNN chooses instructions by itself; SSE4.1 is the least it can be held to.
dnnl::cpu_isa most_for(Isa cap) {
  switch (cap) {
    case Isa::kAvx512: return dnnl::cpu_isa::avx512_core;
    case Isa::kAvx2: return dnnl::cpu_isa::avx2;
    case Isa::kBaseline: break;
  }
  return dnnl::cpu_isa::sse41;
}

// Only the first user of oneDNN in a process can hold it to an instruction set.
void apply_isa_cap() {
  std::optional<Isa> cap = isa_cap();
  if (!cap || dnnl::set_max_cpu_isa(most_for(*cap)) == dnnl::status::success) return;
  auto excess = static_cast<unsigned>(dnnl::get_effective_cpu_isa()) & ~static_cast<unsigned>(most_for(*cap));
  if (excess == 0) return;
  throw UserError(
      "ASPEN_CPU_ISA={} came too late for oneDNN, which PyTorch has used in this process before; set "
      "DNNL_MAX_CPU_ISA={} as well.",
      name_of(*cap),
      *cap == Isa::kBaseline ? "SSE41"
      : *cap == Isa::kAvx2   ? "AVX2"
                             : "AVX512_CORE");
}

}  // namespace

const dnnl::engine& engine() {
  // Never destroyed: threads may still hold streams of it while the process ends.
  static const dnnl::engine& engine = (apply_isa_cap(), *new dnnl::engine(dnnl::engine::kind::cpu, 0));
  return engine;
}

#if DNNL_CPU_THREADING_RUNTIME == DNNL_RUNTIME_OMP
OneThread::OneThread() : before_(omp_get_max_threads()) {
  if (before_ != 1) omp_set_num_threads(1);
}
OneThread::~OneThread() {
  if (before_ != 1) omp_set_num_threads(before_);
}
#elif DNNL_CPU_THREADING_RUNTIME == DNNL_RUNTIME_SEQ
OneThread::OneThread() : before_(1) {}
OneThread::~OneThread() { static_cast<void>(before_); }
#else
#error "the CPU backend needs a oneDNN built with OpenMP or without threads"
#endif

dnnl::primitive_attr attributes() {
  dnnl::primitive_attr attributes;
  attributes.set_scratchpad_mode(dnnl::scratchpad_mode::user);
  attributes.set_fpmath_mode(dnnl::fpmath_mode::strict);
  return attributes;
}

Desc plain(const Dims& dims) {
  Dims strides(dims.size(), 1);
  for (std::size_t i = dims.size(); i-- > 1;) strides[i - 1] = strides[i] * dims[i];
  return Desc(dims, kF32, strides);
}

Desc strided(const Dims& dims, const Dims& strides) { return Desc(dims, kF32, strides); }

Desc any_layout(const Dims& dims) { return Desc(dims, kF32, Tag::any); }

Primitive Primitive::reorder(const Desc& from, const Desc& to) {
  dnnl::reorder::primitive_desc desc(engine(), from, engine(), to, attributes());
  return Primitive(dnnl::reorder(desc), desc.scratchpad_desc().get_size());
}

void Primitive::run(std::initializer_list<Argument> arguments, void* scratch) const {
  OneThread one_thread;
  constexpr std::size_t kMost = 8;
  if (arguments.size() + 1 > kMost) throw InternalError("{} arguments for one primitive", arguments.size());
  dnnl::memory memories[kMost];
  dnnl_exec_arg_t bound[kMost];
  int count = 0;
  auto bind = [&](int index, const Desc& desc, void* data) {
    memories[count] = dnnl::memory(desc, engine(), data);
    bound[count] = {index, memories[count].get()};
    ++count;
  };
  for (const Argument& argument : arguments) bind(argument.index, argument.desc, argument.data);
  if (scratch_bytes_ > 0) {
    bind(DNNL_ARG_SCRATCHPAD, Desc({static_cast<dnnl_dim_t>(scratch_bytes_)}, dnnl::memory::data_type::u8, Tag::x),
         scratch);
  }
  dnnl_status_t status = dnnl_primitive_execute(primitive_.get(), stream().get(), count, bound);
  if (status != dnnl_success)
    throw InternalError("oneDNN could not run a primitive: status {}", static_cast<int>(status));
}

}  // namespace aspen::onednn
