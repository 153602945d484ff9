#pragma once

#include <tapestry_commit.hpp>  // TAPESTRY_COMMIT_NAME, written by the build
#include <version>              // _GLIBCXX_RELEASE

// The symbol of a build: tapestry_build_1e2cabcf1234_libstdcxx_12, with the commit and the release
// of libstdc++. The engine has it, and <tapestry/task.hpp> refers to it, so that the loader refuses
// a program or a plug-in of another build before any of its code runs, and load_plugin() tells why.
// It does not tell apart builds of one commit with other changes or other compiler flags.
#define TAPESTRY_JOIN(commit, release) tapestry_build_##commit##_libstdcxx_##release
#define TAPESTRY_JOIN_VALUES(commit, release) TAPESTRY_JOIN(commit, release)
#define TAPESTRY_BUILD_SYMBOL TAPESTRY_JOIN_VALUES(TAPESTRY_COMMIT_NAME, _GLIBCXX_RELEASE)

extern "C" [[gnu::visibility("default")]] const char TAPESTRY_BUILD_SYMBOL;
