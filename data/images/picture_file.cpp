#include "data/images/picture_file.hpp"

#include <png.h>
#include <turbojpeg.h>

#include <algorithm>
#include <array>
#include <cctype>
#include <chrono>
#include <condition_variable>
#include <csetjmp>
#include <functional>
#include <memory>
#include <mutex>
#include <span>
#include <utility>
#include <vector>

#include "autograd/check.hpp"
#include "data/input_file.hpp"

namespace tapestry {
namespace {

constexpr std::int64_t most_file_bytes = std::int64_t{1} << 28;
constexpr std::int64_t most_pixels = 64'000'000;

// A part of the memory in which all threads together decode pictures, until it is destroyed.
class DecodingMemory {
 public:
  // Waits until other threads leave so many bytes, at most most_decoding_bytes.
  explicit DecodingMemory(std::int64_t bytes) : bytes_(bytes) {
    std::unique_lock lock(mutex_);
    while (!freed_.wait_for(lock, std::chrono::hours(1), [&] { return bytes_ <= left_; })) {
    }  // as in loader.cpp, for older systems
    left_ -= bytes_;
  }
  ~DecodingMemory() {
    const std::lock_guard lock(mutex_);
    left_ += bytes_;
    freed_.notify_all();
  }
  DecodingMemory(const DecodingMemory&) = delete;
  DecodingMemory& operator=(const DecodingMemory&) = delete;

 private:
  static inline std::mutex mutex_;
  static inline std::condition_variable freed_;
  static inline std::int64_t left_ = most_decoding_bytes;
  std::int64_t bytes_;
};

// What the header of a picture announces.
struct PictureHeader {
  ImageSize size{};                 // channels: 1 gray, 3 colors, 4 printing colors (CMYK)
  std::int64_t decoding_bytes = 0;  // that a decoder needs besides pixels and rows
};

// A function that takes a row of pixels.
using TakeRow = std::function<void(const unsigned char* row)>;

// A PNG file in memory. Throws InputError with the path if it is damaged.
class PngFile {
 public:
  PngFile(const std::string& path, std::string_view content) : path_(path), rest_(content) {
    error_.reserve(256);  // so that fail() allocates nothing
    png_ =
        png_create_read_struct(PNG_LIBPNG_VER_STRING, this, fail, [](png_structp, const char*) {});
    if (png_ == nullptr) throw std::bad_alloc();
    freed_.reset(this);
    info_ = png_create_info_struct(png_);
    if (info_ == nullptr) throw std::bad_alloc();
    png_set_read_fn(png_, this, read_some);
    // libpng would allocate what the length of such a chunk says, before it reads the chunk.
    constexpr unsigned char skipped[] =
        "eXIf\0iTXt\0tEXt\0zTXt\0sPLT\0pCAL\0sCAL";  // each with its 0
    png_set_keep_unknown_chunks(png_, PNG_HANDLE_CHUNK_NEVER, skipped, sizeof(skipped) / 5);
    constexpr std::size_t most_of_profile = 8'000'000;
    png_set_chunk_malloc_max(png_, std::max(content.size(), most_of_profile));
    run([&] {
      png_set_benign_errors(png_, 1);
      png_read_info(png_, info_);
    });
  }

