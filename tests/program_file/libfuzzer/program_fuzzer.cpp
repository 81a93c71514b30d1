// The fuzzer behind ./dev fuzz program: libFuzzer changes files of programs, guided by what the code does with them.
#include <cstdio>
#include <cstdlib>
#include <cstring>

#include "aspen/backends/reference/reference_backend.h"
#include "aspen/program_file/sections.h"
#include "tests/program_file/judge.h"

extern "C" std::size_t LLVMFuzzerMutate(std::uint8_t* data, std::size_t size, std::size_t max_size);

namespace aspen::testing {
namespace {

const Backend& backend() {
  static const auto backend = make_reference_backend();
  return *backend;
}

const std::vector<Bytes>& seeds() {
  static const std::vector<Bytes> seeds = [] {
    std::vector<Bytes> files = seed_files(backend());
    const Bytes choices = seed_of_choices(backend());
    files.insert(files.end(), files.size() / 8, choices);  // one in nine
    return files;
  }();
  return seeds;
}

// A section changed as libFuzzer thinks best.
Bytes guided(const Bytes& file, Random& random) {
  Sections sections = Sections::decode(file);
  const auto names = sections.names();
  if (names.empty()) throw FileError("it has no section to change");
  const std::string& name = names[random() % names.size()];
  const auto section = sections.get(name);
  Bytes bytes(section.begin(), section.end());
  const std::size_t size = bytes.size();
  bytes.resize(size + 256);
  bytes.resize(LLVMFuzzerMutate(reinterpret_cast<std::uint8_t*>(bytes.data()), size, bytes.size()));
  sections.set(name, std::move(bytes));
  return sections.encode();
}

Bytes mutated(const Bytes& file, Random& random) {
  const Bytes& other = seeds()[random() % seeds().size()];
  switch (random() % 8) {
    case 0: {
      Bytes changed = file;
      mutate_bytes(changed, other, random);
      return changed;
    }
    case 1: return other;  // begins anew
    case 2:
    case 3:
    case 4: try { return guided(file, random);
      } catch (const FileError&) {
        return other;
      }
    default: return mutate_and_fix(file, other, random);
  }
}

}  // namespace
}  // namespace aspen::testing

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  const auto* bytes = reinterpret_cast<const std::byte*>(data);
  try {
    aspen::testing::judge({bytes, bytes + size}, aspen::testing::backend());
  } catch (const std::exception& error) {
    std::fprintf(stderr, "%s\n", error.what());
    std::abort();
  }
  return 0;
}

extern "C" std::size_t LLVMFuzzerCustomMutator(std::uint8_t* data, std::size_t size, std::size_t max_size,
                                               unsigned int seed) {
  aspen::testing::Random random(seed);
  const auto* bytes = reinterpret_cast<const std::byte*>(data);
  const aspen::testing::Bytes changed = aspen::testing::mutated({bytes, bytes + size}, random);
  if (changed.empty() || changed.size() > max_size) return size;
  std::memcpy(data, changed.data(), changed.size());
  return changed.size();
}
