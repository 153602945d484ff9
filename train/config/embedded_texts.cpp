#include "train/config/embedded_texts.hpp"

#include "data/input_file.hpp"

namespace tapestry {

std::map<std::string, std::string> embedded_texts(std::string_view gzip, std::size_t bytes) {
  const std::string all = inflated(gzip, bytes);
  std::map<std::string, std::string> texts;
  for (std::size_t at = 0; at < all.size();) {
    const std::size_t space = all.find(' ', at), end = all.find('\n', space);
    const std::size_t length = std::stoull(all.substr(space + 1, end - space - 1));
    texts.emplace(all.substr(at, space - at), all.substr(end + 1, length));
    at = end + 1 + length;
  }
  return texts;
}

}  // namespace tapestry