  PictureHeader header() const {
    const std::int64_t W = png_get_image_width(png_, info_), H = png_get_image_height(png_, info_);
    const bool is_interlaced = png_get_interlace_type(png_, info_) != PNG_INTERLACE_NONE;
    return {{.channels = is_gray() ? 1 : 3, .height = H, .width = W},
            is_interlaced ? 4 * W * H : 64 * W};
  }
  // Returns the number of bytes of a pixel: 1 or 2 without colors, 3 or 4 with, the last one alpha.
  int samples(std::int64_t channels) const {
    const bool has_alpha = (png_get_color_type(png_, info_) & PNG_COLOR_MASK_ALPHA) != 0 ||
                           png_get_valid(png_, info_, PNG_INFO_tRNS) != 0;
    return (is_gray() && channels == 1 ? 1 : 3) + has_alpha;
  }
  // Reads all rows, from the top one on, with samples() per pixel. Only those of an interlaced file
  // are held.
  void read_rows(std::int64_t channels, const TakeRow& take) {
    const auto [size, held] = header();
    const int pixel_bytes = samples(channels);
    int passes = 1;
    run([&] {  // the transformations of png_image_finish_read()
      png_set_expand(png_);
      if (is_gray() && channels == 3) png_set_gray_to_rgb(png_);
      png_set_alpha_mode_fixed(png_, PNG_ALPHA_PNG, PNG_DEFAULT_sRGB);
      if (png_get_bit_depth(png_, info_) == 16) png_set_scale_16(png_);
      passes = png_set_interlace_handling(png_);
      png_read_update_info(png_, info_);
      if (png_get_rowbytes(png_, info_) != static_cast<std::size_t>(pixel_bytes * size.width))
        png_error(png_, "unexpected rows");
    });
    const std::int64_t row_bytes = pixel_bytes * size.width;
    std::vector<unsigned char> rows((passes > 1 ? size.height : 1) * row_bytes);
    for (int pass = 1; pass <= passes; ++pass)
      for (std::int64_t y = 0; y < size.height; ++y) {
        unsigned char* row = rows.data() + (passes > 1 ? y * row_bytes : 0);
        run([&] { png_read_row(png_, row, nullptr); });
        if (pass == passes) take(row);
      }
  }

 private:
  bool is_gray() const { return (png_get_color_type(png_, info_) & PNG_COLOR_MASK_COLOR) == 0; }

  // Calls a function that calls libpng, whose errors jump here, over objects of the call that are
  // not destroyed.
  template <class Call>
  void run(const Call& call) {
    if (setjmp(png_jmpbuf(png_)) != 0)
      throw InputError(fmt::format(
          "{}: the PNG file cannot be decoded ({}); copy it again, or remove it", path_, error_));
    call();
  }
  [[noreturn]] static void fail(png_structp png, const char* message) {
    static_cast<PngFile*>(png_get_error_ptr(png))->error_ = message;
    png_longjmp(png, 1);
  }
  static void read_some(png_structp png, unsigned char* to, std::size_t count) {
    std::string_view& rest = static_cast<PngFile*>(png_get_io_ptr(png))->rest_;
    if (count > rest.size()) png_error(png, "the file ends too early");
    std::ranges::copy(rest.substr(0, count), to);
    rest.remove_prefix(count);
  }

  const std::string& path_;
  std::string_view rest_;
  std::string error_{};
  png_structp png_ = nullptr;
  png_infop info_ = nullptr;
  struct Free {
    void operator()(PngFile* file) const {
      png_destroy_read_struct(&file->png_, &file->info_, nullptr);
    }
  };
  std::unique_ptr<PngFile, Free> freed_{};
};

// A JPEG file in memory. Throws InputError with the path if it is damaged.
class JpegFile {
 public:
  JpegFile(const std::string& path, std::string_view content)
      : path_(path),
        bytes_(reinterpret_cast<const unsigned char*>(content.data()), content.size()),
        decoder_(tjInitDecompress(), tjDestroy) {
    require(decoder_ != nullptr, "{}: the JPEG decoder cannot be created ({}); free memory", path,
            tjGetErrorStr2(nullptr));
    expect_read(tjDecompressHeader3(decoder_.get(), bytes_.data(), bytes_.size(), &width_, &height_,
                                    &subsampling_, &colors_) == 0);
    expect_input(width_ > 0 && height_ > 0,
                 "{}: the JPEG file ends before its image; copy it again, or remove it", path);
  }

