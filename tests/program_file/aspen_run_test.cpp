// aspen-run as users call it, on programs made here.
#include <gtest/gtest.h>
#include <stdio.h>  // popen

#include <array>
#include <fstream>

#include "apps/aspen-run/npy.h"
#include "aspen/compiler/compile.h"
#include "aspen/compiler/ir/parser.h"
#include "aspen/profile/profile_json.h"
#include "aspen/program_file/program_file.h"
#include "example_programs.h"
#include "tests/support/backends.h"
#include "tests/support/folder.h"

namespace aspen::testing {
namespace {

namespace fs = std::filesystem;

struct Result {
  int code = 0;
  std::string text;  // of both outputs
};

Result call(const std::string& command) {
  Result result;
  FILE* pipe = ::popen((command + " 2>&1").c_str(), "r");
  std::array<char, 4096> piece;
  while (const std::size_t size = ::fread(piece.data(), 1, piece.size(), pipe)) result.text.append(piece.data(), size);
  result.code = WEXITSTATUS(::pclose(pipe));
  return result;
}

Result aspen_run(const std::string& arguments) { return call(std::string(ASPEN_RUN) + " " + arguments); }

// y = x w + b, two rows at a time; shifted: the labels and one.
constexpr const char* kLinear = R"(graph @main(%x: f32[2, 3], %label: i32[2]) {
  variable %w: f32[3, 2] parameter
  variable %b: f32[2] parameter
  %0: f32[2, 2] = dot(%x, %w)
  %1: f32[2, 2] = add(%0, %b)
  %2: i32[] = full() {dtype=i32, value=1}
  %3: i32[2] = add(%label, %2)
  return y: %1, "odd/../name": %3
})";

// The backend that aspen-run was built with: the last one.
std::shared_ptr<Backend> best() { return built_backends().back(); }

template <class T>
Array array(DType type, Shape shape, const std::vector<T>& values) {
  const auto bytes = std::as_bytes(std::span(values));
  return {.type = {type, std::move(shape)}, .bytes = {bytes.begin(), bytes.end()}};
}

template <class T>
std::vector<T> values(const Array& array) {
  std::vector<T> result(array.bytes.size() / sizeof(T));
  std::memcpy(result.data(), array.bytes.data(), array.bytes.size());
  return result;
}

class AspenRun : public ::testing::Test {
 protected:
  AspenRun() {
    write_npy(in("x.npy"), array<float>(DType::kF32, {4, 3}, {1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12}));
    write_npy(in("label.npy"), array<std::int32_t>(DType::kI32, {4}, {5, 6, 7, 8}));
  }
  fs::path in(const std::string& name) const { return folder_.path / name; }

  void store(const std::string& text, const CompileOptions& options, const char* name = "program") const {
    auto graph = parse_graph(text);
    Executor executor(compile(*graph, options, *best()));
    const std::vector<float> w = {1, 0, 0, 1, 0, 0}, b = {100, 200};
    if (executor.program().variables.size() == 2) {
      executor.write_variable("w", std::as_bytes(std::span(w)));
      executor.write_variable("b", std::as_bytes(std::span(b)));
    }
    stored(executor, *best()).write(in(name));
  }

  Result run(const std::string& arguments) const {
    std::string text = arguments;
    for (std::size_t at = 0; (at = text.find("@/", at)) != std::string::npos;)
      text.replace(at, 1, folder_.path.string());
    return aspen_run(text);
  }

  Folder folder_;
};

TEST_F(AspenRun, RunsAllBatchesOfTheFiles) {
  for (std::size_t replicas : {1, 2}) {
    store(kLinear, {.replicas = replicas});
    const Result result = run("@/program x=@/x.npy label=@/label.npy --output @/ --threads 2");
    EXPECT_EQ(result.code, 0) << result.text;
    const Array y = read_npy(in("y.npy"));
    EXPECT_EQ(y.type, (TensorType{DType::kF32, {4, 2}}));
    EXPECT_EQ(values<float>(y), (std::vector<float>{101, 202, 104, 205, 107, 208, 110, 211}));
    const Array shifted = read_npy(in("odd_.._name.npy"));
    EXPECT_EQ(values<std::int32_t>(shifted), (std::vector<std::int32_t>{6, 7, 8, 9}));
    fs::remove(in("y.npy"));
  }
}

