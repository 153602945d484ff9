#include "train/commands/output.hpp"

#include <filesystem>
#include <fstream>

#include "autograd/check.hpp"
#include "train/run/safetensors.hpp"

namespace tapestry {
namespace {

namespace fs = std::filesystem;

std::string stem_of(const std::string& out) {
  for (const char* ending : {".csv", ".png", ".svg"})
    if (out.ends_with(ending)) return out.substr(0, out.size() - 4);
  return out;
}

}  // namespace

void write_bytes(const std::string& path, const std::string& bytes) {
  const fs::file_status status = fs::symlink_status(path);
  if (!fs::exists(status) || fs::is_regular_file(status))
    return write_file_atomically(path, {bytes});
  std::ofstream stream(path, std::ios::binary);
  stream << bytes << std::flush;
  if (!stream) throw std::runtime_error(fmt::format("{}: cannot write", path));
}

void draw_both(const std::string& out, const std::function<void(const std::string&)>& draw) {
  for (const char* ending : {".png", ".svg"}) {
    const std::string path = stem_of(out) + ending;
    draw(path);
    fmt::print("{}\n", path);
  }
}

void write_table_and_plot(const std::string& out, const std::string& csv,
                          const std::function<void(const std::string&)>& draw) {
  const std::string path = stem_of(out) + ".csv";
  write_bytes(path, csv);
  fmt::print("{}\n", path);
  draw_both(out, draw);
}

}  // namespace tapestry
