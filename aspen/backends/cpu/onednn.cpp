#include "aspen/backends/cpu/onednn.h"

#include <oneapi/dnnl/dnnl_config.h>

#if DNNL_CPU_THREADING_RUNTIME == DNNL_RUNTIME_OMP
#include <omp.h>
#endif

#include <mutex>
#include <optional>
#include <utility>

#include "aspen/backends/cpu/isa.h"
#if ASPEN_X86_CLONES
#include <cpuid.h>
#endif

#include "aspen/base/error.h"

namespace aspen::onednn {
namespace {

// oneDNN chooses instructions by itself; SSE4.1 is the least it can be held to.
dnnl::cpu_isa most_for(Isa cap) {
  switch (cap) {
    case Isa::kAvx512: return dnnl::cpu_isa::avx512_core;
    case Isa::kAvx2: return dnnl::cpu_isa::avx2;
    case Isa::kBaseline: break;
  }
  return dnnl::cpu_isa::sse41;
}

constexpr auto kBFloat16Isa = static_cast<unsigned>(dnnl::cpu_isa::avx512_core_bf16);
constexpr auto kTilesIsa = static_cast<unsigned>(dnnl::cpu_isa::avx512_core_amx);

unsigned effective_isa() { return static_cast<unsigned>(dnnl::get_effective_cpu_isa()); }

// Some hypervisors show the tile instructions of a CPU and hide their sizes, which oneDNN 2.6 then takes to be 0: its
// products of bfloat16 die of an illegal instruction.
bool hides_tile_sizes() {
#if ASPEN_X86_CLONES
  constexpr unsigned kFeatures = 7, kHasTiles = 1u << 24, kTileSizes = 0x1d;
  unsigned a = 0, b = 0, c = 0, d = 0;
  if (__get_cpuid_count(kFeatures, 0, &a, &b, &c, &d) == 0 || (d & kHasTiles) == 0) return false;
  return __get_cpuid_count(kTileSizes, 0, &a, &b, &c, &d) == 0 || a == 0;  // a: how many kinds of sizes there are
#else
  return false;
#endif
}

// Only the first user of oneDNN in a process can hold it to an instruction set.
void apply_isa_cap() {
  std::optional<Isa> cap = isa_cap();
  if (!cap && hides_tile_sizes()) dnnl::set_max_cpu_isa(dnnl::cpu_isa::avx512_core_bf16);  // else: multiplies_bfloat16
  if (!cap || dnnl::set_max_cpu_isa(most_for(*cap)) == dnnl::status::success) return;
  auto excess = effective_isa() & ~static_cast<unsigned>(most_for(*cap));
  if (excess == 0) return;
  throw UserError(
      "ASPEN_CPU_ISA={} came too late for oneDNN, which PyTorch has used in this process before; set "
      "DNNL_MAX_CPU_ISA={} as well.",
      name_of(*cap),
      *cap == Isa::kBaseline ? "SSE41"
      : *cap == Isa::kAvx2   ? "AVX2"
                             : "AVX512_CORE");
}

dnnl::memory::data_type data_type(DType type) {
  switch (type) {
    case DType::kF32: return dnnl::memory::data_type::f32;
    case DType::kBF16: return dnnl::memory::data_type::bf16;
    default: throw InternalError("oneDNN is not used for {}", name_of(type));
  }
}

}  // namespace

const dnnl::engine& engine() {
  // Never destroyed: threads may still hold streams of it while the process ends.
  static const dnnl::engine& engine = (apply_isa_cap(), *new dnnl::engine(dnnl::engine::kind::cpu, 0));
  return engine;
}

std::string fingerprint() {
  engine();
  const dnnl_version_t& version = *dnnl_version();
  return fmt::format("oneDNN {}.{}.{} with {:#x}", version.major, version.minor, version.patch, effective_isa());
}

bool multiplies_bfloat16() {
  engine();
  static const bool multiplies = [] {
    const unsigned isa = effective_isa();
    const bool has_tiles = (isa & kTilesIsa) == kTilesIsa;
    return (isa & kBFloat16Isa) == kBFloat16Isa && !(has_tiles && hides_tile_sizes());
  }();
  return multiplies;
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

Desc plain(const Dims& dims, DType type) {
  Dims strides(dims.size(), 1);
  for (std::size_t i = dims.size(); i-- > 1;) strides[i - 1] = strides[i] * dims[i];
  return strided(dims, strides, type);
}

Desc strided(const Dims& dims, const Dims& strides, DType type) { return Desc(dims, data_type(type), strides); }

Desc any_layout(const Dims& dims, DType type) { return Desc(dims, data_type(type), Tag::any); }

// Objects of oneDNN that hold the pointers of a run. A run borrows one for as long as it takes; kept under a lock, as
// it is short and a run is not.
class Primitive::Bindings {
 public:
  struct Binding {
    std::vector<dnnl::memory> memories;
    std::vector<dnnl_exec_arg_t> arguments;
    dnnl::stream stream{engine()};
  };

  explicit Bindings(std::vector<Parameter> parameters) : parameters_(std::move(parameters)) {}

  std::size_t num_parameters() const { return parameters_.size(); }

  void reserve(std::size_t count) {
    std::lock_guard lock(mutex_);
    while (num_made_ < count) free_.push_back(make());
  }

  std::unique_ptr<Binding> borrow() {
    std::lock_guard lock(mutex_);
    if (free_.empty()) return make();
    std::unique_ptr<Binding> binding = std::move(free_.back());
    free_.pop_back();
    return binding;
  }

  void give_back(std::unique_ptr<Binding> binding) {
    std::lock_guard lock(mutex_);
    free_.push_back(std::move(binding));
  }

 private:
  std::unique_ptr<Binding> make() {
    auto binding = std::make_unique<Binding>();
    for (const Parameter& parameter : parameters_) {
      binding->memories.push_back(dnnl::memory(parameter.desc, engine(), DNNL_MEMORY_NONE));
      binding->arguments.push_back({parameter.index, binding->memories.back().get()});
    }
    free_.reserve(++num_made_);  // room for all, so that giving back allocates nothing
    return binding;
  }

  std::vector<Parameter> parameters_;
  std::mutex mutex_;
  std::vector<std::unique_ptr<Binding>> free_;
  std::size_t num_made_ = 0;
};

void Primitive::Delete::operator()(Bindings* bindings) const { delete bindings; }

Primitive::Primitive(dnnl::primitive primitive, std::size_t scratch_bytes, const std::vector<Parameter>& parameters)
    : primitive_(std::move(primitive)), scratch_bytes_(scratch_bytes) {
  std::vector<Parameter> all = parameters;
  if (scratch_bytes > 0) {
    all.push_back(
        {DNNL_ARG_SCRATCHPAD, Desc({static_cast<dnnl_dim_t>(scratch_bytes)}, dnnl::memory::data_type::u8, Tag::x)});
  }
  bindings_.reset(new Bindings(std::move(all)));
}

Primitive Primitive::reorder(const Desc& from, const Desc& to) {
  dnnl::reorder::primitive_desc desc(engine(), from, engine(), to, attributes());
  return Primitive(dnnl::reorder(desc), desc.scratchpad_desc().get_size(), {{DNNL_ARG_FROM, from}, {DNNL_ARG_TO, to}});
}

void Primitive::reserve(std::size_t num_runs) const {
  if (bindings_ != nullptr) bindings_->reserve(num_runs);
}

void Primitive::run(std::initializer_list<const void*> data, void* scratch) const {
  std::size_t given = data.size() + (scratch_bytes_ > 0 ? 1 : 0);
  if (given != bindings_->num_parameters()) {
    throw InternalError("{} arguments for a primitive with {}", given, bindings_->num_parameters());
  }
  OneThread one_thread;
  auto binding = bindings_->borrow();
  auto memory = binding->memories.begin();
  dnnl_status_t status = dnnl_success;
  auto bind = [&](const void* pointer) {
    if (status == dnnl_success) status = dnnl_memory_set_data_handle(memory->get(), const_cast<void*>(pointer));
    ++memory;
  };
  for (const void* pointer : data) bind(pointer);
  if (scratch_bytes_ > 0) bind(scratch);
  if (status == dnnl_success) {
    status = dnnl_primitive_execute(primitive_.get(), binding->stream.get(), static_cast<int>(given),
                                    binding->arguments.data());
  }
  bindings_->give_back(std::move(binding));
  if (status != dnnl_success)
    throw InternalError("oneDNN could not run a primitive: status {}", static_cast<int>(status));
}

}  // namespace aspen::onednn
