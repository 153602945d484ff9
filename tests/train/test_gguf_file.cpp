#include <doctest/doctest.h>

#include <cmath>
#include <limits>

#include "autograd/float16.hpp"
#include "tests/support/process.hpp"
#include "train/tools/convert/gguf_file.hpp"

// Tests the format of llama.cpp's files. tests/golden/gguf has files of its package `gguf`
// (tests/golden/make_gguf.py).
namespace tapestry {
namespace {

std::string gguf_golden(const std::string& name) { return golden_path("gguf/" + name + ".gguf"); }

// The numbers of kinds.gguf: odd numbers, halves that are rounded, and a block of zeros.
std::vector<float> golden_numbers() {
  std::vector<float> numbers;
  for (int i = 0; i < 192; ++i) numbers.push_back(static_cast<float>((i * 37 % 101 - 50) / 7.0));
  std::fill_n(numbers.begin() + 64, 32, 0.0F);
  std::ranges::copy(std::vector{127.0F, 0.5F, 1.5F, 2.5F, -0.5F, -2.5F}, numbers.begin() + 96);
  return numbers;
}

// Builds the bytes of a file.
struct GgufBytes {
  std::string bytes{};

  template <class Number>
  GgufBytes& add(Number number) {
    bytes.append(reinterpret_cast<const char*>(&number), sizeof(number));
    return *this;
  }
  GgufBytes& u32(std::uint32_t number) { return add(number); }
  GgufBytes& u64(std::uint64_t number) { return add(number); }
  GgufBytes& text(const std::string& text) {
    u64(text.size());
    bytes += text;
    return *this;
  }
  GgufBytes& head(std::uint64_t tensors, std::uint64_t fields) {
    bytes += "GGUF";
    return u32(3).u64(tensors).u64(fields);
  }
  GgufBytes& number_at(const std::string& name, std::uint64_t offset) {
    return text(name).u32(1).u64(1).u32(0).u64(offset);  // a tensor of one float32
  }
  GgufBytes& aligned(std::size_t to = 32) {
    bytes.resize((bytes.size() + to - 1) / to * to);
    return *this;
  }
};

// Returns the error of a file with these bytes.
std::string gguf_message(const std::string& bytes) {
  const TemporaryFolder folder;
  const std::string path = folder.write("m.gguf", bytes);
  std::string message = message_of([&] { const GgufReader reader(path); });
  if (const std::size_t at = message.find(path); at != std::string::npos)
    message.replace(at, path.size(), "m.gguf");
  return message;
}

// Checks the error of a file, with the usual advice if `message` has none.
void says(const GgufBytes& file, const std::string& message) {
  const bool advises = message.find("; ") != message.npos;
  CHECK(gguf_message(file.bytes) ==
        "m.gguf: " + message + (advises ? "" : "; use another copy of the file"));
}

// A file of one tensor "x", without fields.
GgufBytes one_tensor(const std::vector<std::uint64_t>& extents, std::uint32_t type = 0,
                     std::uint64_t offset = 0) {
  GgufBytes file;
  file.head(1, 0).text("x").u32(static_cast<std::uint32_t>(extents.size()));
  for (const std::uint64_t extent : extents) file.u64(extent);
  file.u32(type).u64(offset);
  return file;
}

TEST_SUITE_BEGIN("exchange");

TEST_CASE_FIXTURE(TemporaryFolder, "gguf: files have the bytes of those of llama.cpp's package") {
  const std::vector<float> numbers = golden_numbers();
  const std::vector<GgufField> fields = {
      {"general.architecture", std::string("llama")},
      {"llama.block_count", std::uint32_t{2}},
      {"llama.attention.layer_norm_rms_epsilon", 1e-5F},
      {"tokenizer.ggml.add_bos_token", true},
      {"general.name", std::string("Ünïcode")},
      {"tokenizer.ggml.tokens", Strings{"a", "Ġ", "日"}},
      {"tokenizer.ggml.token_type", std::vector<std::int32_t>{1, 3, -5}}};
  const std::vector<GgufTensor> tensors = {{"blk.0.ffn_norm.weight", GgufType::f32, {5}},
                                           {"exact", GgufType::f32, {3, 64}},
                                           {"half", GgufType::f16, {3, 64}},
                                           {"blocks", GgufType::q8_0, {3, 64}},
                                           {"brain", GgufType::bf16, {3, 64}}};
  const auto values = [&](std::size_t tensor) {
    Array array(tensors[tensor].shape);
    std::copy_n(numbers.begin(), array.size(), array.mutable_values<float>().begin());
    return array;
  };
  write_gguf(path("kinds.gguf"), fields, tensors, values);
  CHECK(read("kinds.gguf") == read_bytes(gguf_golden("kinds")));
}

TEST_CASE("gguf: each kind of field and tensor is written and read") {
  GgufReader reader(gguf_golden("kinds"));
  CHECK(Json::parse(reader.fields().dump()) ==
        Json({{"general.architecture", "llama"},
              {"llama.block_count", 2},
              {"llama.attention.layer_norm_rms_epsilon", 1e-5},  // not 9.99999975e-06
              {"tokenizer.ggml.add_bos_token", true},
              {"general.name", "Ünïcode"},
              {"tokenizer.ggml.tokens", {"a", "Ġ", "日"}},
              {"tokenizer.ggml.token_type", {1, 3, -5}}}));
  const std::vector<float> numbers = golden_numbers();
  const auto value = [&](std::size_t tensor, int i) {
    return reader.read(tensor).values<float>()[i];
  };
  for (int i = 0; i < 192; ++i) {
    CHECK(value(1, i) == numbers[i]);
    CHECK(std::abs(value(2, i) - numbers[i]) <= std::abs(numbers[i]) / 2048);
    CHECK(std::abs(value(3, i) - numbers[i]) <= (i < 96 ? 7.2F : 127) / 127 * 0.501F);
    CHECK(std::abs(value(4, i) - numbers[i]) <= std::abs(numbers[i]) / 256);  // bug: refused
  }
  CHECK(value(3, 97) == 1);  // 0.5 of 127 / 127, rounded away from zero
  CHECK(value(3, 100) == -1);
  CHECK(value(3, 70) == 0);

  GgufReader others(gguf_golden("fields"));
  const Json expected = Json::parse(R"({
      "general.architecture": "gpt2", "general.alignment": 64, "uint8": 200, "int8": -100,
      "uint16": 60000, "int16": -30000, "int32": 7, "uint64": 9223372036854775808,
      "int64": -1099511627776, "float64": 0.1, "floats": [0.5, 0.1], "flags": [true, false]})");
  CHECK(Json::parse(others.fields().dump()) == expected);
  CHECK(others.tensors()[1].shape == Shape{2, 3});
  CHECK(others.read(1).values<float>()[5] == 5);
}

// d = max |x| / 127; 127 whole numbers of it, halves away from zero.
TEST_CASE("gguf: q8_0 has values computed by hand") {
  std::vector<float> numbers(32, 0.0F);
  numbers[0] = -254;  // d = 2
  numbers[1] = 3;     // 1.5 -> 2
  numbers[2] = -5;    // -2.5 -> -3
  numbers[3] = 0.9F;  // 0.45 -> 0
  const std::string stored = gguf_stored(numbers, GgufType::q8_0);
  REQUIRE(stored.size() == 34);
  CHECK(stored.substr(0, 2) == std::string("\x00\x40", 2));  // 2 as float16
  CHECK(static_cast<int>(static_cast<signed char>(stored[2])) == -127);
  CHECK(static_cast<int>(stored[3]) == 2);
  CHECK(static_cast<int>(static_cast<signed char>(stored[4])) == -3);
  CHECK(static_cast<int>(stored[5]) == 0);
  std::vector<float> again(32);
  read_gguf_numbers(stored, GgufType::q8_0, again);
  CHECK(again[0] == -254);
  CHECK(again[1] == 4);
  CHECK(again[2] == -6);
}

TEST_CASE("gguf: conversion to float16 rounds to the nearest number") {
  for (int bits = 0; bits < 0x10000; ++bits) {
    const float number = float_of_float16(static_cast<std::uint16_t>(bits));
    if (std::isnan(number)) continue;
    REQUIRE(float16_bits(number) == bits);
  }
}

TEST_CASE_FIXTURE(TemporaryFolder,
                  "gguf: numbers out of a type's range are refused, without a file") {
  const std::string path = this->path("m.gguf");
  const auto refusal = [&](GgufType type, float number) {
    const std::vector<GgufTensor> tensors = {{"x", type, {32}}};
    const std::string message = message_of([&] {
      write_gguf(path, {}, tensors, [&](std::size_t) {
        Array array({32});
        for (float& each : array.mutable_values<float>()) each = number;
        return array;
      });
    });
    CHECK_FALSE(fs::exists(path));
    CHECK(std::distance(fs::directory_iterator(this->path()), {}) == 0);
    return message;
  };
  CHECK(refusal(GgufType::f16, 65520) ==
        "tensor x, as F16: the number 65520 is too large for float16, which goes up to 65504; "
        "export with --dtype float32");
  CHECK(refusal(GgufType::bf16, std::numeric_limits<float>::max()) ==
        "tensor x, as BF16: the number 3.4028235e+38 is too large for bfloat16; use float32");
  CHECK(refusal(GgufType::q8_0, 1e7F) ==
        "tensor x, as Q8_0: the scale 78740.16 is too large for float16, which goes up to 65504; "
        "export with --dtype float32");
  CHECK(refusal(GgufType::f32, NAN) ==
        "tensor x, as F32: holds numbers that are not finite; expected finite ones, use another "
        "checkpoint");
}

TEST_CASE("gguf: damaged headers are refused with byte, field or tensor") {
  says({}, "byte 0: \"GGUF\" is missing: the file is truncated");
  says({.bytes = "{\"a\": 1}"}, "byte 0: does not begin with \"GGUF\"; give a GGUF file");
  says(GgufBytes{.bytes = "GGUF"}.u32(1),
       "byte 4: version 1, expected 2 or 3, little-endian; convert the model again");
  says(GgufBytes{.bytes = "GGUF"}.u32(0x03000000).u64(0).u64(0),
       "byte 4: version 50331648, expected 2 or 3, little-endian; convert the model again");
  says(GgufBytes{}.head(~0ull, 0),
       "byte 24: tensors: 18446744073709551615, but only 0 bytes are left: the file is truncated");
  says(GgufBytes{}.head(0, 1ull << 60),
       "byte 24: fields: 1152921504606846976, but only 0 bytes are left: the file is truncated");
  says(GgufBytes{}.head(0, 1).u64(1ull << 40).u64(0),
       "byte 32: a field's name: 1099511627776, but only 8 bytes are left: the file is truncated");
  says(GgufBytes{}.head(0, 1).text("").u32(4).u32(1), "byte 24: a field has no name");
  says(GgufBytes{}.head(0, 1).text("\xff").u32(4).u32(1), "byte 24: a field's name is not UTF-8");
  says(GgufBytes{}.head(0, 2).text("a").u32(4).u32(1).text("a").u32(4).u32(1),
       "byte 41: field a occurs twice");
  says(GgufBytes{}.head(0, 1).text("a").u32(13).u32(1), "byte 33: a: type 13, expected 0 to 12");
  says(GgufBytes{}.head(0, 1).text("a").u32(9).u32(9).u64(1),
       "byte 37: a: expected a list of numbers, strings or booleans, found a list of lists; "
       "convert the model again without this field");
  says(GgufBytes{}.head(0, 1).text("a").u32(9).u32(12).u64(1ull << 61).u64(0),
       "byte 49: a: 2305843009213693952, but only 8 bytes are left: the file is truncated");
  says(GgufBytes{}.head(0, 1).text("a").u32(7).u32(2), "byte 37: a: 2, expected 0 or 1");
  says(GgufBytes{}.head(0, 1).text("a").u32(6).add(std::numeric_limits<float>::infinity()),
       "byte 37: a: expected a finite number");
  says(GgufBytes{}.head(0, 1).text("a").u32(8).text("\xc3("), "byte 37: a is not UTF-8");
  for (const std::uint32_t alignment : {0u, 4u, 48u, 1u << 20})
    says(GgufBytes{}.head(0, 1).text("general.alignment").u32(4).u32(alignment),
         fmt::format("general.alignment: expected a power of two from 8 to 65536, found {}",
                     alignment));
}

TEST_CASE("gguf: damaged offsets of tensors are refused with their name") {
  says(GgufBytes{}.head(1, 0).number_at("", 0), "byte 24: a tensor has no name");
  says(GgufBytes{}.head(1, 0).number_at(std::string(64, 'n'), 0),
       "byte 24: the name of a tensor has 64 bytes, expected at most 63");
  says(GgufBytes{}.head(1, 0).text("x").u32(0).u64(0).u64(0).u64(0),
       "byte 24: tensor x: 0 axes, expected 1 to 4");
  says(one_tensor({1, 1, 1, 1, 1}), "byte 24: tensor x: 5 axes, expected 1 to 4");
  says(one_tensor({0}),
       "byte 24: tensor x: axis 0 is 0, expected a shape of 1 to 1099511627776 numbers");
  says(one_tensor({1ull << 40, 2}),
       "byte 24: tensor x: axis 1 is 2, expected a shape of 1 to 1099511627776 numbers");
  says(one_tensor({32}, 12),
       "byte 24: tensor x: type Q4_K, expected F32, F16, BF16 or Q8_0; convert the model to one of "
       "these");
  says(one_tensor({32}, 77),
       "byte 24: tensor x: type number 77, expected F32, F16, BF16 or Q8_0; convert the model to "
       "one "
       "of these");
  says(one_tensor({33}, 8),
       "byte 24: tensor x: its rows have 33 numbers, expected whole Q8_0 blocks of 32");
  says(one_tensor({4}, 0, 32),
       "byte 24: tensor x: its data begin at byte 32, expected 0, where the previous tensor ends");
  says(one_tensor({1000}),
       "byte 24: tensor x ends after the end of the file: the file is truncated");
  says(one_tensor({4}).aligned().u32(1),
       "the file has 68 bytes, but its tensors end at byte 80: the file is truncated");
  says(one_tensor({4}).aligned().u64(1).u64(2).aligned().u32(1),
       "the file has 100 bytes, expected at most 96, the end of its tensors and their padding");
  const GgufBytes twice = GgufBytes{}.head(2, 0).number_at("x", 0).number_at("x", 32);
  says(GgufBytes(twice).aligned().u64(0).aligned().u32(0), "byte 57: tensor x occurs twice");
  CHECK(gguf_message(one_tensor({4}).aligned().u64(1).u64(2).bytes).empty());
}

TEST_CASE_FIXTURE(TemporaryFolder,
                  "gguf: a truncated or changed file is refused or read, without a crash") {
  const std::string whole = read_bytes(gguf_golden("kinds"));
  for (std::size_t bytes = 0; bytes < whole.size(); bytes += 7)
    CHECK_FALSE(gguf_message(whole.substr(0, bytes)).empty());
  for (std::size_t i = 0; i < 600; ++i) {
    std::string changed = whole;
    changed[i] = static_cast<char>(changed[i] ^ 0x90);
    const std::string path = write("m.gguf", changed);
    try {
      GgufReader reader(path);
      for (std::size_t tensor = 0; tensor < reader.tensors().size(); ++tensor) reader.read(tensor);
    } catch (const InputError& error) {
      CHECK(std::string(error.what()).starts_with(path + ": "));
    }
  }
}

TEST_SUITE_END();

}  // namespace
}  // namespace tapestry
