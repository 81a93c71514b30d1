// The container: read as it was written, or not at all.
#include "aspen/program_file/sections.h"

#include <gtest/gtest.h>

#include <fstream>
#include <random>

#include "tests/support/folder.h"

namespace aspen::testing {
namespace {

std::vector<std::byte> bytes_of(std::string_view text) {
  const auto bytes = std::as_bytes(std::span(text));
  return {bytes.begin(), bytes.end()};
}

Sections example() {
  Sections file;
  file.set("empty", {});
  file.set("program", bytes_of("tasks and instructions"));
  file.set("state", std::vector<std::byte>(1000, std::byte{7}));
  return file;
}

std::string refusal(std::span<const std::byte> bytes) {
  try {
    Sections::decode({bytes.begin(), bytes.end()});
  } catch (const FileError& error) {
    return error.what();
  }
  return "";
}

TEST(Sections, ComeBackAsTheyWere) {
  const Sections read = Sections::decode(example().encode());
  EXPECT_EQ(read.names(), (std::vector<std::string>{"empty", "program", "state"}));
  EXPECT_TRUE(read.get("empty").empty());
  EXPECT_EQ(bytes_of("tasks and instructions"),
            std::vector<std::byte>(read.get("program").begin(), read.get("program").end()));
  EXPECT_EQ(read.get("state").size(), 1000u);
  EXPECT_THROW(read.get("model"), FileError);
}

TEST(Sections, AFlippedBitAnywhereIsNoticed) {
  const std::vector<std::byte> good = example().encode();
  for (std::size_t i = 0; i < good.size() * 8; ++i) {
    std::vector<std::byte> bad = good;
    bad[i / 8] ^= std::byte{1} << (i % 8);
    EXPECT_NE(refusal(bad), "") << "bit " << i;
  }
}

TEST(Sections, AnyOtherLengthIsNoticed) {
  const std::vector<std::byte> good = example().encode();
  for (std::size_t size = 0; size < good.size(); ++size) EXPECT_NE(refusal(std::span(good).first(size)), "") << size;
  std::vector<std::byte> longer = good;
  longer.push_back(std::byte{0});
  EXPECT_NE(refusal(longer), "");
}

TEST(Sections, WordsOfTwoFilesDoNotMix) {
  Sections other = example();
  other.set("state", std::vector<std::byte>(1000, std::byte{8}));
  const std::vector<std::byte> a = example().encode(), b = other.encode();
  std::mt19937 random(1);
  for (int round = 0; round < 1000; ++round) {
    std::vector<std::byte> mixed = a;
    const std::size_t begin = random() % a.size(), end = begin + random() % (a.size() - begin + 1);
    std::copy(b.begin() + static_cast<std::ptrdiff_t>(begin), b.begin() + static_cast<std::ptrdiff_t>(end),
              mixed.begin() + static_cast<std::ptrdiff_t>(begin));
    if (mixed == a || mixed == b) continue;
    EXPECT_NE(refusal(mixed), "") << begin << " to " << end;
  }
}

TEST(Sections, RefusalsSayWhatIsWrong) {
  std::vector<std::byte> file = example().encode();
  EXPECT_EQ(refusal(bytes_of("short")), "it has 5 bytes, less than any program");
  EXPECT_EQ(refusal(std::vector<std::byte>(100)), "it does not begin like a program");
  std::vector<std::byte> newer = file;
  newer[8] = std::byte{5};
  EXPECT_EQ(refusal(newer), "it is written in format 5, and this version reads format 4; export the model again");
  file[file.size() - 600] ^= std::byte{1};
  EXPECT_EQ(refusal(file), "section \"state\" was changed");
}

TEST(Sections, AFileReplacesTheOneBefore) {
  Folder folder;
  const auto file = folder.path / "program.aspen";
  example().write(file);
  Sections other;
  other.set("a", bytes_of("b"));
  other.write(file);
  EXPECT_EQ(Sections::read(file).names(), std::vector<std::string>{"a"});
  EXPECT_EQ(folder.size(), 1u);
}

TEST(Sections, ErrorsNameTheFile) {
  Folder folder;
  const auto text_of = [](const auto& work) -> std::string {
    try {
      work();
    } catch (const Error& error) {
      return error.what();
    }
    return "";
  };
  const auto missing = folder.path / "missing", nowhere = folder.path / "no" / "folder", text = folder.path / "text";
  EXPECT_EQ(text_of([&] { Sections::read(missing); }),
            fmt::format("[file] cannot open \"{}\": No such file or directory.", missing.string()));
  EXPECT_EQ(text_of([&] { Sections::read(folder.path); }),
            fmt::format("[file] \"{}\" is not a file.", folder.path.string()));
  EXPECT_EQ(text_of([&] { example().write(nowhere); }),
            fmt::format("[file] cannot write \"{}\": there is no folder \"{}\". Make it first.", nowhere.string(),
                        nowhere.parent_path().string()));
  std::ofstream(text) << "hello";
  EXPECT_EQ(text_of([&] { Sections::read(text); }),
            fmt::format("[program file] \"{}\" cannot be used: it has 5 bytes, less than any program. Write it again, "
                        "or use another one.",
                        text.string()));
}

}  // namespace
}  // namespace aspen::testing