  PictureHeader header() const {
    const int channels = colors_ == TJCS_CMYK || colors_ == TJCS_YCCK ? 4
                         : colors_ == TJCS_GRAY                       ? 1
                                                                      : 3;
    // A picture in several scans is held as coefficients, 2 bytes each, in blocks of 32 x 32.
    const unsigned long samples =
        tjBufSizeYUV2((width_ + 31) / 32 * 32, 4, (height_ + 31) / 32 * 32, subsampling_);
    return {{.channels = channels, .height = height_, .width = width_},
            static_cast<std::int64_t>(2 * samples)};
  }
  // Reads all rows, from the top one on, of the picture in this size, that of the header or a half,
  // a quarter or an eighth of it.
  void read_rows(const ImageSize& size, const TakeRow& take) {
    std::vector<unsigned char> pixels(size.values());
    // The limit of scans bounds the time that a small file can take.
    const int status = tjDecompress2(decoder_.get(), bytes_.data(), bytes_.size(), pixels.data(),
                                     static_cast<int>(size.width), 0, static_cast<int>(size.height),
                                     size.channels == 1 ? TJPF_GRAY : TJPF_RGB, TJFLAG_LIMITSCANS);
    // Other warnings, such as bytes between two segments, leave a whole picture.
    const bool whole = tjGetErrorCode(decoder_.get()) == TJERR_WARNING &&
                       std::string_view(tjGetErrorStr2(decoder_.get())).find("remature end") ==
                           std::string_view::npos;
    expect_read(status == 0 || whole);
    for (std::int64_t y = 0; y < size.height; ++y)
      take(pixels.data() + y * size.width * size.channels);
  }

 private:
  void expect_read(bool read) const {
    expect_input(
        read,
        "{}: the JPEG file cannot be decoded ({}); copy it again, save it in another form, "
        "or remove it",
        path_, tjGetErrorStr2(decoder_.get()));
  }

