#include "autograd/engine.hpp"

#include <dlfcn.h>

#include <filesystem>

#include "autograd/build_symbol.hpp"

const char TAPESTRY_BUILD_SYMBOL = 0;

#define TAPESTRY_TEXT_OF(name) #name
#define TAPESTRY_TEXT_OF_VALUE(name) TAPESTRY_TEXT_OF(name)

namespace tapestry {

const char* instruction_level() { return TAPESTRY_LEVEL; }

const char* engine_commit() { return TAPESTRY_COMMIT; }

const char* build_symbol() { return TAPESTRY_TEXT_OF_VALUE(TAPESTRY_BUILD_SYMBOL); }

std::string engine_path() {
  Dl_info here{};
  dladdr(reinterpret_cast<void*>(&instruction_level), &here);
  return here.dli_fname;
}

std::string plugin_path(const std::string& name) {
  std::filesystem::path folder = std::filesystem::absolute(engine_path()).parent_path();
  if (folder.parent_path().filename() == "glibc-hwcaps")
    folder = folder.parent_path().parent_path();
  return folder / "tapestry" / (name + ".so");
}

}  // namespace tapestry
