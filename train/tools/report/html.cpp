#include "train/tools/report/html.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cctype>
#include <cmath>
#include <span>

#include "autograd/float16.hpp"
#include "data/text/printable.hpp"
#include "train/plot/canvas.hpp"
#include "train/plot/render.hpp"

namespace tapestry {
namespace {

using Json = JsonValue;
using Rows = std::vector<std::vector<std::string>>;

bool is_number(const std::string& cell) {
  return cell.empty() || std::isdigit(static_cast<unsigned char>(cell[cell.starts_with("-")]));
}

bool holds_numbers(const Rows& rows, std::size_t column) {
  return rows.size() > 1 && std::all_of(rows.begin() + 1, rows.end(),
                                        [&](const auto& row) { return is_number(row[column]); });
}

// Returns the bytes of an array, little-endian, which is the order of the machine.
template <class T>
Json packed(const char* dtype, const Shape& shape, std::span<const T> values) {
  Json extents = Json::array();
  for (int axis = 0; axis < shape.rank(); ++axis) extents.push_back(shape[axis]);
  const std::string_view bytes(reinterpret_cast<const char*>(values.data()), values.size_bytes());
  return {{"dtype", dtype}, {"shape", extents}, {"base64", base64(bytes)}};
}

template <class T, class Fn>
Json converted(const char* dtype, const Array& array, const Fn& fn) {
  const Array single = array.to(DType::float32);
  std::vector<T> values;
  for (const float value : single.values<float>()) values.push_back(fn(value));
  return packed(dtype, array.shape(), std::span<const T>(values));
}

}  // namespace

std::string html_text(std::string_view text) { return markup_escaped(printable_lines(text)); }

std::string base64(std::string_view bytes) {
  constexpr std::string_view letters =
      "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
  std::string text;
  for (std::size_t i = 0; i < bytes.size(); i += 3) {
    const std::size_t count = std::min<std::size_t>(3, bytes.size() - i);
    std::uint32_t bits = 0;
    for (std::size_t j = 0; j < 3; ++j)
      bits = bits << 8 | (j < count ? static_cast<unsigned char>(bytes[i + j]) : 0);
    for (std::size_t j = 0; j < 4; ++j)
      text += j <= count ? letters[bits >> (18 - 6 * j) & 63] : '=';
  }
  return text;
}

std::string html_pictures(const PictureGrid& grid, std::string_view shows) {
  return fmt::format("<img class=\"pixels\" alt=\"{}\" src=\"data:image/png;base64,{}\">\n",
                     html_text(shows), base64(to_png(grid)));
}

std::string html_table(const Rows& rows, const HtmlTableStyle& style) {
  const auto& [shares, stacks] = style;
  const auto attributes = [&](std::size_t r, std::size_t c) {
    const double share = r < shares.size() && c < shares[r].size() ? shares[r][c] : 0;
    return (holds_numbers(rows, c) ? " class=\"number\"" : "") +
           (share > 0 ? fmt::format(" style=\"--share: {:.3f}\"", share) : "") +
           (stacks ? fmt::format(" data-column=\"{}\"", html_text(rows[0][c])) : "");
  };
  std::string html = fmt::format("<div class=\"wide{}\"><table>\n", stacks ? " stacked" : "");
  for (std::size_t r = 0; r < rows.size(); ++r) {
    html += "<tr>";
    for (std::size_t c = 0; c < rows[r].size(); ++c)
      html += fmt::format("<{0}{1}>{2}</{0}>", r == 0 ? "th" : "td", attributes(r, c),
                          html_text(rows[r][c]));
    html += "</tr>\n";
  }
  return html + "</table></div>\n";
}

std::string html_facts(const std::vector<std::pair<std::string, std::string>>& facts) {
  std::string html = "<div class=\"wide facts\"><table>\n";
  for (const auto& [name, value] : facts)
    html += fmt::format("<tr><th scope=\"row\">{}</th><td>{}</td></tr>\n", html_text(name),
                        html_text(value));
  return html + "</table></div>\n";
}

std::string html_data(const std::string& id, const JsonValue& data) {
  std::string json = data.dump(-1, ' ', false, JsonValue::error_handler_t::replace);
  // '<' occurs only within strings, where "</script>" would end the element.
  for (std::size_t at = json.find('<'); at != std::string::npos; at = json.find('<', at))
    json.replace(at, 1, "\\u003c");
  return fmt::format("<script type=\"application/json\" id=\"{}\">{}</script>\n", id, json);
}

std::string html_details(std::string_view summary, const std::string& html) {
  return fmt::format("<details><summary>{}</summary>\n{}</details>\n", html_text(summary), html);
}

Json as_floats(const Array& array) {
  return converted<float>("f32", array, [](float value) { return value; });
}

Json as_halves(const Array& array) { return converted<std::uint16_t>("f16", array, &float16_bits); }

Json as_bytes(const Array& array) {
  return converted<std::uint8_t>("u8", array, [](float value) {
    return static_cast<std::uint8_t>(value > 0 ? std::lround(255 * std::min(value, 1.0F)) : 0);
  });
}

Json as_integers(const std::vector<std::int32_t>& values, const Shape& shape) {
  return packed("i32", shape, std::span<const std::int32_t>(values));
}

Json as_labels(const std::vector<std::string>& texts) {
  Json list = Json::array();
  for (const std::string& text : texts) list.push_back(printable(text));
  return list;
}

}  // namespace tapestry
