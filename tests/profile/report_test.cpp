// What is made of a profile: the folder of a run, the trace, comparisons, texts, and aspen-report as users call it.
#include "aspen/profile/report.h"

#include <gtest/gtest.h>
#include <stdio.h>  // popen

#include <array>
#include <fstream>
#include <iterator>
#include <nlohmann/json.hpp>

#include "aspen/base/error.h"
#include "aspen/profile/compare.h"
#include "aspen/profile/profile_json.h"
#include "aspen/profile/summary_text.h"
#include "aspen/profile/trace_json.h"
#include "tests/profile/example_profile.h"
#include "tests/support/folder.h"

namespace aspen::testing {
namespace {

using namespace profile;  // NOLINT: what these tests are about
using Json = nlohmann::json;

std::string text_of(const std::filesystem::path& file) {
  std::ifstream stream(file);
  return {std::istreambuf_iterator<char>(stream), {}};
}

bool contains(const std::string& text, const std::string& part) { return text.find(part) != std::string::npos; }

TEST(Report, ARunLeavesAFolder) {
  const Folder folder;
  const auto run = folder.path / "some" / "training";
  write_run(run, example_profile({}));
  EXPECT_EQ(text_of(run / "profile.json"), text_of(run / "profile.pop"));
  EXPECT_FALSE(read_profile(run / "profile.json").analysis.advice.empty());
  EXPECT_TRUE(Json::parse(text_of(run / "trace.json")).contains("traceEvents"));
  EXPECT_EQ(std::filesystem::exists(run / "report.html"), has_page());
}

TEST(Report, AFolderThatCannotBeMadeIsNamed) {
  const Folder folder;
  std::ofstream(folder.file("taken")) << "a file";
  try {
    write_run(folder.path / "taken" / "run", Profile{});
    FAIL() << "wrote into a file";
  } catch (const UserError& error) {
    EXPECT_TRUE(contains(error.what(), "taken/run\"")) << error.what();
  }
}

TEST(Report, ThePageHoldsTheData) {
  Profile profile = example_profile({});
  profile.run.model = "</script>";
  if (!has_page()) {
    EXPECT_THROW(static_cast<void>(page(profile)), UserError);
    GTEST_SKIP() << "this build has no page: esbuild was not there";
  }
  const std::string html = page(profile);
  const std::string mark = "<script id=\"profile\" type=\"application/json\">";
  const std::size_t begin = html.find(mark) + mark.size();
  const std::string json = html.substr(begin, html.find("</script>", begin) - begin);
  EXPECT_EQ(from_json(json).run.model, "</script>");
  EXPECT_FALSE(contains(html, "http://")) << "a page needs no network";
  EXPECT_FALSE(contains(html, "https://")) << "a page needs no network";
}

TEST(Trace, HasEveryBlockAndOpInTime) {
  const Profile profile = example_profile({.devices = 2, .replicas = 2, .gradient_accumulation = 2});
  const Json trace = Json::parse(to_trace_json(profile));
  std::size_t blocks = 0, ops = 0;
  std::map<std::pair<int, int>, double> end;  // of the block under way
  for (const Json& event : trace["traceEvents"]) {
    if (event["ph"] != "X" || event["pid"] == profile.run.replicas) continue;
    const double begin = event["ts"], duration = event["dur"];
    if (event["cat"] == "op") {
      ++ops;
      EXPECT_LE(begin + duration, (end[{event["pid"], event["tid"]}]) + 0.01) << "ops lie within their block";
      EXPECT_TRUE(event["args"].contains("module"));
    } else {
      ++blocks;
      end[{event["pid"], event["tid"]}] = begin + duration;
    }
  }
  EXPECT_EQ(blocks, profile.trace.blocks.size());
  EXPECT_EQ(ops, profile.trace.op_durations.size());
}

TEST(Trace, LeavesOutOpsThatAreTooMany) {
  const Profile profile = example_profile({});
  const Json trace = Json::parse(to_trace_json(profile, 100));
  std::int64_t ops = 0;
  for (const Json& event : trace["traceEvents"]) ops += event.value("cat", "") == "op" ? 1 : 0;
  EXPECT_LE(ops, 100);
  EXPECT_EQ(trace["otherData"]["ops left out"], static_cast<std::int64_t>(profile.trace.op_durations.size()) - ops);
}

Profile finished(const ExampleModel& model) {
  Profile profile = example_profile(model);
  finish(profile);
  return profile;
}

TEST(Compare, TellsWhatGotSlowerAndWhatGrew) {
  const Profile before = finished({.slow_factor = 1}), after = finished({.slow_factor = 2});
  const Comparison comparison = compare(before, after);
  EXPECT_EQ(comparison.numbers[0].name, "Step time");
  EXPECT_GT(comparison.numbers[0].after, comparison.numbers[0].before);
  ASSERT_FALSE(comparison.ops.empty());
  // Only device 2 has more to do: layers 6, 7 and 8.
  for (const OpChange& row : comparison.ops) {
    EXPECT_TRUE(contains(row.module, "layers/6") || contains(row.module, "layers/7") ||
                contains(row.module, "layers/8"))
        << row.module;
    EXPECT_NEAR(row.after / row.before, 2, 0.2);
  }
  ASSERT_FALSE(comparison.buffers.empty());
  EXPECT_GT(comparison.buffers[0].after, comparison.buffers[0].before);
  EXPECT_TRUE(comparison.options.empty());
}

TEST(Compare, FindsNothingInEqualRuns) {
  const Profile profile = finished({});
  const Comparison comparison = compare(profile, profile);
  EXPECT_TRUE(comparison.ops.empty());
  EXPECT_TRUE(comparison.buffers.empty());
  EXPECT_TRUE(contains(summary_text(comparison), "same"));
}

TEST(Compare, NamesOptionsThatChanged) {
  const Comparison comparison = compare(finished({}), finished({.gradient_accumulation = 16}));
  ASSERT_EQ(comparison.options.size(), 1);
  EXPECT_EQ(comparison.options[0].name, "Training.gradientAccumulation");
  EXPECT_EQ(comparison.options[0].before, "8");
  EXPECT_EQ(comparison.options[0].after, "16");
}

TEST(SummaryText, SaysWhatThePageSays) {
  const std::string text = summary_text(finished({.budget = 160 << 20, .complete = false}));
  for (const char* part :
       {"training: training, pipelined, 1 x 4 devices; the run did not end", "step time", "samples/s",
        "what to look at first", "1. Device 0 is ", "How: options.", "stage", "always live", "encoder/layers/"}) {
    EXPECT_TRUE(contains(text, part)) << part << " is not in:\n" << text;
  }
}

struct Result {
  int code = 0;
  std::string text;  // of both outputs
};

Result aspen_report(const std::string& arguments) {
  Result result;
  FILE* pipe = ::popen((std::string(ASPEN_REPORT) + " " + arguments + " 2>&1").c_str(), "r");
  std::array<char, 4096> piece;
  while (const std::size_t size = ::fread(piece.data(), 1, piece.size(), pipe)) result.text.append(piece.data(), size);
  result.code = WEXITSTATUS(::pclose(pipe));
  return result;
}

TEST(AspenReport, MakesAPageATraceAndAText) {
  const Folder folder;
  write_run(folder.path / "run", example_profile({}));
  write_run(folder.path / "before", example_profile({.slow_factor = 1}));
  const std::string run = (folder.path / "run").string(), before = (folder.path / "before").string();
  Result result = aspen_report(run + " --text");
  EXPECT_EQ(result.code, 0) << result.text;
  EXPECT_EQ(result.text, summary_text(finished({})));
  result = aspen_report(run + "/profile.pop --text --compare " + before);
  EXPECT_TRUE(contains(result.text, "change")) << result.text;
  result = aspen_report(run + " --trace " + folder.file("t.json"));
  EXPECT_EQ(result.code, 0) << result.text;
  EXPECT_EQ(text_of(folder.file("t.json")), text_of(folder.path / "run" / "trace.json"));
  result = aspen_report(run + " --page " + folder.file("page.html") + " --compare " + before);
  EXPECT_EQ(result.code, has_page() ? 0 : 1) << result.text;
  EXPECT_EQ(contains(text_of(folder.file("page.html")), "id=\"comparison\""), has_page());
}

TEST(AspenReport, NamesWhatIsWrong) {
  const Folder folder;
  EXPECT_EQ(aspen_report("").code, 1);
  EXPECT_TRUE(contains(aspen_report("--help").text, "usage: aspen-report"));
  EXPECT_TRUE(contains(aspen_report("--nothing").text, "there is no option \"--nothing\""));
  EXPECT_TRUE(contains(aspen_report("a b").text, "one profile too many"));
  EXPECT_TRUE(contains(aspen_report("--compare").text, "--compare wants a file"));
  EXPECT_TRUE(contains(aspen_report(folder.file("none.json")).text, "cannot open"));
  std::ofstream(folder.file("bad.json")) << "{}";
  const Result result = aspen_report(folder.file("bad.json"));
  EXPECT_EQ(result.code, 1);
  EXPECT_TRUE(contains(result.text, "this is no profile") && contains(result.text, "bad.json")) << result.text;
}

}  // namespace
}  // namespace aspen::testing
