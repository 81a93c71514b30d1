// Includes ASPEN_ISA_FILE once per instruction set, each time in the namespace ASPEN_ISA and compiled for that
// set. A kernel file includes all standard headers it needs first, then
//
//   #define ASPEN_ISA_FILE "aspen/ops/unary/unary_loops.h"
//   #include "aspen/backends/cpu/each_isa.h"
//
// and calls ASPEN_BEST(function). Explicit feature flags, not -march: code from headers parsed outside this file
// stays baseline (no copy of std::vector with AVX in it can win at link time) and may still be inlined here.
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
#pragma GCC push_options
#pragma GCC target( \
    "avx512f,avx512cd,avx512vl,avx512bw,avx512dq,avx2,fma,bmi,bmi2,lzcnt,popcnt,f16c,prefer-vector-width=512")
#include "aspen/backends/cpu/each_isa.inc"
#include ASPEN_ISA_FILE
#pragma GCC pop_options
#undef ASPEN_ISA
#undef ASPEN_LANES

#define ASPEN_ISA isa_avx2
#define ASPEN_LANES 8
#pragma GCC push_options
#pragma GCC target("avx2,fma,bmi,bmi2,lzcnt,popcnt,f16c")
#include "aspen/backends/cpu/each_isa.inc"
#include ASPEN_ISA_FILE
#pragma GCC pop_options
#undef ASPEN_ISA
#undef ASPEN_LANES
#endif

#define ASPEN_ISA isa_baseline
#define ASPEN_LANES 4
#include "aspen/backends/cpu/each_isa.inc"
#include ASPEN_ISA_FILE
#undef ASPEN_ISA
#undef ASPEN_LANES
#undef ASPEN_ISA_FILE
