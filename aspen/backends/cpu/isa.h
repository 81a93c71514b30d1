// Which instruction set the tuned loops use. Chosen once per process from what the CPU offers; the environment
// variable ASPEN_CPU_ISA (baseline, avx2, avx512) caps it, for tests and for comparing machines. The cap holds for
// oneDNN as well (see onednn.h).
#pragma once

#include <optional>
#include <string_view>

// The loops are compiled once per instruction set listed here (see each_isa.h); other architectures get the
// baseline alone.
#if defined(__x86_64__) && defined(__GNUC__) && !defined(__clang__)
#define ASPEN_X86_CLONES 1
#else
#define ASPEN_X86_CLONES 0
#endif

namespace aspen {

enum class Isa { kBaseline, kAvx2, kAvx512 };

Isa best_isa();
std::optional<Isa> isa_cap();  // what ASPEN_CPU_ISA asks for, whether the CPU has it or not
std::string_view name_of(Isa isa);

}  // namespace aspen

// The function of that name from the namespace of the best instruction set.
#if ASPEN_X86_CLONES
#define ASPEN_BEST(function)                                           \
  (::aspen::best_isa() == ::aspen::Isa::kAvx512 ? isa_avx512::function \
   : ::aspen::best_isa() == ::aspen::Isa::kAvx2 ? isa_avx2::function   \
                                                : isa_baseline::function)
#else
#define ASPEN_BEST(function) (isa_baseline::function)
#endif
