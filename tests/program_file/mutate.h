// Files of programs, changed at random: bits flipped, words replaced, pieces cut out, put in, exchanged between files.
// Written from docs/program-format.md, not from the code that reads them.
#pragma once

#include <cstddef>
#include <random>
#include <span>
#include <vector>

namespace aspen::testing {

using Bytes = std::vector<std::byte>;
using Random = std::mt19937_64;

// Changes bytes that mean anything, one to four times. `other`: where pieces may come from.
void mutate_bytes(Bytes& bytes, std::span<const std::byte> other, Random& random);

// Makes the checksums fit that lie within the file; the rest stays as it is.
void fix_checksums(Bytes& file);

// As who knows the format but means no good: a section changed, taken from another file or exchanged with another one,
// or header and table changed, and the checksums made to fit.
Bytes mutate_and_fix(const Bytes& file, const Bytes& other, Random& random);

}  // namespace aspen::testing