TEST_F(AspenRun, LeavesAProfileIfAskedTo) {
  store(kLinear, {});
  EXPECT_EQ(run("@/program x=@/x.npy label=@/label.npy --output @/ --profile @/profiles").code, 0);
  const profile::Profile profile = profile::read_profile(in("profiles") / "inference" / "profile.pop");
  EXPECT_TRUE(profile.run.complete);
  ASSERT_EQ(profile.calls.size(), 1);
  EXPECT_EQ(profile.calls[0].samples, 4);
  EXPECT_FALSE(profile.trace.blocks.empty());
}

TEST_F(AspenRun, LeavesAProfileIfTheEnvironmentAsksForIt) {
  store(kLinear, {});
  setenv("POPLAR_ENGINE_OPTIONS",
         fmt::format(R"({{"autoReport.all": "true", "autoReport.directory": "{}"}})", in("said").string()).c_str(), 1);
  EXPECT_EQ(run("@/program x=@/x.npy label=@/label.npy --output @/").code, 0);
  EXPECT_TRUE(fs::exists(in("said") / "inference" / "profile.pop"));
  setenv("POPLAR_ENGINE_OPTIONS", "{", 1);
  EXPECT_EQ(run("@/program x=@/x.npy label=@/label.npy --output @/").text,
            "aspen-run: [POPLAR_ENGINE_OPTIONS] expected a JSON object of engine options.\n");
  unsetenv("POPLAR_ENGINE_OPTIONS");
}

TEST_F(AspenRun, SaysWhatAProgramTakes) {
  store(kLinear, {});
  const Result result = run("@/program");
  EXPECT_EQ(result.code, 0);
  EXPECT_EQ(result.text,
            "input  x: f32[2, 3]\ninput  label: i32[2]\noutput y: f32[2, 2]\noutput odd/../name: i32[2]\n");
}

// A program takes int32 or int64, as the model it was made of; files may hold either.
TEST_F(AspenRun, IntegersOf32And64BitsFitEitherInput) {
  write_npy(in("wide.npy"), array<std::int64_t>(DType::kI64, {4}, {5, -6, 2147483646, 8}));
  write_npy(in("narrow.npy"), array<std::int32_t>(DType::kI32, {4}, {5, -6, 2147483646, 8}));
  write_npy(in("large.npy"), array<std::int64_t>(DType::kI64, {4}, {5, 6, 4294967296, 8}));
  std::string wide = kLinear;
  wide.replace(wide.find("%label: i32[2]"), 14, "%label: i32[2] wide");
  for (const std::string& text : {std::string(kLinear), wide}) {
    store(text, {});
    for (const char* file : {"wide.npy", "narrow.npy"}) {
      const Result result = run(fmt::format("@/program x=@/x.npy label=@/{} --output @/", file));
      EXPECT_EQ(result.code, 0) << result.text;
      EXPECT_EQ(values<std::int32_t>(read_npy(in("odd_.._name.npy"))),
                (std::vector<std::int32_t>{6, -5, 2147483647, 9}));
    }
    const Result result = run("@/program x=@/x.npy label=@/large.npy --output @/");
    EXPECT_EQ(result.code, 1);
    EXPECT_NE(result.text.find("holds 4294967296"), std::string::npos) << result.text;
  }
  EXPECT_NE(run("@/program").text.find("input  label: i64[2]\n"), std::string::npos);
}

TEST_F(AspenRun, HelpsOnRequest) {
  const Result asked = aspen_run("--help"), unasked = aspen_run("");
  EXPECT_EQ(asked.code, 0);
  EXPECT_EQ(unasked.code, 2);
  EXPECT_EQ(asked.text, unasked.text);
  for (const char* word : {"usage: aspen-run PROGRAM", "INPUT=FILE.npy", "--output", "--threads", "first axis"}) {
    EXPECT_NE(asked.text.find(word), std::string::npos) << word;
  }
}

