// Files of compiled models, for both languages: where they are written, and errors that name them.
#pragma once

#include <string>

#include "aspen/program_file/sections.h"

namespace poptorch {

// Where to write what is to be saved as `path`: missing folders are made; in a folder, a file named model.poptorch,
// with a warning. who: the function that was called, for errors.
std::string export_path(const std::string& path, const char* who);

// An Error names the file, whatever is wrong with it.
void write_model_file(const aspen::Sections& file, const std::string& path, const char* who);
aspen::Sections read_model_file(const std::string& path, const char* who);

// Does `work` with the contents of a file; what does not fit becomes an Error that names it.
template <class Work>
auto using_model_file(const std::string& path, const char* who, const Work& work);

[[noreturn]] void refuse_model_file(const std::string& path, const char* who, const std::string& why);

template <class Work>
auto using_model_file(const std::string& path, const char* who, const Work& work) {
  try {
    return work();
  } catch (const aspen::FileError& error) {
    refuse_model_file(path, who, error.what());
  }
}

}  // namespace poptorch
