#include <fmt/ranges.h>

#include <algorithm>
#include <filesystem>

#include "autograd/counted.hpp"
#include "data/input_file.hpp"
#include "data/text/printable.hpp"
#include "data/text/text.hpp"
#include "train/task.hpp"
#include "train/tools/init/init.hpp"

namespace tapestry {
namespace {

namespace fs = std::filesystem;
using Fit = Recognized::Fit;

// Returns what a file or folder looks like: "text that begins with \"a,b\"".
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
  std::size_t end = 0;  // of the characters that are complete
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
  expect_input(status.type() != fs::file_type::not_found, "{}: no such file or folder", path);
  expect_input(status.type() != fs::file_type::none, "{}: {}", path, failed.message());
  if (fs::is_directory(status))
    expect_input(!file_names(path).empty(), "{}: the folder is empty; expected data", path);
  else
    expect_input(InputFile(path).most_bytes() > 0, "{}: the file is empty; expected data", path);
}

// Returns why no task reads the data: the fact of each message, without path and advice, once.
std::string reasons(const std::vector<FoundData>& all) {
  std::vector<std::pair<std::string, std::string>> names_by_fact;
  for (const FoundData& found : all) {
    if (found.data.fit != Fit::refused) continue;
    std::string fact = found.data.refusal;
    if (fact.starts_with(found.path + ": ")) fact.erase(0, found.path.size() + 2);
    fact = fact.substr(0, fact.find("; "));
    const auto same =
        std::ranges::find(names_by_fact, fact, [](const auto& pair) { return pair.first; });
    if (same == names_by_fact.end())
      names_by_fact.emplace_back(fact, found.data.name);
    else
      same->second += ", " + found.data.name;
  }
  std::string text;
  for (const auto& [fact, names] : names_by_fact)
    text += fmt::format("{}{}: {}", text.empty() ? "" : "; ", names, fact);
  return text;
}

}  // namespace

FoundData recognize_data(const std::string& path, const std::string& wanted) {
  require_content(path);
  std::vector<FoundData> all;
  std::vector<std::string> names;
  for (const auto& [task, spec] : task_registry()) {
    if (!spec.recognize) continue;
    for (Recognized& data : spec.recognize(path)) {
      names.push_back(data.name);
      if (wanted.empty() || wanted == data.name || wanted == task)
        all.push_back({.path = path, .task = task, .data = std::move(data)});
    }
  }
  expect_input(!all.empty(), "--task {}: expected one of {}", wanted, fmt::join(names, ", "));
  std::ranges::stable_sort(all, std::ranges::greater(),
                           [](const FoundData& found) { return found.data.fit; });
  const Fit best = all.front().data.fit;
  std::vector<std::string> readable, equal;
  for (const FoundData& found : all) {
    if (found.data.fit != Fit::refused) readable.push_back(found.data.name);
    if (found.data.fit == best) equal.push_back("--task " + found.data.name);
  }
  expect_input(best != Fit::refused, "{}: {}, which no task reads: {}", path, appearance(path),
               reasons(all));
  expect_input(best != Fit::on_request || !wanted.empty(),
               "{}: {}; add --task {} to train on it as {}; {}", path, appearance(path),
               readable.front(), readable.front(), reasons(all));
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
