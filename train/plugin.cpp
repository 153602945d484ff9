#include "train/plugin.hpp"

#include <dlfcn.h>
#include <fmt/format.h>
#include <link.h>

#include <algorithm>
#include <filesystem>
#include <set>
#include <span>

#include "autograd/check.hpp"
#include "autograd/checksum.hpp"
#include "autograd/engine.hpp"
#include "data/input_file.hpp"
#include "data/text/printable.hpp"
#include "optim/optimizer.hpp"

namespace tapestry {
namespace {

bool is_name(std::string_view text) {
  constexpr std::string_view allowed =
      "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_-";
  return !text.empty() && text.find_first_not_of(allowed) == text.npos;
}

bool is_checksum(std::string_view text) {
  return text.size() == 16 && text.find_first_not_of("0123456789abcdef") == text.npos;
}

// Returns the name of a plug-in: "mine" of build/libmine.so.
std::string name_of(const std::string& file) {
  std::string name = std::filesystem::path(file).filename().string();
  if (name.starts_with("lib")) name.erase(0, 3);
  return name.substr(0, name.find('.'));
}

// The parts of a build's symbol, of which the first follows the 0 of the name before it.
constexpr std::string_view beginning("\0tapestry_build_", 16), library = "_libstdcxx_";

// Returns "commit 1e2cabcf1234 and libstdc++ 12" for the symbol of a build.
std::string build_of(std::string_view symbol) {
  const std::string_view build = symbol.substr(beginning.size() - 1);
  const std::size_t end = build.find(library);
  return end == build.npos
             ? printable_beginning(build)
             : fmt::format("commit {} and libstdc++ {}", printable_beginning(build.substr(0, end)),
                           printable_beginning(build.substr(end + library.size())));
}

// Throws InputError unless the names of symbols in a library include that of this build, and that
// of no other one. The table of names in an ELF file is a sequence of texts that end with a 0.
void expect_this_build(const std::string& file, std::string_view bytes) {
  bool is_plugin = false;
  for (std::size_t end = 0; (end = bytes.find(beginning, end)) != bytes.npos;) {
    const std::size_t begin = end + 1;
    end = std::min(bytes.find('\0', begin), bytes.size());
    const std::string_view symbol = bytes.substr(begin, end - begin);
    if (symbol.size() < beginning.size()) continue;  // this constant
    is_plugin = true;
    expect_input(
        symbol == build_symbol(),
        "{}: was compiled for {}, but this Tapestry is of {}; compile the plug-in with the "
        "headers of this one",
        file, build_of(symbol), build_of(build_symbol()));
  }
  expect_input(is_plugin,
               "{}: is no plug-in; expected a shared library whose source includes "
               "<tapestry/task.hpp>, as that of `tapestry new`",
               file);
}

std::vector<Plugin>& plugins() {
  static std::vector<Plugin> loaded;
  return loaded;
}

}  // namespace

void load_plugin(const std::string& file, bool is_rebuilt) {
  Plugin plugin{.name = name_of(file),
                .file = std::filesystem::absolute(file).string(),
                .is_rebuilt = is_rebuilt};
  expect_input(is_name(plugin.name),
               "{}: expected the path of a shared library with a name such as libmine.so",
               printable_beginning(file));
  for (const Plugin& other : plugins())
    expect_input(other.name != plugin.name,
                 "{}: {} is loaded under the name {}; rename one of the files", file, other.file,
                 plugin.name);
  const std::string bytes = read_file(file, std::int64_t{1} << 30);
  expect_this_build(file, bytes);
  Checksum sum;
  sum.add(std::as_bytes(std::span(bytes)));
  plugin.checksum = sum.hex();

  std::set<std::string> known;
  for (const auto& [name, type] : optimizer_registry()) known.insert(name);
  if (!dlopen(plugin.file.c_str(), RTLD_NOW | RTLD_LOCAL))
    throw InputError(fmt::format("{}: cannot be loaded: {}; compile it again", file,
                                 printable_beginning(dlerror())));
  for (const auto& [name, type] : optimizer_registry())
    if (!known.contains(name)) plugin.optimizers.push_back(name);
  plugins().push_back(std::move(plugin));
}

const std::vector<Plugin>& loaded_plugins() { return plugins(); }

void expect_plugins(const std::string& required, const std::string& origin) {
  if (required.empty()) return;
  const std::string setting =
      fmt::format("{}: plugin = \"{}\"", origin, printable_beginning(required));
  for (const std::string_view one : split(required, ';')) {
    const std::vector<std::string_view> parts = split(one, ',');
    const std::string_view name = parts.front();
    expect_input(
        is_name(name) && (parts.size() == 1 || (parts.size() == 2 && is_checksum(parts[1]))),
        "{}: expected the name of a plug-in, or its name and checksum, as in \"mine, "
        "0123456789abcdef\"; files are given by --plugin alone",
        setting);
    const auto plugin = std::ranges::find(plugins(), name, &Plugin::name);
    if (plugin == plugins().end())
      throw NotLoaded(fmt::format(
          "{}: the plug-in {} is not loaded; give its file before the command: tapestry --plugin "
          "PATH/lib{}.so COMMAND",
          setting, name, name));
    if (parts.size() == 2 && parts[1] != plugin->checksum && !plugin->is_rebuilt)
      throw NotLoaded(fmt::format(
          "{}: {} has the checksum {}; give the file with that of the config, or accept this one "
          "with --rebuilt-plugin in place of --plugin",
          setting, plugin->file, plugin->checksum));
  }
}

bool requires_plugin(std::string_view required, const Plugin& plugin) {
  return std::ranges::any_of(split(required, ';'), [&](std::string_view one) {
    return split(one, ',').front() == plugin.name;
  });
}

std::string file_with(const void* function) {
  Dl_info found{}, own{};
  link_map* map = nullptr;
  dladdr1(function, &found, reinterpret_cast<void**>(&map), RTLD_DL_LINKMAP);
  dladdr(reinterpret_cast<const void*>(&loaded_plugins), &own);
  if (found.dli_fbase == own.dli_fbase) return "";
  return map && *map->l_name ? map->l_name : "/proc/self/exe";  // the program's name is empty
}

}  // namespace tapestry
