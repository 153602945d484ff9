#pragma once

#include <functional>
#include <map>
#include <string>
#include <utility>
#include <vector>

#include "autograd/check.hpp"

namespace tapestry {

// The file formats that one kind of data is read from, by name. Each format registers itself from
// its own source file, so that adding one touches no other.
template <class Data, class... Options>
class Formats {
 public:
  struct Format {
    std::string help;  // what to give, to complete "name …": "a CSV"
    std::function<Data(const std::string& path, const Options&... options)> read;
    // By the path and the names of files. Without it, a format takes what no other recognises.
    std::function<bool(const std::string& path)> recognises{};
  };

  void add(const std::string& name, Format format) { formats_[name] = std::move(format); }

  // Reads a file or folder in its format. InputError where no format takes it.
  Data read(const std::string& path, const Options&... options) const {
    const Format* chosen = nullptr;
    for (const auto& [name, format] : formats_) {
      const bool recognised = format.recognises && format.recognises(path);
      if (recognised || (chosen == nullptr && !format.recognises)) chosen = &format;
      if (recognised) break;
    }
    expect_input(chosen != nullptr, "{}: in no known format; give {}", path, help());
    return chosen->read(path, options...);
  }

  std::vector<std::string> names() const {
    std::vector<std::string> all;
    for (const auto& [name, format] : formats_) all.push_back(name);
    return all;
  }

  // "a CSV, or …"
  std::string help() const {
    std::string text;
    for (const auto& [name, format] : formats_) text += (text.empty() ? "" : ", or ") + format.help;
    return text;
  }

 private:
  std::map<std::string, Format> formats_;
};

template <class Registry>
struct RegisterFormat {
  RegisterFormat(Registry& formats, const std::string& name, typename Registry::Format format) {
    formats.add(name, std::move(format));
  }
};

}  // namespace tapestry
