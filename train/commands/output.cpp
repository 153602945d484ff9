#include "train/commands/output.hpp"

#include <fcntl.h>
#include <fmt/ranges.h>
#include <unistd.h>

#include <algorithm>
#include <cctype>
#include <cstdio>
#include <filesystem>
#include <utility>

#include "autograd/check.hpp"
#include "data/input_file.hpp"
#include "data/text/printable.hpp"
#include "train/plot/render.hpp"
#include "train/run/atomic_file.hpp"
#include "train/run/run.hpp"
#include "train/run/terminal.hpp"

namespace tapestry {
namespace {

namespace fs = std::filesystem;

struct NamedBytes {
  std::string path, bytes;
};

// Throws InputError if the name has the ending of another kind of file: ".pdf", but not "-0.5".
void expect_ending(const std::string& out, const std::vector<std::string>& endings) {
  const std::string name = fs::path(out).filename().string();
  expect_input(!name.empty() && name != "." && name != "..",
               "--out {}: is a folder; give the name of a file", out);
  const std::string ending = fs::path(out).extension().string();
  expect_input(ending.size() < 2 || !std::isalpha(static_cast<unsigned char>(ending[1])) ||
                   std::ranges::count(endings, ending) > 0,
               "--out {}: {} is not a supported format; expected a name that ends in {}, or "
               "without an ending",
               out, ending, fmt::join(endings, " or "));
}

// Returns the files that `out` names, all rendered before the first is written. Throws InputError
// if its ending is unknown.
std::vector<NamedBytes> rendered(const std::string& out, const Figure& figure,
                                 const std::string* csv = nullptr) {
  std::vector<std::string> endings;
  if (csv) endings.emplace_back(".csv");
  const std::vector<Format> formats = formats_of(figure);
  for (const Format format : formats) endings.push_back(ending_of(format));
  expect_ending(out, endings);
  const std::string own = fs::path(out).extension().string();
  const auto bytes_of = [&](const std::string& ending) {
    const auto format = std::ranges::find(formats, ending, ending_of);
    return format == formats.end() ? *csv : render(figure, *format);
  };
  if (endings.size() == 1) return {{out, bytes_of(endings.front())}};
  if (std::ranges::count(endings, own) > 0) return {{out, bytes_of(own)}};
  std::vector<NamedBytes> files;
  for (const std::string& ending : endings) files.push_back({out + ending, bytes_of(ending)});
  return files;
}

void expect_unread(const std::string& out, bool is_read, const std::string& option = "--out") {
  expect_input(!is_read, "{} {}: is a file that this command reads; give another name", option,
               out);
}

void write_files(const std::vector<NamedBytes>& files) {
  for (const NamedBytes& file : files) expect_unread(file.path, was_read(file.path));
  for (const NamedBytes& file : files) {
    write_bytes(file.path, file.bytes);
    say("{}\n", printable(file.path));
  }
}

// Returns the path to which links lead, also if nothing is there. Stops at a link in /proc, as
// /dev/stdout is one: it leads to an open file, not to a path.
std::string behind_links(const std::string& path) {
  constexpr int most_links = 40;
  fs::path at = path;
  std::error_code unseen;
  for (int links = 0; links < most_links && fs::is_symlink(at, unseen); ++links) {
    const fs::path folder = fs::canonical(folder_of(at), unseen);
    if (folder.string().starts_with("/proc/")) break;
    at = folder / fs::read_symlink(at, unseen);
  }
  return at;
}

}  // namespace

void write_bytes(const std::string& path, const std::string& bytes, const std::string& option) {
  const std::string target = behind_links(path);
  const Run run(folder_of(path));
  const bool is_run =
      is_there(run.config()) && (is_there(run.sessions()) || is_there(run.checkpoint()));
  expect_input(target == path || !is_run,
               "{} {}: is a link in the folder of a run; remove it, or give another name", option,
               path);
  const fs::file_status status = fs::symlink_status(target);
  expect_input(!fs::is_directory(status), "{} {}: is a folder; give the name of a file", option,
               path);
  expect_unread(path, was_read(path), option);
  if (!fs::exists(status) || fs::is_regular_file(status))
    return write_file_atomically(target, {bytes});
  File file(target, O_WRONLY | O_CREAT | O_TRUNC, path);
  file.write(isatty(file.descriptor()) != 0 ? printable_lines(bytes) : bytes);
  file.close();
}

void write_figure(const std::string& out, const Figure& figure) {
  write_files(rendered(out, figure));
}

void write_table_and_figure(const std::string& out, const std::string& csv, const Figure& figure) {
  write_files(rendered(out, figure, &csv));
}

void expect_text_file(const std::string& out) {
  const std::string ending = fs::path(out).extension().string();
  for (const char* of_pictures : {".png", ".svg", ".pdf", ".jpg", ".jpeg", ".gif"})
    expect_input(
        ending != of_pictures,
        "--out {}: the samples of this run are text, not a picture; expected the name of a "
        "text file, such as samples.txt",
        out);
}

std::string in_run(const std::string& run, const std::string& name) {
  return fs::is_directory(run) ? (fs::path(run) / name).string() : name;
}

std::string in_run(const std::string& run, const std::string& name, const Figure& figure) {
  const std::vector<Format> formats = formats_of(figure);
  return in_run(run, formats.size() == 1 ? name + ending_of(formats.front()) : name);
}

void show_as_it_comes(const std::function<void(const TextSink& write)>& stream) {
  std::string waiting;
  stream([&](std::string_view piece) {
    waiting += piece;
    const std::size_t shown = waiting.size() - (waiting.ends_with('\r') ? 1 : 0);
    print_lines(std::string_view(waiting).substr(0, shown));
    std::fflush(stdout);
    waiting.erase(0, shown);
  });
  print_lines(waiting);
}

void write_each_line(
    const std::string& file, const std::string& out,
    const std::function<std::string(std::string_view line, int number)>& converted) {
  const std::string all = read_text(file);
  std::string_view rest = all;
  std::string lines;
  for (int number = 1; const auto line = next_line(rest); ++number) {
    lines += converted(*line, number) + "\n";
    if (out.empty()) print_lines(std::exchange(lines, ""));
  }
  if (!out.empty()) write_bytes(out, lines);
}

void expect_not_of_a_run(const std::string& out, const std::string& option) {
  std::vector<std::string> files = Run("").files(), of_runs;
  files.push_back(Run("").ledger());
  for (const fs::path file : files) of_runs.push_back(file.filename().string());
  const fs::path target = behind_links(out);  // which would be written
  for (const fs::path& path : {fs::path(out), target}) {
    const std::string name = path.filename().string();
    expect_input(!name.ends_with(".safetensors") && !name.starts_with("events.out.tfevents") &&
                     std::ranges::count(of_runs, name) == 0,
                 "{} {}: {}is the name of a file of a run; give another name", option, out,
                 path == fs::path(out) ? "" : fmt::format("links to {}, which ", name));
  }
}

void expect_not_an_input(const std::string& out, const std::vector<std::string>& inputs) {
  std::error_code unseen;
  for (const std::string& input : inputs)
    expect_unread(out, fs::is_regular_file(input, unseen) && fs::equivalent(out, input, unseen));
}

}  // namespace tapestry
