// The CPU's product kernel on int8 against bf16: tokens by weights, as linear layers of Wan 1.3B
// have them, on one thread. Prints a line of JSON a shape; each figure is the least of the runs.
#include <fmt/core.h>

#include <algorithm>
#include <memory>
#include <vector>

#include "kinema/command/command.h"
#include "kinema/core/error.h"
#include "kinema/kernels/cpu/isa.h"
#include "kinema/kernels/cpu/matrix_product.h"
#include "measure.h"

namespace kinema::bench {
namespace {

struct Shape3 {
  int64_t m, n, k;
};

/// Seconds of processor time for x [m, k] times w [n, k] transposed.
double seconds(const Shape3& s, DType in, DType out, int64_t runs) {
  const kernels::StridedDot dot{.m = s.m,
                                .n = s.n,
                                .k = s.k,
                                .a_m = s.k,
                                .a_k = 1,
                                .b_k = 1,
                                .b_n = s.k,
                                .c_m = s.n,
                                .c_n = 1};
  const auto operand = [&](int64_t rows, uint64_t seed) {
    const HostArray values = noise({rows, s.k}, seed);
    if (in != DType::S8) {
      return convert(values, in);
    }
    HostArray codes(Shape{DType::S8, {rows, s.k}});
    std::ranges::transform(values.as<float>(), codes.as<int8_t>().begin(), [](float x) {
      return static_cast<int8_t>(std::clamp(x * 40.0F, -128.0F, 127.0F));
    });
    return codes;
  };
  const HostArray x = operand(s.m, 1);
  const HostArray w = operand(s.n, 2);
  HostArray y(Shape{out, {s.m, s.n}});
  const Times times = time_runs(2, runs, [&] {
    kernels::matrix_product(dot, in, out, x.bytes.data(), w.bytes.data(), nullptr, y.bytes.data(),
                            1, [](int64_t count, const std::function<void(int64_t)>& task) {
                              for (int64_t i = 0; i < count; ++i) {
                                task(i);
                              }
                            });
  });
  return *std::ranges::min_element(times.processor);
}

int run(int64_t runs) {
  check(kernels::has_fast_product(DType::S8) && kernels::has_fast_product(DType::BF16),
        "[bench] this processor ({}) has no int8 products", kernels::isa_name(kernels::isa()));
  for (const Shape3& s :
       {Shape3{1024, 1536, 1536}, Shape3{1024, 8960, 1536}, Shape3{1024, 1536, 8960}}) {
    const double bf16 = seconds(s, DType::BF16, DType::BF16, runs);
    const double int8 = seconds(s, DType::S8, DType::S32, runs);
    const double flops =
        2.0 * static_cast<double>(s.m) * static_cast<double>(s.n) * static_cast<double>(s.k);
    fmt::print(
        "{{\"isa\": \"{}\", \"m\": {}, \"n\": {}, \"k\": {}, \"bf16_gflops\": {:.1f}, "
        "\"int8_gflops\": {:.1f}, \"speedup\": {:.2f}}}\n",
        kernels::isa_name(kernels::isa()), s.m, s.n, s.k, flops / bf16 / 1e9, flops / int8 / 1e9,
        bf16 / int8);
  }
  return 0;
}

}  // namespace
}  // namespace kinema::bench

int main(int argc, char** argv) {
  kinema::command::Program program("bench_narrow_product", "",
                                   "int8 products on this CPU against bf16");
  kinema::command::Command command = program.itself();
  const auto runs = std::make_shared<int64_t>(7);
  command.option("--runs", *runs).shows_default();
  command.run([runs] { return kinema::bench::run(*runs); });
  try {
    return program.run(argc, argv);
  } catch (const kinema::Error& error) {
    fmt::print(stderr, "{}\n", error.what());
    return 1;
  }
}