  const std::string& path_;
  std::span<const unsigned char> bytes_;
  std::unique_ptr<void, int (*)(tjhandle)> decoder_;
  int width_ = 0, height_ = 0, subsampling_ = 0, colors_ = 0;
};

constexpr std::string_view jpeg_start = "\xff\xd8\xff";

PictureHeader header_of(const std::string& path, const std::string& content) {
  if (content.starts_with(png_start)) return PngFile(path, content).header();
  if (content.starts_with(jpeg_start)) return JpegFile(path, content).header();
  throw InputError(
      fmt::format("{}: expected a PNG or JPEG file; convert this file, or remove it", path));
}

// The beginning of a file, or all of it.
struct PictureStart {
  std::string content;
  std::int64_t most_bytes;  // an upper bound of the size of the file's content
  PictureHeader header;
};

PictureStart start_of(const std::string& path) {
  constexpr std::int64_t start_bytes = 1 << 18;  // comments and previews precede a JPEG's size
  InputFile file(path);
  std::string content(std::min(start_bytes, file.most_bytes()), '\0');
  content.resize(file.read(content));
  const bool is_whole = std::ssize(content) < start_bytes;
  try {
    const PictureHeader header = header_of(path, content);
    const std::int64_t bytes =
        is_whole ? std::ssize(content) : std::min(most_file_bytes, file.most_bytes());
    return {std::move(content), bytes, header};
  } catch (const InputError&) {
    if (is_whole) throw;
  }
  content = read_file(path, most_file_bytes);
  const PictureHeader header = header_of(path, content);
  return {std::move(content), std::ssize(content), header};
}

void expect_readable(const std::string& path, const ImageSize& size) {
  expect_input(size.width >= 1 && size.height >= 1 && size.width <= most_pixels / size.height,
               "{}: has {} x {} pixels; expected at most {}; save the picture in a smaller size",
               path, size.width, size.height, most_pixels);
  expect_input(size.channels <= 3, "{}: the JPEG file has printing colors (CMYK); save it as RGB",
               path);
}

// The pixels of a picture that are used, and those of the new image that they fill.
struct FittedPart {
  std::int64_t used_height, used_width, filled_height, filled_width;
};

FittedPart fitted_part(const ImageSize& from, const ImageSize& to, PictureFit fit) {
  FittedPart part{from.height, from.width, to.height, to.width};
  const auto at_least_1 = [](std::int64_t pixels) { return std::max<std::int64_t>(1, pixels); };
  if (fit == PictureFit::crop) {
    part.used_height = std::min(from.height, at_least_1(from.width * to.height / to.width));
    part.used_width = std::min(from.width, at_least_1(from.height * to.width / to.height));
  } else if (fit == PictureFit::pad) {
    const auto rounded = [&](std::int64_t dividend, std::int64_t divisor) {
      return at_least_1((2 * dividend + divisor) / (2 * divisor));
    };
    part.filled_height = std::min(to.height, rounded(to.width * from.height, from.width));
    part.filled_width = std::min(to.width, rounded(to.height * from.width, from.height));
  }
  return part;
}

// Returns the size in which a JPEG of size `from` is decoded to fit it to `to`: with `reduces_jpeg`
// the smallest of the whole, a half, a quarter and an eighth that is at least what is filled.
ImageSize decoded_size(const ImageSize& from, const ImageSize& to, const PictureReading& how) {
  const FittedPart part = fitted_part(from, to, how.fit);
  std::int64_t divisor = 1;
  const auto reduced = [&](std::int64_t pixels, std::int64_t by) { return (pixels + by - 1) / by; };
  while (how.reduces_jpeg && how.size.height > 0 && divisor < 8 &&
         reduced(from.height, 2 * divisor) >= part.filled_height &&
         reduced(from.width, 2 * divisor) >= part.filled_width)
    divisor *= 2;
  return {how.size.channels, reduced(from.height, divisor), reduced(from.width, divisor)};
}

// The part of an input axis that each output element covers.
struct Coverage {
  std::int64_t first = 0;
  std::vector<float> weights{};  // of the elements from `first` on; their sum is 1
};

// Returns the coverage of `size` elements that divide `length` elements from `begin` on equally.
std::vector<Coverage> coverage(std::int64_t begin, std::int64_t length, std::int64_t size) {
  std::vector<Coverage> all(size);
  for (std::int64_t i = 0; i < size; ++i) {
    // In units of 1 / size of an element.
    const std::int64_t low = i * length, high = low + length;
    all[i].first = begin + low / size;
    for (std::int64_t at = low / size; at * size < high; ++at) {
      const std::int64_t covered = std::min(high, (at + 1) * size) - std::max(low, at * size);
      all[i].weights.push_back(static_cast<float>(covered) / static_cast<float>(length));
    }
  }
  return all;
}

// Returns where `size` of `all` pixels begin that lie in their middle, as seen in the upright
// image.
std::int64_t centered(std::int64_t size, std::int64_t all, bool is_mirrored) {
  const std::int64_t before = (all - size) / 2;
  return is_mirrored ? all - size - before : before;
}

// Fits the rows of a picture, of which it holds one, to another size, and turns it upright: each
// new pixel is the mean of the area that it covers.
class RowFitter {
 public:
  // Takes rows of from.width pixels of `samples` bytes: gray or RGB, then alpha if they are even.
  // `to` is the size of the image before it is turned.
  RowFitter(const ImageSize& from, int samples, const ImageSize& to, PictureFit fit,
            const Orientation& turn)
      : width_(from.width),
        colors_(samples >= 3 ? 3 : 1),
        has_alpha_(samples % 2 == 0),
        opaque_(has_alpha_ ? colors_ * from.width : 0),
        values_(to.channels * from.width),
        means_(to.channels * from.width),
        row_step_(turn.transposes ? 1 : to.width),
        column_step_(turn.transposes ? to.height : 1),
        image_(Array::zeros({to.channels, turn.transposes ? to.width : to.height,
                             turn.transposes ? to.height : to.width})) {
    const FittedPart part = fitted_part(from, to, fit);
    rows_ = coverage(centered(part.used_height, from.height, turn.mirrors_rows), part.used_height,
                     part.filled_height);
    columns_ = coverage(centered(part.used_width, from.width, turn.mirrors_columns),
                        part.used_width, part.filled_width);
    if (turn.mirrors_rows) first_ += (to.height - 1) * std::exchange(row_step_, -row_step_);
    if (turn.mirrors_columns) first_ += (to.width - 1) * std::exchange(column_step_, -column_step_);
    first_ += centered(part.filled_height, to.height, turn.mirrors_rows) * row_step_ +
              centered(part.filled_width, to.width, turn.mirrors_columns) * column_step_;
  }

