#include <doctest/doctest.h>

#include <cstring>
#include <map>
#include <numeric>
#include <protozero/pbf_reader.hpp>
#include <set>

#include "tests/support/run_fixture.hpp"
#include "train/run/event_file.hpp"

// tests/interop reads the same files by the package tensorboard.
namespace tapestry {
namespace {

struct Event {
  std::int64_t step = 0;
  bool starts_session = false;
  std::string tag{}, kind{};  // of the value: "scalar", "image", "histogram", "text"
  float scalar = 0;
  std::string content{};                   // of an image its PNG, of a text the text
  std::vector<double> limits{}, counts{};  // of a histogram: upper limits and counts of its buckets
};

Event event_of(const std::string& bytes) {
  Event event;
  for (protozero::pbf_reader message(bytes); message.next();) switch (message.tag()) {
      case 2:
        event.step = message.get_int64();
        break;
      case 7:
        event.starts_session = true;
        message.skip();
        break;
      case 5: {
        protozero::pbf_reader summary = message.get_message();
        REQUIRE(summary.next(1));
        for (protozero::pbf_reader value = summary.get_message(); value.next();)
          switch (value.tag()) {
            case 1:
              event.tag = value.get_string();
              break;
            case 2:
              event.kind = "scalar";
              event.scalar = value.get_float();
              break;
            case 5: {
              event.kind = "histogram";
              for (protozero::pbf_reader held = value.get_message(); held.next();) {
                if (held.tag() != 6 && held.tag() != 7) {
                  held.skip();
                  continue;
                }
                std::vector<double>& into = held.tag() == 6 ? event.limits : event.counts;
                for (const double one : held.get_packed_double()) into.push_back(one);
              }
              break;
            }
            case 4:
            case 8: {
              event.kind = value.tag() == 4 ? "image" : "text";
              const auto held = value.tag();
              protozero::pbf_reader inner = value.get_message();
              while (inner.next(held == 4 ? 4 : 8)) event.content = inner.get_string();
              break;
            }
            default:
              value.skip();
          }
        break;
      }
      default:
        message.skip();
    }
  return event;
}

// Each record has the bytes of tf_record.
std::vector<Event> events_of(const std::string& path) {
  const std::string bytes = read_bytes(path);
  std::vector<Event> events;
  for (std::size_t at = 0; at < bytes.size();) {
    std::uint64_t length = 0;
    std::memcpy(&length, bytes.data() + at, 8);
    const std::string record = bytes.substr(at + 12, length);
    REQUIRE(bytes.substr(at, length + 16) == tf_record(record));
    events.push_back(event_of(record));
    at += length + 16;
  }
  return events;
}

Strings event_files(const std::string& folder) {
  Strings paths;
  for (const auto& entry : fs::directory_iterator(folder))
    if (entry.path().filename().string().starts_with("events.")) paths.push_back(entry.path());
  std::ranges::sort(paths);
  return paths;
}

TEST_SUITE_BEGIN("tensorboard");

TEST_CASE("tensorboard: records as the package tensorboard 2.21 writes them") {
  const auto hex = [](const std::string& bytes) {
    std::string text;
    for (const char byte : bytes) text += fmt::format("{:02x}", static_cast<unsigned char>(byte));
    return text;
  };
  CHECK(hex(tf_record("123456789")) == "090000000000000037f97139313233343536373839e5b08ac7");
}

TEST_CASE_FIXTURE(RunFixture, "tensorboard: trainings and resumed trainings write events") {
  const Words shown = "train.tensorboard=true optim.schedule=constant";
  must_train("text", "plain", "optim.schedule=constant");
  must_train("text", "run", {shown[0], shown[1], "train.steps=17"});
  must_train("text", "run", {shown[0], shown[1], "--resume"});
  check_same_checkpoint(checkpoint("run"), checkpoint("plain"));

  const Strings paths = event_files(this->path("run"));
  REQUIRE(paths.size() == 2);
  std::map<std::pair<std::string, std::int64_t>, float> scalars;
  std::set<std::string> kinds;
  for (const std::string& path : paths) {
    const std::vector<Event> events = events_of(path);
    REQUIRE(events.size() > 3);
    CHECK(events[1].starts_session);
    CHECK(events[1].step == (path == paths[0] ? 1 : 18));
    for (const Event& event : events) {
      kinds.insert(event.kind + " " + event.tag.substr(0, event.tag.find('/')));
      if (event.kind == "scalar") scalars[{event.tag, event.step}] = event.scalar;
      if (event.tag == "config")
        CHECK(event.content.starts_with("    task = \"language-model\"\n    "));
      if (event.kind == "image") CHECK(event.content.starts_with("\x89PNG"));
    }
  }
  for (const char* kind : {"text config", "text samples", "image attention", "histogram weights",
                           "histogram gradients"})
    CHECK_MESSAGE(kinds.contains(kind), kind);
  for (const Json& line : metrics("run"))
    for (const auto& [name, value] : line.items())
      if (value.is_number() && name != "step" && name != "elapsed_s")
        CHECK(scalars.at({name + "/" + line["split"].get<std::string>(), line["step"]}) ==
              value.get<float>());
}

TEST_CASE_FIXTURE(
    RunFixture, "tensorboard: models without samples or attention have scalars, others pictures") {
  must_train("vae", "run", "train.tensorboard=true train.steps=5");
  const Strings paths = event_files(path("run"));
  REQUIRE(paths.size() == 1);
  int pictures = 0;
  for (const Event& event : events_of(paths[0])) pictures += event.kind == "image";
  CHECK(pictures == 1);
}

TEST_CASE_FIXTURE(TemporaryFolder, "event file: histograms may have no, one or infinite numbers") {
  RunLock lock(Run(path()), RunLock::Folder::find);
  EventFile file(lock, 1);
  const double infinity = std::numeric_limits<double>::infinity();
  file.add_histogram(1, "none", Array({0}, DType::float64));
  file.add_histogram(1, "one", Array::full({1}, 3, DType::float64));
  const std::vector<double> some = {1, infinity, 2, std::nan("")};
  file.add_histogram(1, "some", Array::of(some, {4}));
  const std::vector<double> quarters = {0, 1, 1.5, 4};
  file.add_histogram(1, "quarters", Array::of(quarters, {4}));
  const std::vector<Event> events = events_of(file.path());
  REQUIRE(events.size() == 5);
  CHECK(events[2].limits == std::vector<double>{3});
  CHECK(events[2].counts == std::vector<double>{1});
  const Event& spread = events[4];
  const std::size_t n = spread.limits.size();
  REQUIRE((n > 1 && spread.counts.size() == n));
  for (std::size_t i = 0; i < n; ++i)
    CHECK(spread.limits[i] ==
          doctest::Approx(4.0 * static_cast<double>(i + 1) / static_cast<double>(n)));
  CHECK(std::accumulate(spread.counts.begin(), spread.counts.end(), 0.0) == 4);
  CHECK(spread.counts.front() == 1);
  CHECK(spread.counts[n / 4] == 1);
  CHECK(spread.counts.back() == 1);
  const EventFile other(lock, 1);  // in the same second
  CHECK(other.path() != file.path());
}

TEST_SUITE_END();

}  // namespace
}  // namespace tapestry
