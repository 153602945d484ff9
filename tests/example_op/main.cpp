#include <fmt/core.h>

#include <tapestry/elementwise.hpp>
#include <tapestry/layers.hpp>
#include <tapestry/ops.hpp>
#include <tapestry/optim.hpp>

using namespace tapestry;

// An op from two lambdas: returns x / (1 + |x|), x (...) -> (...) (softsign).
Tensor softsign(const Tensor& x) {
  return unary<Saves::input>(
      "softsign", x, [](auto v) { return v / (Scalar<decltype(v)>(1) + abs(v)); },
      [](auto g, auto v) {
        const auto width = Scalar<decltype(v)>(1) + abs(v);
        return g / (width * width);
      });
}

// The differences of each row of a (N, F) from all rows of b (K, F), on all threads.
struct Differences {
  const Array &a, &b;

  // Returns the squared lengths (N, K).
  Array squared() const {
    const std::int64_t N = a.dim(0), K = b.dim(0), F = a.dim(1);
    Array y({N, K}, a.dtype());
    dispatch(a.dtype(), [&]<class T>() {
      const T *from = a.values<T>().data(), *to = b.values<T>().data();
      T* out = y.mutable_values<T>().data();
      parallel_for(N, 64, [=](std::int64_t begin, std::int64_t end) {
        for (std::int64_t i = begin * K; i < end * K; ++i) {
          T sum = 0;
          for (std::int64_t f = 0; f < F; ++f) {
            const T d = from[i / K * F + f] - to[i % K * F + f];
            sum += d * d;
          }
          out[i] = sum;
        }
      });
    });
    return y;
  }

  // Returns their gradient by a, given that by the squared lengths: (N, K) -> (N, F).
  Array gradient(const Array& by_squares) const {
    const std::int64_t N = a.dim(0), K = b.dim(0), F = a.dim(1);
    Array da = Array::zeros(a.shape(), a.dtype());
    dispatch(a.dtype(), [&]<class T>() {
      const T *from = a.values<T>().data(), *to = b.values<T>().data();
      const T* g = by_squares.values<T>().data();
      T* out = da.mutable_values<T>().data();
      parallel_for(N, 64, [=](std::int64_t begin, std::int64_t end) {
        for (std::int64_t i = begin * K; i < end * K; ++i)
          for (std::int64_t f = 0; f < F; ++f)
            out[i / K * F + f] += 2 * g[i] * (from[i / K * F + f] - to[i % K * F + f]);
      });
    });
    return da;
  }
};

// An op by hand: returns ‖x_n - c_k‖², x (N, F), centers (K, F) -> (N, K). Throws
// std::invalid_argument for other shapes, and for dtypes that differ.
Tensor squared_distances(const Tensor& x, const Tensor& centers) {
  require(x.rank() == 2 && centers.rank() == 2 && x.dim(1) == centers.dim(1) &&
              x.dtype() == centers.dtype(),
          "squared_distances: {} and {}; expected (N, F) and (K, F) of one dtype", x.value(),
          centers.value());
  return record("squared_distances", Differences{x.value(), centers.value()}.squared(),
                {x, centers},
                [x = x.value(), c = centers.value()](const Array& g, InputGradients& into) {
                  if (into.wanted(0)) into.add(0, Differences{x, c}.gradient(g));
                  if (!into.wanted(1)) return;
                  into.add(1, Differences{c, x}.gradient(permute(Tensor(g), {1, 0}).value()));
                });
}

// A layer: radial basis functions 1 - 1 / (1 + ‖x - c_k‖²), with trained centers (Broomhead & Lowe
// 1988, Complex Systems 2).
class RadialBasis final : public Module {
 public:
  Parameter centers;  // (K, F)

  RadialBasis(std::int64_t K, std::int64_t F, Random& init)
      : centers(initial_uniform({K, F}, 1, init), Role::weight) {}

  Tensor forward(const Tensor& x) const {  // (N, F) -> (N, K)
    const Scope scope(path());
    return softsign(squared_distances(x, centers));
  }
  void fields(FieldVisitor& visit) override { visit("centers", centers); }
};

// A model of this layer and a linear map.
class Network final : public Module {
 public:
  RadialBasis basis;
  Linear out;

  explicit Network(Random& init) : basis(16, 2, init), out(16, 1, init) {}
  Tensor forward(const Tensor& x) const { return out.forward(basis.forward(x)); }
  void fields(FieldVisitor& visit) override {
    visit("basis", basis);
    visit("out", out);
  }
};

int main() {
  Random random(1, Stream::init);
  Array x({256, 2}), y({256, 1});  // points of a square, and the products of their coordinates
  random.fill_uniform(x, -1, 1);
  const auto points = x.values<float>();
  for (std::size_t i = 0; i < 256; ++i)
    y.mutable_values<float>()[i] = points[2 * i] * points[2 * i + 1];

  Network model(random);
  const auto parameters = model.parameters();
  model.convert(DType::float64);  // which gradient checks need
  const Array few = x.select({0, 1, 2, 3}).to(DType::float64);
  for (const GradcheckResult& result :
       gradcheck_parameters([&] { return model.forward(few); }, parameters)) {
    fmt::print("{}: {}\n", result.name, result.passed ? "right" : "wrong");
    if (!result.passed) return 1;
  }
  model.convert(DType::float32);

  AdamW optimizer(parameters, {.weight_decay = 0.01});
  for (int step = 0; step <= 300; ++step) {
    Tape tape;
    const Tensor loss = mean(squared_error(model.forward(x), y));
    if (step % 100 == 0) fmt::print("step {:3}  loss {:.8f}\n", step, loss.item());
    optimizer.step(tape.backward(loss), 1e-2);
  }
}