  // Takes the next row, from the top one on.
  void add(const unsigned char* row) {
    const std::int64_t y = y_++;
    if (done_ == std::ssize(rows_) || y < rows_[done_].first) return;
    set_values(has_alpha_ ? over_white(row) : row);
    while (done_ < std::ssize(rows_) && rows_[done_].first <= y) {
      const auto& [first, weights] = rows_[done_];
      const float weight = weights[y - first];
      for (std::size_t i = 0; i < means_.size(); ++i) means_[i] += weight * values_[i];
      if (y + 1 < first + std::ssize(weights)) return;
      finish_row();
    }
  }
  // Returns the upright image, (C, height, width), after the last row.
  Array image() const { return image_; }

 private:
  // Returns the row composited over white. As in browsers, the gamma-encoded values are blended,
  // not linear light.
  const unsigned char* over_white(const unsigned char* row) {
    for (unsigned char& opaque : opaque_) {
      const std::int64_t at = &opaque - opaque_.data(), pixel = at / colors_;
      const int alpha = row[pixel * (colors_ + 1) + colors_], value = row[at + pixel];
      opaque = static_cast<unsigned char>((value * alpha + 255 * (255 - alpha) + 127) / 255);
    }
    return opaque_.data();
  }

  // Sets the values, (C, width), to those of a row, / 255; one gray channel of colors to their
  // luma.
  void set_values(const unsigned char* row) {
    if (std::ssize(values_) == colors_ * width_)
      for (std::int64_t channel = 0; channel < colors_; ++channel)
        for (std::int64_t x = 0; x < width_; ++x)
          values_[channel * width_ + x] = static_cast<float>(row[x * colors_ + channel]) / 255;
    else
      for (std::int64_t x = 0; x < width_; ++x, row += 3)
        values_[x] = (0.299f * row[0] + 0.587f * row[1] + 0.114f * row[2]) / 255;
  }

  void finish_row() {
    const std::int64_t area = image_.dim(1) * image_.dim(2);
    const auto pixels = image_.mutable_values<float>();
    for (std::int64_t channel = 0; channel < image_.dim(0); ++channel)
      for (std::int64_t x = 0; x < std::ssize(columns_); ++x) {
        const auto& [first, weights] = columns_[x];
        const float* from = &means_[channel * width_ + first];
        float mean = 0;
        for (const float weight : weights) mean += weight * *from++;
        pixels[channel * area + first_ + done_ * row_step_ + x * column_step_] = mean;
      }
    std::ranges::fill(means_, 0.0f);
    ++done_;
  }

