#include "aspen/program_file/choice_file.h"

#include <cstdlib>
#include <mutex>
#include <system_error>
#include <vector>

#include "aspen/base/log.h"
#include "aspen/program_file/program_file.h"
#include "aspen/program_file/turn.h"

namespace aspen {
namespace {

namespace fs = std::filesystem;

constexpr const char *kChoices = "choices", *kUnfinished = ".unfinished";

struct StoredChoice {
  std::string request, candidate;
};

template <class Stream>
void visit(Stream& stream, StoredChoice& choice) {
  auto& [request, candidate] = choice;
  stream(request, candidate);
}

struct Writer : ByteWriter<Writer> {};
struct Reader : ByteReader<Reader> {
  using ByteReader::ByteReader;
};

void store(Sections& file, const ChoiceTable::Choices& choices, const ProgramOrigin& origin) {
  std::vector<StoredChoice> stored;
  for (const auto& [request, candidate] : choices) stored.push_back({request, candidate});
  Writer writer;
  writer(stored);
  store_origin(file, origin);
  file.set(kChoices, writer.take());
}

ChoiceTable::Choices load(const Sections& file, const ProgramOrigin& origin) {
  if (origin_of(file) != origin) throw FileError("it was written by another version or for another backend");
  std::vector<StoredChoice> stored;
  Reader reader(file.get(kChoices));
  reader(stored);
  reader.expect_end();
  ChoiceTable::Choices choices;
  for (StoredChoice& choice : stored) choices[std::move(choice.request)] = std::move(choice.candidate);
  if (choices.size() != stored.size()) throw FileError("it answers the same request twice");
  return choices;
}

class ChoiceFile final : public ChoiceTable {
 public:
  ChoiceFile(fs::path file, ProgramOrigin origin) : file_(std::move(file)), origin_(std::move(origin)) {}

  Choices known() override {
    std::lock_guard lock(mutex_);
    decided_.merge(read());
    return decided_;
  }

  void extend(const Decide& decide) override {
    std::lock_guard lock(mutex_);
    std::error_code error;
    fs::create_directories(file_.parent_path(), error);
    const Turn turn(fs::path(file_).concat(kUnfinished));
    Choices kept = read();
    decided_.insert(kept.begin(), kept.end());
    const Decided decided = decide(decided_, turn.is_held());
    for (const Choices& choices : {decided.timed, decided.by_rule}) {
      for (const auto& [request, candidate] : choices) decided_[request] = candidate;
    }
    if (decided.timed.empty()) return;
    for (const auto& [request, candidate] : decided.timed) kept[request] = candidate;
    write(kept);
  }

 private:
  Choices read() const {
    std::error_code error;
    if (!fs::exists(file_, error)) return {};
    try {
      return load(Sections::read(file_), origin_);
    } catch (const std::exception& refused) {
      log::debug("[kernels] choices in {} cannot be used and are made anew: {}", file_.string(), refused.what());
      return {};
    }
  }

  void write(const Choices& choices) const {
    try {
      Sections sections;
      store(sections, choices, origin_);
      sections.write(file_);
    } catch (const std::exception& refused) {
      log::warn("which kernels are faster is not kept in \"{}\": {}", file_.parent_path().string(), refused.what());
    }
  }

  const fs::path file_;
  const ProgramOrigin origin_;
  std::mutex mutex_;
  Choices decided_;  // by this process or before; the first decision holds
};

}  // namespace

void store_choices(Sections& file, const ChoiceTable::Choices& choices, const Backend& backend) {
  store(file, choices, current_origin(backend));
}

ChoiceTable::Choices load_choices(const Sections& file, const Backend& backend) {
  return load(file, current_origin(backend));
}

fs::path choice_folder() {
  const auto folder_in = [](const char* variable) {
    const char* value = std::getenv(variable);
    return fs::path(value == nullptr ? "" : value);
  };
  if (fs::path chosen = folder_in("ASPEN_CHOICES_DIR"); !chosen.empty()) return chosen;
  if (fs::path caches = folder_in("XDG_CACHE_HOME"); caches.is_absolute()) return caches / "aspen";
  fs::path home = folder_in("HOME");
  return home.empty() ? home : home / ".cache" / "aspen";
}

std::shared_ptr<ChoiceTable> choices_in(const fs::path& folder, const Backend& backend) {
  static std::mutex mutex;
  static std::map<fs::path, std::shared_ptr<ChoiceTable>>& tables =
      *new std::map<fs::path, std::shared_ptr<ChoiceTable>>;
  ProgramOrigin origin = current_origin(backend);
  const std::string text = fmt::format("{}\n{}\n{}", origin.version, origin.ops, origin.backend);
  const std::string name = fmt::format("kernels-{:016x}.aspen", checksum(std::as_bytes(std::span(text))));
  std::error_code error;
  fs::path file = fs::weakly_canonical(folder, error) / name;
  std::lock_guard lock(mutex);
  std::shared_ptr<ChoiceTable>& table = tables[file];
  if (table == nullptr) table = std::make_shared<ChoiceFile>(file, std::move(origin));
  return table;
}

}  // namespace aspen
