#pragma once

#include <functional>
#include <map>
#include <string>
#include <string_view>
#include <vector>

#include "train/inspect/onnx/onnx_graph.hpp"

namespace tapestry::onnx {

// What a file says of its model besides.
struct Origin {
  std::string version{};                          // of the program
  std::map<std::string, std::string> metadata{};  // "config", "tokenizer", …
};

// Gives `write` the parts of a graph's file that stand one after the other: those of parameters are
// where the model has them. InputError for what expect_fits does not let through.
void write_graph(const std::function<void(const std::vector<std::string_view>& parts)>& write,
                 const Graph& graph, const Origin& origin);

// InputError, which names the model, for a file of so many bytes that the format holds none.
inline constexpr std::int64_t most_bytes = (std::int64_t{1} << 31) - 1;
void expect_fits(const std::string& model, std::int64_t bytes);

}  // namespace tapestry::onnx
