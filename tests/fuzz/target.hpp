#pragma once

#include <functional>
#include <map>
#include <string>
#include <string_view>
#include <vector>

// What users give is read by readers, and each reader is a fuzz target: libFuzzer draws bytes for
// it (tests/fuzz/main.cpp), and the tests feed it all of tests/fuzz/inputs/<target>/.
namespace tapestry {

// Reads bytes as a user's file. A return and an InputError are right answers; any other exception,
// a crash, a sanitizer's report, a hang and a flood of memory are findings.
using FuzzTarget = std::function<void(std::string_view bytes)>;

// By name; of a registered file format, the format's.
std::map<std::string, FuzzTarget>& fuzz_targets();

// At namespace scope in the target's source file.
struct RegisterFuzzTarget {
  RegisterFuzzTarget(const std::string& name, FuzzTarget target);
};

// Reads the bytes. Throws what is a finding: std::logic_error where an InputError says nothing or
// more than anyone reads, else what the target throws.
void feed(const FuzzTarget& target, std::string_view bytes);

// Targets that read paths: the file of this name in a folder in memory, and that folder.
std::string written_file(const std::string& name, std::string_view bytes);
const std::string& scratch_folder();

// The parts of an input that stands for several files or words: what lies between zero bytes.
std::vector<std::string_view> cut_at_zeros(std::string_view bytes);

}  // namespace tapestry
