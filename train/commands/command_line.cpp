#include "train/commands/command_line.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <chrono>
#include <csignal>
#include <cstdio>
#include <filesystem>
#include <stdexcept>
#include <system_error>
#include <thread>

#include "autograd/buffer_pool.hpp"
#include "autograd/check.hpp"
#include "data/text/printable.hpp"
#include "train/commands/guide_pages.hpp"
#include "train/distributed/ranks.hpp"
#include "train/plugin.hpp"
#include "train/run/terminal.hpp"
#include "train/run/version.hpp"

namespace tapestry {
namespace {

// Prints an error and returns the status. Of several ranks, only rank 0 prints; the others wait for
// it, because the launcher ends all processes when one fails.
int failed(std::string_view message, int status) {
  if (launched_rank() == 0)
    complain(message);
  else
    std::this_thread::sleep_for(std::chrono::seconds(1));
  return status;
}

// Returns " (tapestry guide PAGE)" for a message on the value of a key that a page explains:
// "--set: model.norm = …"; else "".
std::string page_for(std::string_view message) {
  const std::size_t end = message.find(" = ");
  if (end == message.npos) return "";
  const std::size_t begin = message.substr(0, end).rfind(' ') + 1;
  const std::string page = page_explaining(std::string(message.substr(begin, end - begin)));
  return page.empty() ? "" : fmt::format(" (tapestry guide {})", page);
}

}  // namespace

int run_command_line(int argc, char** argv) {
  // A write beyond the limit of file sizes is then an error instead of a signal.
  std::signal(SIGXFSZ, SIG_IGN);
  if (launched_rank() > 0) keep_silent();
  try {
    require_engine_of_this_build();
    std::span<char*> words = std::span(argv, argc).subspan(std::min(argc, 1));
    std::vector<std::string> own_words(argv, argv + std::min(argc, 1));
    for (const GivenPlugin& given : take_plugins(words)) {
      load_plugin(given.file, given.is_rebuilt);
      own_words.insert(own_words.end(), {given.option(), given.file});
    }
    if (argc > 0) set_own_program(own_words);
    const CommandLine typed = parse_command_line(argc, argv);
    print_lines(typed.text);
    const int status = typed.command ? typed.command->run() : typed.status;
    if ((std::fflush(stdout) != 0 || std::ferror(stdout) != 0) && !is_reader_gone())
      throw std::runtime_error(
          "cannot write to the standard output; check the disk, or the program that reads it");
    return status;
  } catch (const InputError& error) {
    return failed(error.what() + page_for(error.what()), wrong_input_status);
  } catch (const OutOfMemory& error) {
    return failed(error.what(), failed_status);
  } catch (const std::bad_alloc&) {
    return failed("out of memory; use less data at a time, or a smaller model", failed_status);
  } catch (const std::filesystem::filesystem_error& error) {
    if (error.code() != std::errc::filename_too_long) return failed(error.what(), failed_status);
    return failed(fmt::format("{}: {}; give another path",
                              printable_beginning(error.path1().string()), error.code().message()),
                  wrong_input_status);
  } catch (const std::system_error& error) {
    const bool lacks_thread = error.code() == std::errc::resource_unavailable_try_again;
    return failed(lacks_thread ? "no thread can be started; raise the limits of memory and of "
                                 "processes (ulimit -v, ulimit -u)"
                               : error.what(),
                  failed_status);
  } catch (const std::exception& error) {
    return failed(error.what(), failed_status);
  } catch (...) {
    return failed("an exception that is not a std::exception was thrown; throw one with a message",
                  failed_status);
  }
}

}  // namespace tapestry

int tapestry_main(int argc, char** argv) { return tapestry::run_command_line(argc, argv); }
