#include <array>
#include <cstring>
#include <numbers>

#include "kinema/core/error.h"
#include "kinema/graph/graph.h"
#include "kinema/graph/ops.h"

/// Random numbers from u32 arithmetic alone, so that all backends and core/threefry.h produce the
/// same bits.
namespace kinema {
namespace {

struct Words {
  Tensor first, second;
};

Tensor u32(Graph& graph, uint32_t value, const Dims& dims = {}) {
  return constant(graph, value, {DType::U32, dims});
}

// The two words of a u32[2] key as scalars.
Words words_of(Tensor key) {
  check(key.shape() == Shape{DType::U32, {2}}, "[random] the key is {}, u32[2] is needed",
        to_string(key.shape()));
  return {reshape(slice(key, Axis(0), 0, 1), {}), reshape(slice(key, Axis(0), 1, 1), {})};
}

// Threefry-2x32, 20 rounds (Salmon et al., SC 2011), on counters of any one shape:
//   x0 += x1;  x1 = rotl(x1, r) ^ x0;  after every fourth round the key words are added.
Words threefry(Tensor key, Words counter) {
  constexpr std::array<uint32_t, 8> kRotations{13, 15, 26, 6, 17, 29, 16, 24};
  const Dims& dims = counter.first.shape().dims;
  const Words k = words_of(key);
  Graph& graph = innermost(std::array{key, counter.first, counter.second});
  // Each shift distance once, so that the program does not repeat it 20 times.
  std::array<Tensor, 8> left;
  std::array<Tensor, 8> right;
  for (size_t i = 0; i < kRotations.size(); ++i) {
    left[i] = u32(graph, kRotations[i], dims);
    right[i] = u32(graph, 32 - kRotations[i], dims);
  }
  const Tensor parity = k.first ^ k.second ^ u32(graph, 0x1BD11BDAU);
  const std::array<Tensor, 3> ks{broadcast_to(k.first, dims), broadcast_to(k.second, dims),
                                 broadcast_to(parity, dims)};
  Tensor x0 = counter.first + ks[0];
  Tensor x1 = counter.second + ks[1];
  for (uint32_t round = 0; round < 20; ++round) {
    const size_t r = round % 8;
    x0 = x0 + x1;
    x1 = (shift_left(x1, left[r]) | shift_right_logical(x1, right[r])) ^ x0;
    if (round % 4 == 3) {
      const uint32_t j = round / 4 + 1;
      x0 = x0 + ks[j % 3];
      x1 = x1 + (ks[(j + 1) % 3] + static_cast<double>(j));
    }
  }
  return {x0, x1};
}

// Row-major index of every element, u32. A sum over axes rather than a reshape, so that a
// partitioner can shard it along any axis.
Tensor positions(Graph& graph, const Dims& dims) {
  const int64_t count = checked_elements(dims);
  check(count < int64_t{1} << 32, "[random] {} has {} elements, fewer than 2^32 are supported",
        to_string(dims), count);
  Tensor position = u32(graph, 0, dims);
  int64_t step = 1;
  for (auto axis = static_cast<int64_t>(dims.size()) - 1; axis >= 0; --axis) {
    const int64_t size = dims[static_cast<size_t>(axis)];
    if (size > 1) {
      const Tensor index = iota(graph, {DType::U32, dims}, Axis(axis));
      position = step == 1 ? index : position + index * static_cast<double>(step);
    }
    step *= size;
  }
  return position;
}

// One threefry block per element: the counter is the element's index.
Words blocks(Tensor key, const Dims& dims) {
  return threefry(key, {positions(key.graph(), dims), u32(key.graph(), 0, dims)});
}

// The upper 24 bits as an integer in F32, exactly.
Tensor upper_bits(Tensor bits) {
  return convert(shift_right_logical(bits, u32(bits.graph(), 8)), DType::F32);
}

Tensor key_of(Words words) {
  return concatenate({reshape(words.first, {1}), reshape(words.second, {1})}, Axis(0));
}

}  // namespace

Tensor random_bits(Tensor key, Dims dims) {
  const int64_t count = checked_elements(dims);
  const int64_t pairs = (count + 1) / 2;
  const Words words = blocks(key, {pairs, 1});
  const Tensor line = reshape(concatenate({words.first, words.second}, Axis(1)), {2 * pairs});
  return reshape(slice(line, Axis(0), 0, count), std::move(dims));
}

Tensor fold_in(Tensor key, std::string_view purpose) {
  uint64_t hash = 0xcbf29ce484222325U;  // FNV-1a, as in random_key
  for (const char c : purpose) {
    hash = (hash ^ static_cast<uint8_t>(c)) * 0x100000001b3U;
  }
  Graph& graph = key.graph();
  return key_of(threefry(key, {u32(graph, static_cast<uint32_t>(hash)),
                               u32(graph, static_cast<uint32_t>(hash >> 32))}));
}

Tensor fold_in(Tensor key, Tensor position) {
  check(position.shape() == Shape{DType::U32, {}}, "[fold_in] the position is {}, u32[] is needed",
        to_string(position.shape()));
  return key_of(threefry(key, {position, u32(position.graph(), 0)}));
}

Tensor random_uniform(Tensor key, Dims dims) {
  return upper_bits(random_bits(key, std::move(dims))) * 0x1p-24;
}

// z = sqrt(-2 ln u) cos(2 pi v), u in (0, 1] so that the logarithm stays finite. Each element uses
// both words of its own block, so that no element depends on a neighbour.
Tensor random_normal(Tensor key, const Dims& dims) {
  const Words words = blocks(key, dims);
  const Tensor u = (upper_bits(words.first) + 1.0) * 0x1p-24;
  const Tensor v = upper_bits(words.second) * 0x1p-24;
  return sqrt(-2.0 * log(u)) * cos(2.0 * std::numbers::pi * v);
}

}  // namespace kinema