  std::int64_t width_, colors_;
  bool has_alpha_;
  std::vector<unsigned char> opaque_;
  std::vector<float> values_, means_;  // (C, width): a row, and the mean of those of a new row
  std::vector<Coverage> rows_{}, columns_{};
  std::int64_t y_ = 0, done_ = 0;  // number of rows taken, and of new rows
  // In a plane of the upright image: the first pixel, and the steps to the next row and column.
  std::int64_t first_ = 0, row_step_, column_step_;
  Array image_;
};

}  // namespace

bool has_picture_ending(std::string_view name) {
  constexpr std::array endings{".png", ".jpg", ".jpeg", ".jpe",  ".webp", ".gif",
                               ".bmp", ".tif", ".tiff", ".heic", ".avif"};
  const std::size_t dot = name.rfind('.');
  if (dot == std::string_view::npos || dot == 0) return false;
  std::string ending(name.substr(dot));
  std::ranges::transform(ending, ending.begin(), [](unsigned char c) { return std::tolower(c); });
  return std::ranges::find(endings, ending) != endings.end();
}

Array read_picture(const std::string& path, const PictureReading& how) {
  const std::int64_t channels = how.size.channels;
  require((channels == 1 || channels == 3) && how.size.height >= 0 && how.size.width >= 0 &&
              (how.size.height == 0) == (how.size.width == 0),
          "read_picture: {} channels, {} x {} pixels; expected 1 or 3, and a size or none",
          channels, how.size.height, how.size.width);
  auto [content, most_bytes, header] = start_of(path);
  expect_readable(path, header.size);
  const bool is_png = content.starts_with(png_start);
  Orientation turn;
  ImageSize to{channels, header.size.height, header.size.width};  // before it is turned
  const auto set_turn = [&] {
    if (how.turns_upright) turn = exif_orientation(content);
    if (how.size.height > 0) to = how.size;
    if (how.size.height > 0 && turn.transposes) std::swap(to.height, to.width);
  };
  set_turn();
  const ImageSize decoded = is_png ? header.size : decoded_size(header.size, to, how);
  const std::int64_t bytes = most_bytes + header.decoding_bytes + (is_png ? 0 : decoded.values()) +
                             to.values() * static_cast<std::int64_t>(sizeof(float));
  expect_input(
      bytes <= most_decoding_bytes,
      "{}: its {} x {} pixels take {} MiB of memory; expected at most {}; save the picture "
      "in a smaller size",
      path, header.size.width, header.size.height, bytes >> 20, most_decoding_bytes >> 20);
  const DecodingMemory memory(bytes);
  if (std::ssize(content) < most_bytes) content = read_file(path, most_file_bytes);
  if (is_png) {
    set_turn();  // it may be told behind the pixels
    PngFile file(path, content);
    RowFitter fitter(decoded, file.samples(channels), to, how.fit, turn);
    file.read_rows(channels, [&](const unsigned char* row) { fitter.add(row); });
    return fitter.image();
  }
  RowFitter fitter(decoded, static_cast<int>(channels), to, how.fit, turn);
  JpegFile(path, content).read_rows(decoded, [&](const unsigned char* row) { fitter.add(row); });
  return fitter.image();
}

double fitting_change(const ImageSize& from, const ImageSize& to, PictureFit fit) {
  const FittedPart part = fitted_part(from, to, fit);
  const auto quotient = [](std::int64_t of, std::int64_t by) {
    return static_cast<double>(of) / static_cast<double>(by);
  };
  switch (fit) {
    case PictureFit::crop:
      return 1 - quotient(part.used_height * part.used_width, from.height * from.width);
    case PictureFit::pad:
      return 1 - quotient(part.filled_height * part.filled_width, to.height * to.width);
    case PictureFit::stretch: {
      const double factor = quotient(from.height * to.width, from.width * to.height);
      return std::max(factor, 1 / factor) - 1;
    }
  }
  throw_unhandled("PictureFit");
}

PictureInfo picture_info(const std::string& path) {
  const PictureStart start = start_of(path);
  expect_readable(path, start.header.size);
  constexpr std::size_t place_of_bits = 24;  // in a PNG file
  const bool is_png = start.content.starts_with("\x89PNG") && start.content.size() > place_of_bits;
  return {start.header.size, exif_orientation(start.content),
          is_png && start.content[place_of_bits] == 16};
}

ImageSize picture_size(const std::string& path) { return picture_info(path).size; }

bool is_colored(const std::string& path) {
  try {
    return start_of(path).header.size.channels > 1;
  } catch (const InputError&) {
    return false;
  }
}

}  // namespace tapestry
