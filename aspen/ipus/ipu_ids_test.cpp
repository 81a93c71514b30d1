#include "aspen/ipus/ipu_ids.h"

#include <gtest/gtest.h>

#include <array>
#include <vector>

namespace aspen {
namespace {

TEST(IpuIds, DevicesAreSingleIpusThenLargerAndLargerGroups) {
  for (const auto& [device, first, count] : std::vector<std::array<std::int64_t, 3>>{
           {0, 0, 1}, {63, 63, 1}, {64, 0, 2}, {95, 62, 2}, {96, 0, 4}, {97, 4, 4}, {125, 32, 32}, {126, 0, 64}}) {
    EXPECT_EQ(first_ipu_of_device(device), first) << device;
    EXPECT_EQ(ipus_of_device(device), count) << device;
  }
  EXPECT_EQ(ipus_of_device(-1), 0);
  EXPECT_EQ(ipus_of_device(kMaxDevices), 0);
}

}  // namespace
}  // namespace aspen
