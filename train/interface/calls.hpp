#pragma once

#include <algorithm>
#include <cstddef>
#include <exception>
#include <new>
#include <span>
#include <stdexcept>
#include <string>
#include <vector>

#include "autograd/check.hpp"
#include "train/interface/tapestry.h"
#include "train/model.hpp"

struct tapestry_model {
  tapestry::Model model;
};

// What the C functions share: errors as codes, arguments and texts.
namespace tapestry {

// Keeps the message of an error for tapestry_error(), and returns the code.
tapestry_code record_error(tapestry_code code, const char* message) noexcept;

// Returns a text to the caller, whose pointers may be null; it is valid until the next call.
void give_text(std::string value, const char** text, std::size_t* bytes = nullptr);

// Calls `body`. Returns the code of the exception that it throws, and keeps its message.
template <class Body>
tapestry_code guarded(const Body& body) noexcept try {
  body();
  return TAPESTRY_OK;
} catch (const std::invalid_argument& error) {
  return record_error(TAPESTRY_WRONG_ARGUMENT, error.what());
} catch (const InputError& error) {
  return record_error(TAPESTRY_WRONG_INPUT, error.what());
} catch (const std::bad_alloc& error) {
  return record_error(TAPESTRY_OUT_OF_MEMORY, error.what());
} catch (const std::exception& error) {
  return record_error(TAPESTRY_FAILED, error.what());
} catch (...) {
  return record_error(TAPESTRY_FAILED, "an exception that is not a std::exception");
}

// Throws std::invalid_argument if one of the pointers is null.
template <class... Pointers>
void require_given(const char* function, Pointers... pointers) {
  require((... && (pointers != nullptr)), "{}: a pointer is null; expected an address", function);
}

// Returns an array of a caller, which may be null if it is empty.
template <class T>
std::span<const T> span_of(const char* function, const T* values, std::size_t count) {
  if (count > 0) require_given(function, values);
  return {values, count};
}

inline std::vector<std::string> texts_of(const char* function, const char* const* texts,
                                         std::size_t count) {
  std::vector<std::string> all;
  for (const char* text : span_of(function, texts, count)) {
    require_given(function, text);
    all.emplace_back(text);
  }
  return all;
}

}  // namespace tapestry
