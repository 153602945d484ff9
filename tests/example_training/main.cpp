#include <algorithm>
#include <atomic>
#include <cmath>
#include <cstdio>
#include <exception>
#include <filesystem>
#include <memory>
#include <mutex>
#include <string>
#include <tapestry/model.hpp>
#include <tapestry/training.hpp>
#include <thread>
#include <vector>

using tapestry::Model, tapestry::Training;

const char* const config = R"(
task = "forecast"
data.kind = "csv"
[model]
kind = "linear"
context = 48
horizon = 12
[train]
steps = 200
batch_size = 32
eval_every = 100
)";

// The newest rows of two sensors.
class Ring {
 public:
  void add(double load, double temperature) {
    const std::lock_guard lock(mutex_);
    values_[next_ % rows * 2] = load;
    values_[next_++ % rows * 2 + 1] = temperature;
  }
  // Returns the newest rows, at most `count`, the oldest first.
  std::vector<double> newest(std::size_t count) const {
    const std::lock_guard lock(mutex_);
    std::vector<double> values;
    for (std::size_t row = next_ - std::min({count, next_, rows}); row < next_; ++row)
      values.insert(values.end(), {values_[row % rows * 2], values_[row % rows * 2 + 1]});
    return values;
  }

  static constexpr std::size_t rows = 2000;

 private:
  mutable std::mutex mutex_;
  std::vector<double> values_ = std::vector<double>(rows * 2);
  std::size_t next_ = 0;
};

// Writes rows of a period that becomes shorter with the round: 24 rows, 18, 12.
void measure(Ring& ring, int round) {
  for (int row = 0; row < 1000; ++row) {
    const double wave = std::sin(2 * 3.14159 * row / (24 - 6 * round));
    ring.add(5 * wave + 0.1 * (row % 7), 10 - 3 * wave);
  }
}

// Forecasts in a thread of its own with the last weights of the model that was published.
class Server {
 public:
  explicit Server(const Ring& ring)
      : thread_([this, &ring](std::stop_token stop) {
          while (!stop.stop_requested()) serve(ring);
        }) {}
  void publish(Model model) {
    const std::lock_guard lock(mutex_);
    model_ = std::make_shared<const Model>(std::move(model));
  }
  long forecasts() const { return forecasts_; }

 private:
  void serve(const Ring& ring) {
    std::shared_ptr<const Model> model;
    {
      const std::lock_guard lock(mutex_);
      model = model_;
    }
    if (!model) return std::this_thread::yield();
    const std::vector<double> newest = ring.newest(model->context());
    const std::vector<float> window(newest.begin(), newest.end());
    if (std::isfinite(model->forecast(window).values.front())) ++forecasts_;
  }

  std::mutex mutex_;
  std::shared_ptr<const Model> model_;
  std::atomic<long> forecasts_ = 0;
  std::jthread thread_;
};

int main(int argc, char** argv) try {
  const std::string path = argc > 1 ? argv[1] : "forecaster.safetensors";
  tapestry::set_num_threads(1);
  Ring ring;
  Server server(ring);
  for (int round = 0; round < 3; ++round) {
    measure(ring, round);
    const std::vector<double> rows = ring.newest(Ring::rows);
    Training training({.text = config, .from = std::filesystem::exists(path) ? path : ""},
                      {.series = {.names = {"load", "temperature"}, .values = rows}},
                      {.memory_limit = 16 << 20});
    const double before = training.evaluate().values.at("loss");
    server.publish(training.model());  // which serves while the next line trains
    const double after = training.train().values.at("loss");
    training.save(path);
    std::printf("round %d: loss %.4f, then %.4f\n", round, before, after);
  }
  while (server.forecasts() == 0) std::this_thread::yield();
  std::printf("forecasts were served meanwhile\n");
} catch (const std::exception& error) {
  std::fprintf(stderr, "%s\n", error.what());
  return 1;
}