TEST_F(AspenRun, ErrorsNameFileInputShapesAndRule) {
  store(kLinear, {});
  const std::string folder = folder_.path.string();
  write_npy(in("wide.npy"), array<float>(DType::kF32, {1, 4}, {1, 2, 3, 4}));
  write_npy(in("one.npy"), array<std::int32_t>(DType::kI32, {2}, {1, 2}));
  std::ofstream(in("text.npy")) << "hello";
  const auto expect_error = [&](const std::string& arguments, const std::string& text) {
    const Result result = run(arguments);
    EXPECT_EQ(result.code, 1);
    EXPECT_EQ(result.text, "aspen-run: " + text + "\n");
  };
  expect_error("@/nothing", fmt::format("[file] cannot open \"{}/nothing\": No such file or directory.", folder));
  expect_error("@/text.npy", fmt::format("[program file] \"{}/text.npy\" cannot be used: it has 5 bytes, less than any "
                                         "program. Write it again, or use another one.",
                                         folder));
  expect_error("@/program z=@/x.npy", "the program has no input \"z\"; it has x, label.");
  expect_error("@/program x=@/x.npy", "input \"label\" (i32[2]) is missing; give label=FILE.npy.");
  expect_error("@/program x=@/x.npy x=@/x.npy", "input \"x\" is given twice.");
  expect_error(
      "@/program x=@/wide.npy label=@/label.npy",
      fmt::format("input \"x\" is f32[2, 3], and \"{}/wide.npy\" holds f32[1, 4]; expected that shape and type, "
                  "or several of it along the first axis.",
                  folder));
  expect_error("@/program x=@/label.npy label=@/label.npy",
               fmt::format("input \"x\" is f32[2, 3], and \"{}/label.npy\" holds i32[4]; expected that shape and type, "
                           "or several of it along the first axis.",
                           folder));
  expect_error(
      "@/program x=@/x.npy label=@/one.npy",
      fmt::format("\"{}/one.npy\" holds 1 batches for input \"label\", and the files before it hold 2; expected "
                  "as many.",
                  folder));
  expect_error("@/program x=@/text.npy label=@/label.npy",
               fmt::format("[npy] \"{}/text.npy\" is no .npy file.", folder));
  expect_error("@/program x=@/x.npy label=@/label.npy --output @/nowhere",
               fmt::format("--output \"{}/nowhere\" is not a folder.", folder));
  expect_error("@/program more", "\"more\" is neither INPUT=FILE.npy nor an option; see aspen-run --help.");
  expect_error("@/program --fast", "there is no option \"--fast\"; see aspen-run --help.");
  expect_error("@/program --threads many", "--threads takes a number from 1 to 4096, not \"many\".");
}

TEST_F(AspenRun, RefusesWhatItCannotRun) {
  std::shared_ptr<Program> trains = training_programs(*best()).front().program;
  Executor executor(trains);
  stored(executor, *best()).write(in("trains"));
  const Result result = run("@/trains x=@/x.npy t=@/x.npy");
  EXPECT_NE(result.text.find("is a program that trains; export an inferenceModel"), std::string::npos) << result.text;
  store(kLinear, {.replicas = 2});
  write_npy(in("half.npy"), array<float>(DType::kF32, {2, 3}, {1, 2, 3, 4, 5, 6}));
  write_npy(in("one.npy"), array<std::int32_t>(DType::kI32, {2}, {1, 2}));
  EXPECT_EQ(run("@/program x=@/half.npy label=@/one.npy").text,
            "aspen-run: the program takes 2 batches at once, on 2 replicas; 1 cannot be shared out.\n");
}

TEST_F(AspenRun, AProgramOfANewerVersionIsRefused) {
  store(kLinear, {});
  std::fstream file(in("program"), std::ios::in | std::ios::out | std::ios::binary);
  file.seekp(8).put('\x05');
  file.close();
  EXPECT_EQ(run("@/program").text,
            fmt::format("aspen-run: [program file] \"{}/program\" cannot be used: it is written in format 5, and this "
                        "version reads format 4; export the model again. Write it again, or use another one.\n",
                        folder_.path.string()));
}

TEST(AspenRunBinary, IsLinkedAgainstNeitherTorchNorPython) {
  const Result result = call(std::string("LC_ALL=C ldd ") + ASPEN_RUN);
  ASSERT_EQ(result.code, 0) << result.text;
  EXPECT_NE(result.text.find("libc.so"), std::string::npos) << result.text;
  for (const char* library : {"libtorch", "libpython", "libc10"}) {
    EXPECT_EQ(result.text.find(library), std::string::npos) << result.text;
  }
}

