#include "train/run/event_file.hpp"

#include <fcntl.h>
#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <bit>
#include <chrono>
#include <cmath>
#include <cstring>
#include <filesystem>
#include <limits>
#include <protozero/pbf_writer.hpp>
#include <vector>

namespace tapestry {
namespace {

using Message = protozero::pbf_writer;

// The field numbers of the messages.
namespace event {
constexpr int wall_time = 1, step = 2, file_version = 3, summary = 5, session_log = 7;
}
namespace session {
constexpr int status = 1, start = 1;  // field number, and value
}
namespace value {
constexpr int tag = 1, simple_value = 2, image = 4, histogram = 5, tensor = 8, metadata = 9;
}
namespace image {
constexpr int height = 1, width = 2, colorspace = 3, encoded = 4, grey = 1;
}
namespace histogram {
constexpr int min = 1, max = 2, count = 3, sum = 4, sum_squares = 5, limits = 6, counts = 7;
}
namespace tensor {
constexpr int dtype = 1, shape = 2, strings = 8, string_type = 7;
}

// Returns the CRC-32C, whose polynomial is 0x1EDC6F41, reflected (RFC 3720, appendix B.4).
std::uint32_t crc32c(std::string_view bytes) {
  static const auto table = [] {
    std::array<std::uint32_t, 256> remainders{};
    for (std::uint32_t i = 0; i < 256; ++i) {
      remainders[i] = i;
      for (int bit = 0; bit < 8; ++bit)
        remainders[i] = remainders[i] >> 1 ^ (remainders[i] & 1 ? 0x82F63B78 : 0);
    }
    return remainders;
  }();
  std::uint32_t crc = ~0u;
  for (const char byte : bytes)
    crc = crc >> 8 ^ table[(crc ^ static_cast<unsigned char>(byte)) & 255];
  return ~crc;
}

template <class Number>
std::string little_endian(Number number) {
  std::string bytes(sizeof number, '\0');
  for (char& byte : bytes) {
    byte = static_cast<char>(number & 255);
    number = static_cast<Number>(number >> 8);
  }
  return bytes;
}

std::string masked_crc(std::string_view bytes) {
  return little_endian(std::rotr(crc32c(bytes), 15) + 0xA282EAD8u);
}

// Returns the record of an event, written by `fill`, at the current time.
template <class Fill>
std::string record_of(std::int64_t step, const Fill& fill) {
  std::string bytes;
  Message message(bytes);
  const auto now = std::chrono::system_clock::now().time_since_epoch();
  message.add_double(event::wall_time, std::chrono::duration<double>(now).count());
  if (step > 0) message.add_int64(event::step, step);
  fill(message);
  return tf_record(bytes);
}

// Returns the record of a summary with one value.
template <class Fill>
std::string value_record(std::int64_t step, const std::string& tag, const Fill& fill) {
  return record_of(step, [&](Message& event) {
    Message summary(event, event::summary);
    Message value(summary, 1);
    value.add_string(value::tag, tag);
    fill(value);
  });
}

// Returns the big-endian number at a byte offset of a PNG.
std::uint32_t number_of_png(const std::string& png, std::size_t place) {
  std::uint32_t number = 0;
  for (std::size_t i = 0; i < 4; ++i)
    number = number << 8 | static_cast<unsigned char>(png.at(place + i));
  return number;
}

template <class T>
std::string histogram_record(std::int64_t step, const std::string& tag,
                             std::span<const T> numbers) {
  constexpr int most = 48;  // maximum number of buckets
  double low = std::numeric_limits<double>::infinity(), high = -low, sum = 0, squares = 0;
  for (const double number : numbers) {
    if (!std::isfinite(number)) continue;
    low = std::min(low, number);
    high = std::max(high, number);
    sum += number;
    squares += number * number;
  }
  if (!(low <= high)) return "";
  const double width = (high - low) / most;
  std::vector<double> counts(width > 0 ? most : 1), limits;
  double count = 0;
  for (const double number : numbers) {
    if (!std::isfinite(number)) continue;
    const auto bucket = width > 0 ? static_cast<std::size_t>((number - low) / width) : 0;
    ++counts[std::min(bucket, counts.size() - 1)];
    ++count;
  }
  for (std::size_t i = 0; i + 1 < counts.size(); ++i)
    limits.push_back(low + width * static_cast<double>(i + 1));
  limits.push_back(high);
  return value_record(step, tag, [&](Message& value) {
    Message message(value, value::histogram);
    message.add_double(histogram::min, low);
    message.add_double(histogram::max, high);
    message.add_double(histogram::count, count);
    message.add_double(histogram::sum, sum);
    message.add_double(histogram::sum_squares, squares);
    message.add_packed_double(histogram::limits, limits.begin(), limits.end());
    message.add_packed_double(histogram::counts, counts.begin(), counts.end());
  });
}

}  // namespace

std::string tf_record(const std::string& bytes) {
  const std::string length = little_endian(static_cast<std::uint64_t>(bytes.size()));
  return length + masked_crc(length) + bytes + masked_crc(bytes);
}

EventFile::EventFile(RunLock& lock, std::int64_t first_step) {
  std::int64_t time = std::chrono::duration_cast<std::chrono::seconds>(
                          std::chrono::system_clock::now().time_since_epoch())
                          .count();
  do path_ = fmt::format("{}/events.out.tfevents.{:010}.tapestry", lock.run().folder(), time++);
  while (std::filesystem::exists(path_));
  lock.expect_in_place();
  const FilePlace place = lock.place(path_);
  file_.emplace(place, O_WRONLY | O_CREAT | O_EXCL | O_APPEND);
  file_->write(
      record_of(0, [](Message& event) { event.add_string(event::file_version, "brain.Event:2"); }) +
      record_of(first_step, [](Message& event) {
        Message(event, event::session_log).add_enum(session::status, session::start);
      }));
  sync_folder_of(place);
}

void EventFile::add_scalar(std::int64_t step, const std::string& tag, double number) {
  file_->write(value_record(step, tag, [&](Message& value) {
    value.add_float(value::simple_value, static_cast<float>(number));
  }));
}

// Indents the lines by four spaces, because TensorBoard shows text as Markdown.
void EventFile::add_text(std::int64_t step, const std::string& tag, const std::string& text) {
  std::string quoted = "    ";
  for (const char byte : text) (quoted += byte) += byte == '\n' ? "    " : "";
  file_->write(value_record(step, tag, [&](Message& value) {
    {
      Message tensor(value, value::tensor);
      tensor.add_enum(tensor::dtype, tensor::string_type);
      {
        Message shape(tensor, tensor::shape);
        Message(shape, 2).add_int64(1, 1);  // one dimension of size one
      }
      tensor.add_bytes(tensor::strings, quoted);
    }
    Message metadata(value, value::metadata);
    Message(metadata, 1).add_string(1, "text");  // name of the plugin
  }));
}

void EventFile::add_png(std::int64_t step, const std::string& tag, const std::string& png) {
  file_->write(value_record(step, tag, [&](Message& value) {
    Message picture(value, value::image);
    picture.add_int32(image::height, static_cast<std::int32_t>(number_of_png(png, 20)));
    picture.add_int32(image::width, static_cast<std::int32_t>(number_of_png(png, 16)));
    picture.add_int32(image::colorspace, image::grey);
    picture.add_bytes(image::encoded, png);
  }));
}

void EventFile::add_histogram(std::int64_t step, const std::string& tag, const Array& numbers) {
  dispatch(numbers.dtype(), [&]<class T>() {
    file_->write(histogram_record(step, tag, std::span(numbers.values<T>())));
  });
}

}  // namespace tapestry
