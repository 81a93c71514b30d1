// Part of every test binary: graphs are checked after each pass, also where a release build would not do so.
#include <cstdlib>

namespace {

[[maybe_unused]] const int kVerifies = setenv("ASPEN_VERIFY", "1", 0);

}  // namespace