// -- files of numpy ---------------------------------------------------------------------------------------------------
// As numpy.save writes it: header of 128 bytes.
std::string npy(const std::string& dict, const std::string& numbers) {
  std::string header = dict;
  header.resize(117, ' ');
  return std::string("\x93NUMPY\x01\x00\x76\x00", 10) + header + "\n" + numbers;
}

std::string refusal(const std::string& contents) {
  Folder folder;
  std::ofstream(folder.path / "a.npy", std::ios::binary) << contents;
  try {
    read_npy(folder.path / "a.npy");
  } catch (const UserError& error) {
    return std::string(error.what()).substr(fmt::format("[npy] \"{}\" ", (folder.path / "a.npy").string()).size());
  }
  return "";
}

TEST(Npy, ReadsWhatNumpyWrites) {
  Folder folder;
  const auto read = [&](const std::string& dict, const std::string& numbers) {
    std::ofstream(folder.path / "a.npy", std::ios::binary) << npy(dict, numbers);
    return read_npy(folder.path / "a.npy");
  };
  const Array wide = read("{'descr': '<i8', 'fortran_order': False, 'shape': (2,), }",
                          std::string("\x01\0\0\0\0\0\0\0\xff\xff\xff\xff\xff\xff\xff\xff", 16));
  EXPECT_EQ(wide.type, (TensorType{DType::kI64, {2}}));
  EXPECT_EQ(values<std::int64_t>(wide), (std::vector<std::int64_t>{1, -1}));
  const Array scalar =
      read("{'descr': '<f8', 'fortran_order': False, 'shape': (), }", std::string("\0\0\0\0\0\0\xf8\x3f", 8));
  EXPECT_EQ(scalar.type, (TensorType{DType::kF32, {}}));
  EXPECT_EQ(values<float>(scalar), std::vector<float>{1.5f});
  const Array flags = read("{'descr': '|b1', 'fortran_order': False, 'shape': (1, 2), }", std::string("\x01\0", 2));
  EXPECT_EQ(flags.type, (TensorType{DType::kBool, {1, 2}}));
}

TEST(Npy, ComesBackAsItWas) {
  Folder folder;
  for (const auto& [type, shape] : {std::pair(DType::kF16, Shape{3}),
                                    {DType::kI8, {2, 2}},
                                    {DType::kI64, {3}},
                                    {DType::kF32, {}},
                                    {DType::kF32, {0, 4}}}) {
    Array before{.type = {type, shape}};
    before.bytes.resize(before.type.bytes(), std::byte{3});
    write_npy(folder.path / "a.npy", before);
    const Array after = read_npy(folder.path / "a.npy");
    EXPECT_EQ(after.type, before.type);
    EXPECT_EQ(after.bytes, before.bytes);
    EXPECT_EQ((fs::file_size(folder.path / "a.npy") - before.bytes.size()) % 64, 0u);
  }
}

TEST(Npy, RefusalsSayWhatIsWrong) {
  EXPECT_EQ(refusal("text"), "is no .npy file.");
  EXPECT_EQ(refusal(std::string("\x93NUMPY\x01\x00\x76\x00{}", 12)), "ends within its header.");
  EXPECT_EQ(refusal(npy("{'descr': '<f4', 'fortran_order': True, 'shape': (2, 2), }", std::string(16, '\0'))),
            "is in column-major order; save numpy.ascontiguousarray of it.");
  EXPECT_EQ(refusal(npy("{'descr': '>f4', 'fortran_order': False, 'shape': (1,), }", std::string(4, '\0'))),
            "holds numbers of type \">f4\"; a program takes float16, float32, float64, int8 to int64, uint8 and bool.");
  EXPECT_EQ(refusal(npy("{'descr': '<f4', 'fortran_order': False, 'shape': (3,), }", std::string(4, '\0'))),
            "has 4 bytes of numbers where f32[3] has 12.");
  EXPECT_NE(refusal(npy("{'descr': '<f4', 'fortran_order': False, 'shape': (999999999999999999999,), }", "")), "");
  EXPECT_NE(
      refusal(npy("{'descr': '<f4', 'fortran_order': False, 'shape': (2000000000, 2000000000, 2000000000), }", "")),
      "");
}

}  // namespace
}  // namespace aspen::testing
