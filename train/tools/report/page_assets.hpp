#pragma once

#include <string>
#include <string_view>
#include <vector>

namespace tapestry {

// A file of train/tools/report/page/, or dygraphs', which the binary holds.
struct PageAsset {
  std::string name;  // "latent.js"
  std::string text;
  std::string sha256;  // in hexadecimal digits
};
const std::vector<PageAsset>& page_assets();

}  // namespace tapestry
