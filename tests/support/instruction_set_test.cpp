// ctest runs the tests of kernels once per instruction set, with ASPEN_CPU_ISA set. This file is part of each such
// binary: it shows that the cap took hold, and skips everything where the machine does not have what was asked for.
#include <gtest/gtest.h>

#include <dnnl.hpp>

#include "aspen/backends/cpu/onednn.h"

#define ASPEN_ISA_FILE "tests/support/instruction_set.inc"
#include "aspen/backends/cpu/each_isa.h"

namespace aspen::testing {
namespace {

class NeededInstructionSet final : public ::testing::Environment {
 public:
  void SetUp() override {
    // tests/CMakeLists.txt looks for these words.
    if (isa_cap() && best_isa() != *isa_cap()) GTEST_SKIP() << "this machine does not have " << name_of(*isa_cap());
  }
};

const ::testing::Environment* const kNeeded = ::testing::AddGlobalTestEnvironment(new NeededInstructionSet);

TEST(InstructionSet, OfTheLoopsIsTheBestOrTheCap) {
  EXPECT_EQ(best_isa(), isa_cap().value_or(best_isa()));
  EXPECT_EQ(ASPEN_BEST(lanes)(), best_isa() == Isa::kAvx512 ? 16 : best_isa() == Isa::kAvx2 ? 8 : 4);
}

// The bits of a set of oneDNN include those of the sets below it.
unsigned onednn_bits(Isa isa) {
  return static_cast<unsigned>(isa == Isa::kAvx512 ? dnnl::cpu_isa::avx512_core
                               : isa == Isa::kAvx2 ? dnnl::cpu_isa::avx2
                                                   : dnnl::cpu_isa::sse41);
}

TEST(InstructionSet, OfOneDnnFollowsTheCap) {
  onednn::engine();
  auto used = static_cast<unsigned>(dnnl::get_effective_cpu_isa());
  if (isa_cap()) {
    EXPECT_EQ(used, onednn_bits(*isa_cap()));
  } else {
    EXPECT_EQ(used & onednn_bits(best_isa()), onednn_bits(best_isa())) << "oneDNN is held back";
  }
}

}  // namespace
}  // namespace aspen::testing
