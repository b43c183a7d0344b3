#include <algorithm>
#include <array>
#include <cmath>
#include <cstring>
#include <limits>

#include "kinema/core/error.h"
#include "kinema/kernels/cpu/float_loops.h"
#include "kinema/kernels/cpu/handlers.h"
#include "kinema/kernels/cpu/parallel.h"
#include "kinema/kernels/cpu/vector_loop.h"

namespace kinema::kernels {
namespace {

namespace ffi = ::xla::ffi;

struct Update {
  float b1, b2, rest1, rest2;  // rest: 1 - b, rounded once
  float eps, decay, limit;
  float factor, mu_scale, nu_scale, rate;  // this step
};

// g = clip(factor g),  m = b1 m + (1 - b1) g,  v = b2 v + (1 - b2) g^2,
// p -= rate (m mu_scale / (sqrt(v nu_scale) + eps) + decay p); see training/adamw.h
struct UpdateLoop {
  [[gnu::always_inline]] static void run(const Update& u, int64_t n, const float* g, float* p,
                                         float* mu, float* nu) {
#pragma omp simd
    for (int64_t i = 0; i < n; ++i) {
      const float above = g[i] < -u.limit ? -u.limit : g[i];
      const float clipped = (above > u.limit ? u.limit : above) * u.factor;
      const float m = mu[i] * u.b1 + clipped * u.rest1;
      const float v = nu[i] * u.b2 + clipped * clipped * u.rest2;
      const float step = m * u.mu_scale / (std::sqrt(v * u.nu_scale) + u.eps) + u.decay * p[i];
      mu[i] = m;
      nu[i] = v;
      p[i] -= u.rate * step;
    }
  }
};

constexpr int64_t kChunk = 1 << 13;  // elements: gradient, parameter and moments fit in L2

/// A tensor updated in place, F32 or BF16, one piece at a time.
class State {
 public:
  State(ffi::AnyBuffer from, ffi::Result<ffi::AnyBuffer> to)
      : from_(static_cast<const char*>(from.untyped_data())),
        to_(static_cast<char*>(to->untyped_data())),
        narrow_(from.element_type() == ffi::DataType::BF16) {}

  /// Copies the old values if the compiler gave the result a buffer of its own.
  void keep(int64_t at, int64_t count) const {
    if (from_ != to_) {
      const int64_t width = narrow_ ? 2 : 4;
      std::memcpy(to_ + at * width, from_ + at * width, static_cast<size_t>(count * width));
    }
  }

  /// As F32: the tensor's memory itself, or `wide`.
  float* open(int64_t at, int64_t count, float* wide) const {
    if (narrow_) {
      from_bf16(reinterpret_cast<const uint16_t*>(from_) + at, count, wide);
      return wide;
    }
    keep(at, count);
    return reinterpret_cast<float*>(to_) + at;
  }

  void close(int64_t at, int64_t count, const float* wide) const {
    if (narrow_) {
      to_bf16(wide, count, 1.0F, reinterpret_cast<uint16_t*>(to_) + at);
    }
  }

 private:
  const char* from_;
  char* to_;
  bool narrow_;
};

ffi::Error adamw(ffi::ThreadPool pool, ffi::AnyBuffer p, ffi::AnyBuffer mu, ffi::AnyBuffer nu,
                 ffi::AnyBuffer gradient, ffi::AnyBuffer scalars, ffi::Result<ffi::AnyBuffer> new_p,
                 ffi::Result<ffi::AnyBuffer> new_mu, ffi::Result<ffi::AnyBuffer> new_nu,
                 ffi::Span<const double> settings) {
  try {
    check(settings.size() == 5 && scalars.element_count() == 5,
          "[adamw kernel] {} settings and {} scalars, 5 and 5 expected", settings.size(),
          scalars.element_count());
    const auto* s = static_cast<const float*>(scalars.untyped_data());
    const auto setting = [&](size_t i) { return static_cast<float>(settings.begin()[i]); };
    const Update u{.b1 = setting(0),
                   .b2 = setting(1),
                   .rest1 = static_cast<float>(1.0 - settings.begin()[0]),
                   .rest2 = static_cast<float>(1.0 - settings.begin()[1]),
                   .eps = setting(2),
                   .decay = setting(3),
                   .limit = setting(4) > 0 ? setting(4) : std::numeric_limits<float>::infinity(),
                   .factor = s[0],
                   .mu_scale = s[1],
                   .nu_scale = s[2],
                   .rate = s[3]};
    const bool frozen = s[4] == 0.0F;
    const bool narrow = gradient.element_type() == ffi::DataType::BF16;
    const std::array state{State(p, new_p), State(mu, new_mu), State(nu, new_nu)};
    const auto n = static_cast<int64_t>(p.element_count());
    parallel_for(pool, (n + kChunk - 1) / kChunk, [&](int64_t piece) {
      const int64_t at = piece * kChunk;
      const int64_t count = std::min(kChunk, n - at);
      if (frozen) {
        for (const State& tensor : state) {
          tensor.keep(at, count);
        }
        return;
      }
      float wide[4][kChunk];
      const auto* g = static_cast<const float*>(gradient.untyped_data()) + at;
      if (narrow) {
        from_bf16(static_cast<const uint16_t*>(gradient.untyped_data()) + at, count, wide[3]);
        g = wide[3];
      }
      std::array<float*, 3> opened{};
      for (size_t i = 0; i < 3; ++i) {
        opened[i] = state[i].open(at, count, wide[i]);
      }
      vector_loop<UpdateLoop>(u, count, g, opened[0], opened[1], opened[2]);
      for (size_t i = 0; i < 3; ++i) {
        state[i].close(at, count, opened[i]);
      }
    });
    return ffi::Error::Success();
  } catch (const std::exception& error) {
    return ffi::Error::Internal(error.what());
  }
}

XLA_FFI_DEFINE_HANDLER(kAdamWHandler, adamw,
                       ffi::Ffi::Bind()
                           .Ctx<ffi::ThreadPool>()
                           .Arg<ffi::AnyBuffer>()
                           .Arg<ffi::AnyBuffer>()
                           .Arg<ffi::AnyBuffer>()
                           .Arg<ffi::AnyBuffer>()
                           .Arg<ffi::AnyBuffer>()
                           .Ret<ffi::AnyBuffer>()
                           .Ret<ffi::AnyBuffer>()
                           .Ret<ffi::AnyBuffer>()
                           .Attr<ffi::Span<const double>>("settings"));

}  // namespace

void* adamw_handler() { return reinterpret_cast<void*>(kAdamWHandler); }

}  // namespace kinema::kernels
