#include <fmt/ranges.h>

#include <algorithm>
#include <filesystem>

#include "autograd/counted.hpp"
#include "data/input_file.hpp"
#include "data/text/printable.hpp"
#include "data/text/text.hpp"
#include "train/task_spec.hpp"
#include "train/tools/init/init.hpp"

namespace tapestry {
namespace {

namespace fs = std::filesystem;
using Fit = Recognized::Fit;

// Returns a description of a file or folder: "text that begins with \"a,b\"".
std::string appearance(const std::string& path) {
  if (is_pattern(path)) return "a pattern of files";
  if (fs::is_directory(path)) {
    const std::vector<std::string> names = file_names(path);
    std::vector<std::string> first(names.begin(),
                                   names.begin() + std::min<std::ptrdiff_t>(3, std::ssize(names)));
    return fmt::format("a folder of {} ({}{})", counted(std::ssize(names), "entry", "entries"),
                       list_briefly(first), names.size() > first.size() ? ", …" : "");
  }
  std::string beginning(40, '\0');
  InputFile file(path);
  beginning.resize(file.read(beginning));
  std::size_t end = 0;  // end of the complete characters
  while (end < beginning.size()) {
    const CodePoint point = code_point_at(beginning, end);
    if (point.bytes == 0 || (point.value < ' ' && !std::isspace(static_cast<int>(point.value))))
      break;
    end += point.bytes;
  }
  if (end + 3 < beginning.size()) {
    std::string bytes;
    for (const unsigned char byte : beginning.substr(0, 8)) bytes += fmt::format(" {:02x}", byte);
    return "a binary file that begins with" + bytes;
  }
  const std::string line = beginning.substr(0, std::min(end, beginning.find('\n')));
  return fmt::format("text that begins with \"{}\"", printable(line));
}

// Throws InputError unless the path is a readable file or folder with content.
void require_content(const std::string& path) {
  require_utf8(path, "DATA");  // a config is UTF-8
  if (is_pattern(path)) return;
  std::error_code failed;
  const fs::file_status status = fs::status(path, failed);
  expect_input(status.type() != fs::file_type::not_found,
               "{}: no such file or folder; check the path", path);
  expect_input(status.type() != fs::file_type::none,
               "{}: cannot be read: {}; check the path and its permissions", path,
               failed.message());
  if (fs::is_directory(status))
    expect_input(!file_names(path).empty(),
                 "{}: the folder is empty; expected data; give another path", path);
  else
    expect_input(InputFile(path).most_bytes() > 0,
                 "{}: the file is empty; expected data; give another path", path);
}

// Returns why the data are not of a kind: "as text: 6 characters, expected at least 1000; give a
// longer text". A reason with more than `most` bytes loses its advice, and is cut to `most` bytes.
std::string reason(const FoundData& found, std::size_t most) {
  std::string why = found.data.refusal;
  if (why.starts_with(found.path + ": ")) why.erase(0, found.path.size() + 2);
  const std::size_t advice = why.find("; ");
  if (advice == why.npos || why.size() > most) {
    why = why.substr(0, advice);
    why = (why.size() > most ? why.substr(0, most) + "…" : why) + "; correct the data";
  }
  return fmt::format("as {}: {}", found.data.kind, printable(why));
}

// Returns how many bytes of two lines are left beside a part of a message; at least 60.
std::size_t left_of(const std::string& part) {
  constexpr std::size_t most = 180;  // beside the name of the program, the kind, and an advice
  return most - std::min(part.size(), most - 60);
}

// Returns the message for data of none of the kinds. `nearest` is the most similar kind.
std::string refusal(const FoundData& nearest, const std::vector<std::string>& kinds) {
  const std::string& path = nearest.path;
  if (kinds.size() == 1 || nearest.data.fit != Fit::refused)
    return fmt::format("{}: {}", path, reason(nearest, left_of(path)));
  return fmt::format("{}: expected {} or {}; found {}; give other data", path,
                     fmt::join(kinds.begin(), kinds.end() - 1, ", "), kinds.back(),
                     appearance(path));
}

// Returns the message for data that are read as `possible` only on request.
std::string request(const std::vector<FoundData>& all, const FoundData& possible) {
  const std::string &path = possible.path, &name = possible.data.name;
  const auto similar =
      std::ranges::find(all, Fit::similar, [](const FoundData& found) { return found.data.fit; });
  const std::string advice = fmt::format("add --task {} to train on these data as {}", name, name);
  return similar == all.end()
             ? fmt::format("{}: found {}; {}", path, appearance(path), advice)
             : fmt::format("{}: {}; or {}", path, reason(*similar, left_of(path + advice)), advice);
}

}  // namespace

FoundData recognize_data(const std::string& path, const std::string& wanted) {
  require_content(path);
  std::vector<FoundData> all;
  std::vector<std::string> names, kinds;
  for (const auto& [task, spec] : task_registry()) {
    if (!spec.recognize) continue;
    for (Recognized& data : spec.recognize(path)) {
      names.push_back(data.name);
      if (!wanted.empty() && wanted != data.name && wanted != task) continue;
      if (std::ranges::count(kinds, data.kind) == 0) kinds.push_back(data.kind);
      all.push_back({.path = path, .task = task, .data = std::move(data)});
    }
  }
  expect_input(!all.empty(), "--task {}: expected one of {}", wanted, fmt::join(names, ", "));
  std::ranges::stable_sort(all, std::ranges::greater(),
                           [](const FoundData& found) { return found.data.fit; });
  const Fit best = all.front().data.fit;
  std::vector<std::string> readable, equal;
  for (const FoundData& found : all) {
    if (found.data.fit >= Fit::on_request) readable.push_back(found.data.name);
    if (found.data.fit == best) equal.push_back("--task " + found.data.name);
  }
  // Of equally similar kinds the last is the most specific: a list of names is also a text.
  if (readable.empty()) throw InputError(refusal(all[equal.size() - 1], kinds));
  if (best == Fit::on_request && wanted.empty()) throw InputError(request(all, all.front()));
  expect_input(equal.size() == 1, "{}: {}, which can be read in several ways; add {}", path,
               appearance(path), fmt::join(equal, " or "));
  all.front().others.assign(readable.begin() + 1, readable.end());
  return std::move(all.front());
}

std::string show(const FoundData& found) {
  std::string text = fmt::format("{}: {}\n", printable(found.path), found.data.name);
  for (const auto& [name, value] : found.data.facts.items())
    text += fmt::format("  {:<22} {}\n", name,
                        value.is_string() ? printable(value.get<std::string>()) : value.dump());
  for (const std::string& problem : found.data.problems)
    text += fmt::format("  note: {}\n", printable(problem));
  for (const std::string& other : found.others)
    text += fmt::format("  also possible: --task {}\n", other);
  return text;
}

}  // namespace tapestry
