#pragma once

#include <cstdint>
#include <string>

// These functions return quantities as text with three or four digits.
namespace tapestry {

// Returns "12.3 ms", "72 s", "12 min", "1 h 2 min", "3 d 4 h"; "?" for NaN and 1e9 seconds or more.
std::string duration_text(double seconds);
std::string bytes_text(std::int64_t bytes);    // "3.24 MB"
std::string flops_text(double flops);          // "4.72 TFLOP"
std::string count_text(std::int64_t numbers);  // "1234", "38.6 k", "124.4 M"

}  // namespace tapestry
