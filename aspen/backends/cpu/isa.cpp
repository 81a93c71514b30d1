#include "aspen/backends/cpu/isa.h"

#include <algorithm>
#include <cstdlib>

#include "aspen/base/error.h"

namespace aspen {
namespace {

Isa supported() {
#if ASPEN_X86_CLONES
  bool avx2 = __builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma") && __builtin_cpu_supports("bmi2") &&
              __builtin_cpu_supports("f16c") && __builtin_cpu_supports("popcnt");
  bool avx512 = avx2 && __builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512bw") &&
                __builtin_cpu_supports("avx512cd") && __builtin_cpu_supports("avx512dq") &&
                __builtin_cpu_supports("avx512vl");
  return avx512 ? Isa::kAvx512 : avx2 ? Isa::kAvx2 : Isa::kBaseline;
#else
  return Isa::kBaseline;
#endif
}

}  // namespace

std::optional<Isa> isa_cap() {
  const char* cap = std::getenv("ASPEN_CPU_ISA");
  if (cap == nullptr || *cap == '\0') return std::nullopt;
  for (Isa isa : {Isa::kBaseline, Isa::kAvx2, Isa::kAvx512}) {
    if (name_of(isa) == cap) return isa;
  }
  throw UserError("ASPEN_CPU_ISA is \"{}\"; expected baseline, avx2 or avx512.", cap);
}

Isa best_isa() {
  static const Isa isa = std::min(isa_cap().value_or(Isa::kAvx512), supported());
  return isa;
}

std::string_view name_of(Isa isa) {
  switch (isa) {
    case Isa::kAvx512: return "avx512";
    case Isa::kAvx2: return "avx2";
    case Isa::kBaseline: break;
  }
  return "baseline";
}

}  // namespace aspen
