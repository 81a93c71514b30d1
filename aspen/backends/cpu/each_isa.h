// Includes ASPEN_ISA_FILE once per instruction set, each time in the namespace ASPEN_ISA and compiled for that
// set. A kernel file includes all standard headers it needs first, then
//
//   #define ASPEN_ISA_FILE "aspen/ops/unary/unary_loops.h"
//   #include "aspen/backends/cpu/each_isa.h"
//
// and calls ASPEN_BEST(function). A file that defines ASPEN_HALF_VECTORS gets a further copy, isa_avx512_half, which
// runs where isa_avx512 does, on half vectors and as many registers. Explicit feature flags, not -march: code from
// headers parsed outside this file stays baseline (no copy of std::vector with AVX in it can win at link time) and may
// still be inlined here.
#include "aspen/backends/cpu/isa.h"

#include <cmath>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <limits>
#include <utility>

#include "aspen/base/dtype.h"

#if ASPEN_X86_CLONES
#include <immintrin.h>

#define ASPEN_ISA isa_avx512
#define ASPEN_LANES 16
#define ASPEN_REGISTERS 32
#pragma GCC push_options
#pragma GCC target( \
    "avx512f,avx512cd,avx512vl,avx512bw,avx512dq,avx2,fma,bmi,bmi2,lzcnt,popcnt,f16c,prefer-vector-width=512")
#include "aspen/backends/cpu/each_isa.inc"
#include ASPEN_ISA_FILE
#undef ASPEN_ISA
#undef ASPEN_LANES
#ifdef ASPEN_HALF_VECTORS
#define ASPEN_ISA isa_avx512_half
#define ASPEN_LANES 8
#include "aspen/backends/cpu/each_isa.inc"
#include ASPEN_ISA_FILE
#undef ASPEN_ISA
#undef ASPEN_LANES
#endif
#pragma GCC pop_options
#undef ASPEN_REGISTERS

#define ASPEN_ISA isa_avx2
#define ASPEN_LANES 8
#define ASPEN_REGISTERS 16
#pragma GCC push_options
#pragma GCC target("avx2,fma,bmi,bmi2,lzcnt,popcnt,f16c")
#include "aspen/backends/cpu/each_isa.inc"
#include ASPEN_ISA_FILE
#pragma GCC pop_options
#undef ASPEN_ISA
#undef ASPEN_LANES
#undef ASPEN_REGISTERS
#endif

#define ASPEN_ISA isa_baseline
#define ASPEN_LANES 4
#define ASPEN_REGISTERS 16
#include "aspen/backends/cpu/each_isa.inc"
#include ASPEN_ISA_FILE
#undef ASPEN_ISA
#undef ASPEN_LANES
#undef ASPEN_REGISTERS
#undef ASPEN_ISA_FILE
