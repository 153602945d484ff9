#include <doctest/doctest.h>

#include <limits>
#include <nlohmann/json.hpp>

#include "data/json.hpp"
#include "tests/support/process.hpp"

// Compares JSON values with those of nlohmann's library.
namespace tapestry {
namespace {

TEST_SUITE_BEGIN("json");

using LibraryJson = nlohmann::ordered_json;

std::string json_error(const std::function<void()>& call) {
  try {
    call();
  } catch (const JsonValue::exception& error) {
    return error.what();
  }
  return "no exception";
}

std::string library_error(const std::function<void()>& call) {
  try {
    call();
  } catch (const Json::exception& error) {
    return error.what();
  }
  return "no exception";
}

TEST_CASE("json: values have the type of their argument") {
  CHECK(JsonValue().is_null());
  CHECK(JsonValue(nullptr).is_null());
  CHECK(JsonValue(true).is_boolean());
  CHECK(JsonValue(-1).is_number_integer());
  CHECK(!JsonValue(1).is_number_unsigned());
  CHECK(JsonValue(std::uint8_t{200}).is_number_unsigned());
  CHECK(JsonValue(std::uint8_t{200}).dump() == "200");
  CHECK(JsonValue(0.5F).is_number());
  CHECK(!JsonValue(0.5F).is_number_integer());
  CHECK(JsonValue("text").get<std::string>() == "text");
  CHECK(JsonValue(std::string("text")) == "text");
  CHECK(JsonValue(Strings{"a", "b"}).dump() == R"(["a","b"])");
  CHECK(JsonValue(std::vector<double>{0.5}).dump() == "[0.5]");
  CHECK(JsonValue(std::set<std::int32_t>{2, 1}).dump() == "[1,2]");
  CHECK(JsonValue(std::map<std::string, std::string>{{"b", "1"}, {"a", "2"}}).dump() ==
        R"({"a":"2","b":"1"})");
}

TEST_CASE("json: lists of pairs that begin with a text are objects, others are arrays") {
  const JsonValue object = {{"b", 1}, {"a", {1, 2}}, {"c", {{"d", nullptr}}}, {"e", {"f"}}};
  CHECK(object.dump() == R"({"b":1,"a":[1,2],"c":{"d":null},"e":["f"]})");
  CHECK(JsonValue({"a", 1}).dump() == R"(["a",1])");
  CHECK(JsonValue({{1, 2}, {"a", 2}}).dump() == R"([[1,2],["a",2]])");
  CHECK(JsonValue::array({JsonValue{{"a", 1}}}).dump() == R"([{"a":1}])");
  CHECK(JsonValue::array({{"a", 1}}).dump() == R"([["a",1]])");
  const JsonValue twice = {{"a", 1}, {"a", 2}};
  CHECK(twice.dump() == LibraryJson{{"a", 1}, {"a", 2}}.dump());
}

TEST_CASE("json: members keep their order, and each of many is found") {
  for (const int count : {16, 17, 3000}) {
    JsonValue object;
    for (int i = 0; i < count; ++i) object[std::to_string(7 * i % count)] = i;
    object["0"] = "again";
    REQUIRE(object.size() == static_cast<std::size_t>(count));
    CHECK(object.items()[0] == std::pair<std::string, JsonValue>("0", "again"));
    CHECK(object.items()[1].first == "7");
    const JsonValue read = JsonValue::parse(object.dump());
    for (int i = 1; i < count; ++i) CHECK(read[std::to_string(7 * i % count)] == i);
    CHECK(!read.contains("x"));
    CHECK(read == object);
  }
  JsonValue sorted = {{"b", {{"d", 1}, {"c", 2}}}, {"a", JsonValue::array({{{"f", 1}, {"e", 2}}})}};
  CHECK(sorted == JsonValue::parse(sorted.dump()).sort_keys());
  CHECK(sorted.sort_keys().dump() == R"({"a":[{"e":2,"f":1}],"b":{"c":2,"d":1}})");
}

TEST_CASE("json: numbers at their limits are read and written unchanged") {
  for (const char* text :
       {"0", "-0", "-1", "9223372036854775807", "9223372036854775808", "18446744073709551615",
        "-9223372036854775808", "18446744073709551616", "-9223372036854775809", "0.1", "1e-5",
        "9.99999975e-06", "1.7976931348623157e+308", "5e-324", "1e-400", "-0.0", "1E2", "100.0"}) {
    const JsonValue read = JsonValue::parse(text);
    const LibraryJson reference = LibraryJson::parse(text);
    CHECK_MESSAGE(read.dump() == reference.dump(), text);
    CHECK_MESSAGE(read.is_number_unsigned() == reference.is_number_unsigned(), text);
    CHECK_MESSAGE(read.is_number_integer() == reference.is_number_integer(), text);
    CHECK(read.get<double>() == reference.get<double>());
  }
  for (const double value : {0.1, 1.0, 1e15, 1e16, 1e22, 123456.789, -2.5e-7, 1.0 / 3})
    CHECK(JsonValue(value).dump() == LibraryJson(value).dump());
  CHECK(JsonValue(0.1F).dump() == LibraryJson(0.1F).dump());
  CHECK(JsonValue(std::nan("")).dump() == "null");
  CHECK(JsonValue(-std::numeric_limits<double>::infinity()).dump() == "null");
  CHECK(json_error([] { JsonValue::parse("1e999"); }) ==
        library_error([] { LibraryJson::parse("1e999").dump(); }));
}

TEST_CASE("json: numbers are compared by value") {
  CHECK(JsonValue(1) == 1.0);
  CHECK(JsonValue(1U) == 1);
  CHECK(JsonValue(1) != true);
  CHECK(JsonValue(0) != nullptr);
  CHECK(JsonValue("1") != 1);
  CHECK(JsonValue(std::nan("")) != std::nan(""));
  CHECK(JsonValue(2U) > -1);
  CHECK(JsonValue(-2) < JsonValue(-1));
  CHECK(JsonValue(0.5) <= 1);
  CHECK(JsonValue(std::numeric_limits<std::uint64_t>::max()) > std::int64_t{1} << 40);
  CHECK(JsonValue(std::numeric_limits<std::uint64_t>::max()) != -1);
  CHECK(!(JsonValue("b") > JsonValue("a")));
  CHECK(JsonValue{{"a", 1}, {"b", 2}} == JsonValue{{"b", 2}, {"a", 1}});
  CHECK(JsonValue{{"a", 1}, {"b", 2}} != JsonValue{{"a", 1}, {"c", 2}});
  CHECK(JsonValue{1, 2} != JsonValue{2, 1});
}

TEST_CASE("json: texts are written as by nlohmann's library") {
  const LibraryJson reference = {
      {"empty", {LibraryJson::array(), LibraryJson::object(), nullptr}},
      {"text \"\\/\b\f\n\r\t\x01\x7f", "é 日🙂"},
      {"nested", {{"list", {1, -2, 0.5, true, {{"a", {"b"}}}}}, {"last", false}}}};
  const JsonValue value = JsonValue::parse(reference.dump());
  for (const int indent : {-1, 0, 1, 2})
    for (const bool ascii : {false, true})
      CHECK(value.dump(indent, ' ', ascii) == reference.dump(indent, ' ', ascii));
  CHECK(value.dump(1, '\t') == reference.dump(1, '\t'));
}

TEST_CASE("json: bytes that are not UTF-8 are refused or replaced") {
  const std::string wrong =
      "a\xff"
      "b\xc3";
  CHECK(json_error([&] { JsonValue(wrong).dump(); }) ==
        library_error([&] { LibraryJson(wrong).dump(); }));
  CHECK(JsonValue{{wrong, wrong}}.dump(-1, ' ', false, JsonValue::error_handler_t::replace) ==
        LibraryJson{{wrong, wrong}}.dump(-1, ' ', false, LibraryJson::error_handler_t::replace));
  CHECK(json_error([&] { JsonValue::parse("\"" + wrong + "\""); }) ==
        library_error([&] { LibraryJson::parse("\"" + wrong + "\"").dump(); }));
}

TEST_CASE("json: text that is not JSON is refused with its byte") {
  for (const char* text : {"", "[1,", "{\"a\" 1}", "[1] 2", "nul", "01", "NaN", "'a'", "\"a"}) {
    CHECK(json_error([&] { JsonValue::parse(text); }) ==
          library_error([&] { LibraryJson::parse(text).dump(); }));
    CHECK(JsonValue::parse_or_null(text).is_null());
  }
  try {
    JsonValue::parse("[1, x]");
    FAIL("no exception");
  } catch (const JsonValue::parse_error& error) {
    CHECK(error.byte == 5);
  }
  CHECK(message_of([] { parse_json("{\n\"a\": }", "x.json"); }) ==
        "x.json: line 2: is not JSON; copy or create the file again");
}

TEST_CASE("json: the last of several members with the same name counts") {
  const char* text = R"({"a": 1, "b": 2, "a": {"c": 3}})";
  CHECK(JsonValue::parse(text).dump() == LibraryJson::parse(text).dump());
  std::string many = "{\"0\": 0";
  for (int i = 0; i < 100; ++i)
    many += ", \"" + std::to_string(i % 40) + "\": " + std::to_string(i);
  many += "}";
  CHECK(JsonValue::parse(many).dump() == LibraryJson::parse(many).dump());
}

TEST_CASE("json: arrays and objects that are too deep are refused") {
  const auto nested = [](int depth) {
    return std::string(depth, '[') + "1" + std::string(depth, ']');
  };
  CHECK(JsonValue::parse(nested(JsonValue::most_depth)).dump() == nested(JsonValue::most_depth));
  CHECK_THROWS_AS(JsonValue::parse(nested(JsonValue::most_depth + 1)), JsonValue::too_deep);
  CHECK_THROWS_AS(JsonValue::parse(std::string(1'000'000, '[')), JsonValue::too_deep);
  std::string objects;
  for (int i = 0; i < 100'000; ++i) objects += "{\"a\":";
  CHECK(JsonValue::parse_or_null(objects).is_null());
}

TEST_CASE("json: an object's members are passed to a callback one by one") {
  std::string seen;
  const auto take = [&](const std::string& name, const JsonValue& value) {
    seen += name + "=" + value.dump() + ";";
  };
  CHECK(JsonValue::parse_members(R"({"a": 1, "b": {"c": [2]}, "a": []})", 3, take));
  CHECK(seen == R"(a=1;b={"c":[2]};a=[];)");
  CHECK(JsonValue::parse_members("{}", 3, take));
  CHECK(!JsonValue::parse_members("[1]", 3, take));
  CHECK_THROWS_AS(JsonValue::parse_members(R"({"a": {"b": [[1]]}})", 3, take), JsonValue::too_deep);
  CHECK_THROWS_AS(JsonValue::parse_members("{\"a\": 1", 3, take), JsonValue::parse_error);
}

TEST_CASE("json: a value of another type than requested is refused") {
  const JsonValue value = {{"text", "a"}, {"list", {1, "b"}}, {"flag", true}, {"number", 1.5}};
  const LibraryJson same = LibraryJson::parse(value.dump());
  const auto compare = [&](const auto& call) {
    CHECK(json_error([&] { call(value); }) == library_error([&] { call(same); }));
  };
  compare([](const auto& json) { json.at("missing"); });
  compare([](const auto& json) { json.at("text").at("a"); });
  compare([](const auto& json) { json.at("list").at(2); });
  compare([](const auto& json) { json.at("text").template get<double>(); });
  compare([](const auto& json) { json.at("flag").template get<std::int64_t>(); });
  compare([](const auto& json) { json.at("number").template get<std::string>(); });
  compare([](const auto& json) { json.at("number").template get<bool>(); });
  compare([](const auto& json) { json.at("list").template get<Strings>(); });
  compare([](const auto& json) { json.at("text").template get<std::vector<std::int32_t>>(); });
  compare([](const auto& json) { json.at("list").value("a", std::int64_t{0}); });
  compare([](const auto& json) { json.value("text", std::int64_t{0}); });
  compare([](const auto& json) {
    auto copy = json.at("text");
    copy.push_back(1);
  });
  compare([](const auto& json) {
    auto copy = json.at("list");
    copy["a"] = 1;
  });
  CHECK_THROWS_AS(value.at("number").integer(), JsonValue::exception);
  CHECK(JsonValue::parse("9223372036854775807").integer() == 9223372036854775807);
  CHECK(JsonValue::parse("-5").integer() == -5);
  CHECK_THROWS_AS(JsonValue::parse("9223372036854775808").integer(), JsonValue::exception);
  CHECK_THROWS_WITH_AS(JsonValue::array().back(),
                       "[json.exception.out_of_range.401] back() of an empty array",
                       JsonValue::exception);
  CHECK(value.at("number").get<std::int64_t>() == 1);
  CHECK(value.value("missing", "otherwise") == "otherwise");
  CHECK(value.find("missing") == value.end());
  CHECK(value.at("text").find("a") == value.at("text").end());
}

}  // namespace
}  // namespace tapestry
