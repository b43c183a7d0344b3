// Every kind of attention against direct computation, on one and on several CPU devices.
#include "kinema/nn/attention.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <memory>

#include "graph/evaluate.h"
#include "kinema/core/error.h"
#include "kinema/core/threefry.h"
#include "kinema/graph/autodiff.h"
#include "kinema/graph/body.h"
#include "kinema/graph/emit.h"
#include "kinema/graph/manual.h"
#include "kinema/graph/scan.h"
#include "kinema/kernels/attention_record.h"

namespace kinema::nn {
namespace {

using testing::HasSubstr;
using testing::ThrowsMessage;

HostArray random_array(DType dtype, Dims dims, uint64_t seed) {
  HostArray x(Shape{DType::F32, std::move(dims)});
  RandomStream stream(random_key(seed, "attention_test"));
  for (float& value : x.as<float>()) {
    value = stream.normal();
  }
  return convert(x, dtype);
}

struct Sizes {
  int64_t batch, queries, keys, heads, width;
};

std::vector<HostArray> arguments(const Sizes& s, DType dtype) {
  return {random_array(dtype, {s.batch, s.queries, s.heads, s.width}, 1),
          random_array(dtype, {s.batch, s.keys, s.heads, s.width}, 2),
          random_array(dtype, {s.batch, s.keys, s.heads, s.width}, 3)};
}

/// The result, and the gradients of q, k and v for a sum with different weights for each element.
std::vector<Tensor> with_gradients(std::span<const Tensor> x, const AttentionOptions& options) {
  const Tensor y = attention(x[0], x[1], x[2], options);
  const DType dtype = y.dtype() == DType::F64 ? DType::F64 : DType::F32;
  const int64_t n = y.shape().elements();
  const Tensor weights = sin(1.7 * iota(y.graph(), {dtype, {n}}, Axis(0)));
  const Tensor loss = sum(reshape(convert(y, dtype), {n}) * weights);
  std::vector<Tensor> out{y};
  for (const Tensor g : gradients(loss, x.first(3))) {
    out.push_back(g);
  }
  return out;
}

std::vector<HostArray> run(const Sizes& sizes, DType dtype,
                           std::span<const AttentionOptions> several, const MeshAxes& mesh = {}) {
  Graph graph;
  const std::vector<HostArray> given = arguments(sizes, dtype);
  std::vector<Tensor> x;
  for (const HostArray& array : given) {
    x.push_back(
        graph.input(array.shape, "", mesh.axes.empty() ? Sharding() : replicated(array.shape)));
  }
  std::vector<Tensor> outputs;
  for (const AttentionOptions& options : several) {
    for (const Tensor y : with_gradients(x, options)) {
      outputs.push_back(mesh.axes.empty() ? y : with_sharding(y, {}));
    }
  }
  return evaluate(graph, outputs, given, mesh);
}

/// Sums in another order, each within some units of 2^-24 (2^-53) of the largest value. In bf16
/// four values are rounded that the other form does not round, or rounds elsewhere: weights,
/// results, their gradients and the differences of the scores, each by 2^-9.
double tolerance(DType dtype) {
  return dtype == DType::BF16 ? 0x1p-6 : dtype == DType::F32 ? 0x1p-24 * 64 : 0x1p-53 * 64;
}

/// `zero`: the value is 0 up to rounding, as are the gradients of scores with only one key, whose
/// weight is always 1.
void expect_near(const HostArray& got, const HostArray& want, const std::string& what,
                 bool zero = false) {
  ASSERT_EQ(got.shape, want.shape) << what;
  const HostArray a = convert(got, DType::F64);
  const HostArray b = convert(want, DType::F64);
  double largest = 0;
  double difference = 0;
  for (size_t i = 0; i < a.as<double>().size(); ++i) {
    ASSERT_TRUE(std::isfinite(a.as<double>()[i])) << what;
    largest = std::max(largest, std::abs(b.as<double>()[i]));
    difference = std::max(difference, std::abs(a.as<double>()[i] - b.as<double>()[i]));
  }
  if (zero) {
    EXPECT_LE(largest + difference, tolerance(got.shape.dtype)) << what;
    return;
  }
  EXPECT_GT(largest, 0.01) << what;
  EXPECT_LE(difference, largest * tolerance(got.shape.dtype)) << what;
}

/// All options give the same results and gradients as the plain kind on one device.
void expect_plain(const Sizes& sizes, DType dtype, const std::vector<AttentionOptions>& several,
                  const MeshAxes& mesh = {}) {
  const std::vector<AttentionOptions> plain{
      {.kind = AttentionKind::DOT_PRODUCT, .scale = several[0].scale}};
  std::vector<AttentionOptions> all = plain;
  std::vector<HostArray> want;
  std::vector<HostArray> got;
  if (mesh.axes.empty()) {
    all.insert(all.end(), several.begin(), several.end());
    want = run(sizes, dtype, all);
    got.assign(want.begin() + 4, want.end());
  } else {
    want = run(sizes, dtype, plain);
    got = run(sizes, dtype, several, mesh);
  }
  static constexpr const char* kNames[] = {"y", "dq", "dk", "dv"};
  for (size_t i = 0; i < got.size(); ++i) {
    expect_near(got[i], want[i % 4],
                fmt::format("{} of options {}, s {} t {} heads {}", kNames[i % 4], i / 4,
                            sizes.queries, sizes.keys, sizes.heads),
                sizes.keys == 1 && (i % 4 == 1 || i % 4 == 2));
  }
}

kernels::FlashBlockSizes blocks(int64_t queries, int64_t keys) {
  return {.block_q = queries,
          .block_kv = keys,
          .block_kv_compute = keys,
          .block_q_dkv = keys,
          .block_kv_dkv = queries,
          .block_kv_dkv_compute = queries};
}

class Attention : public pjrt::CpuTest {};

TEST_F(Attention, InBlocksEqualsDotProductAttention) {
  const auto flash = [](kernels::FlashBlockSizes sizes, double scale = 0.3) {
    return AttentionOptions{.kind = AttentionKind::FLASH, .scale = scale, .blocks = sizes};
  };
  // Lengths divisible by the block size, not divisible, and shorter than a block; queries and keys
  // of equal length or not.
  expect_plain({2, 24, 24, 3, 8}, DType::F64, {flash(blocks(8, 6)), flash(blocks(6, 24))});
  expect_plain({2, 23, 7, 1, 8}, DType::F64, {flash(blocks(5, 3)), flash({})});
  expect_plain({1, 1, 19, 2, 4}, DType::F64, {flash(blocks(4, 4), 0)});
  for (const DType dtype : {DType::F64, DType::F32, DType::BF16}) {
    expect_plain({1, 37, 37, 2, 8}, dtype, {flash(blocks(8, 6)), flash(blocks(64, 10))});
  }
}

TEST_F(Attention, InBlocksWithoutMasksIsExactWhereBlocksDivide) {
  expect_plain({1, 24, 24, 2, 8}, DType::F32,
               {{.kind = AttentionKind::FLASH,
                 .scale = 0.3,
                 .blocks = blocks(8, 6),
                 .mask_padding = false}});
}

TEST_F(Attention, UnmaskedPaddingCountsAsKeysOfScoreZero) {
  // 3 keys in 2 blocks of 2: the fourth has score and value 0. With all scores 0, an unmasked mean
  // of the values would be over four.
  Graph graph;
  const Tensor zeros = constant(graph, 0.0, {DType::F32, {1, 1, 1, 2}});
  const Tensor k = constant(graph, 0.0, {DType::F32, {1, 3, 1, 2}});
  const Tensor v = constant(graph, 4.0, {DType::F32, {1, 3, 1, 2}});
  AttentionOptions options{.kind = AttentionKind::FLASH, .blocks = blocks(2, 2)};
  std::vector<Tensor> y{attention(zeros, k, v, options)};
  options.mask_padding = false;
  y.push_back(attention(zeros, k, v, options));
  const std::vector<HostArray> got = evaluate(graph, y);
  EXPECT_EQ(got[0].as<float>()[0], 4.0F);
  EXPECT_EQ(got[1].as<float>()[0], 3.0F);
}

TEST_F(Attention, HeadsMayBeFoldedIntoTheBatch) {
  expect_plain({2, 9, 7, 3, 8}, DType::F32, {{.scale = 0.3, .split_heads = false}});
}

TEST_F(Attention, InBlocksHasGradientsOfGradients) {
  // d/dx of |dq|^2, for the plain kind and in blocks.
  Graph graph;
  const std::vector<HostArray> given = arguments({1, 7, 7, 1, 4}, DType::F64);
  std::vector<Tensor> x;
  for (const HostArray& array : given) {
    x.push_back(graph.input(array.shape));
  }
  std::vector<Tensor> outputs;
  for (const AttentionKind kind : {AttentionKind::DOT_PRODUCT, AttentionKind::FLASH}) {
    const Tensor y = attention(x[0], x[1], x[2], {.kind = kind, .blocks = blocks(3, 2)});
    const Tensor dq = gradients(sum(y * y * y), std::span(x).first(1))[0];
    outputs.push_back(gradients(sum(dq * dq), std::span(x).subspan(1, 1))[0]);
  }
  const std::vector<HostArray> got = evaluate(graph, outputs, given);
  expect_near(got[1], got[0], "second order");
}

// ---- Several devices ------------------------------------------------------------------------

struct MeshCase {
  MeshAxes mesh;
  AttentionAxes axes;
};

MeshCase mesh_of(std::vector<std::pair<std::string, int64_t>> sizes,
                 std::vector<std::string> heads = {}) {
  const MeshAxes mesh{std::move(sizes)};
  return {mesh, {mesh, {"data"}, {"context"}, std::move(heads)}};
}

/// Tokens over two axes in the other order: context in front of fsdp.
MeshCase context_and_fsdp(int64_t fsdp, int64_t context) {
  const MeshAxes mesh{{{"data", 1}, {"fsdp", fsdp}, {"context", context}}};
  return {mesh, {mesh, {"data"}, {"context", "fsdp"}, {}}};
}

int64_t along_sequence(const MeshCase& mesh) {
  return device_groups(mesh.mesh, mesh.axes.sequence).size();
}

std::vector<AttentionOptions> every_kind(const MeshCase& mesh, bool replicated_keys) {
  AttentionOptions plain{
      .scale = 0.3, .axes = mesh.axes, .replicated_keys = replicated_keys, .blocks = blocks(4, 3)};
  std::vector<AttentionOptions> all;
  for (const AttentionKind kind : {AttentionKind::DOT_PRODUCT, AttentionKind::FLASH,
                                   AttentionKind::RING, AttentionKind::ULYSSES}) {
    all.push_back(plain);
    all.back().kind = kind;
  }
  all.back().ulysses_chunks = 2;
  for (int64_t shards = 1; shards <= along_sequence(mesh); ++shards) {
    if (along_sequence(mesh) % shards != 0) {
      continue;
    }
    all.push_back(plain);
    all.back().kind = AttentionKind::ULYSSES_RING;
    all.back().ulysses_shards = shards;
  }
  return all;
}

class OnDevices : public pjrt::CpuTest, public testing::WithParamInterface<DType> {
 protected:
  static void expect_all_plain(const Sizes& sizes, const MeshCase& mesh,
                               bool replicated_keys = false) {
    expect_plain(sizes, GetParam(), every_kind(mesh, replicated_keys), mesh.mesh);
  }
};

TEST_P(OnDevices, OneGivesThePlainResult) {
  expect_all_plain({2, 13, 13, 3, 8}, mesh_of({{"data", 1}, {"context", 1}}));
}

TEST_P(OnDevices, TwoGiveThePlainResult) {
  const MeshCase mesh = mesh_of({{"data", 1}, {"context", 2}});
  expect_all_plain({1, 13, 13, 3, 8}, mesh);
  expect_all_plain({1, 13, 7, 3, 8}, mesh, true);
}

TEST_P(OnDevices, FourGiveThePlainResult) {
  expect_all_plain({2, 16, 16, 4, 8}, mesh_of({{"data", 1}, {"context", 4}}));
  expect_all_plain({1, 13, 13, 6, 8},
                   mesh_of({{"data", 1}, {"context", 4}}));  // heads: two and two
  expect_all_plain({3, 13, 13, 3, 8}, mesh_of({{"data", 2}, {"context", 2}}));
  expect_all_plain({1, 14, 5, 3, 8},
                   mesh_of({{"data", 1}, {"context", 2}, {"tensor", 2}}, {"tensor"}), true);
}

TEST_P(OnDevices, EightGiveThePlainResult) {
  // The last three devices hold only padding.
  expect_all_plain({1, 9, 9, 5, 8}, mesh_of({{"data", 1}, {"context", 8}}));
  expect_all_plain({2, 21, 21, 3, 8},
                   mesh_of({{"data", 2}, {"context", 2}, {"tensor", 2}}, {"tensor"}));
  expect_all_plain({2, 11, 6, 3, 8}, mesh_of({{"data", 2}, {"context", 4}}), true);
}

INSTANTIATE_TEST_SUITE_P(Dtypes, OnDevices, testing::Values(DType::F32, DType::BF16),
                         [](const auto& info) { return std::string(to_string(info.param)); });

TEST_P(OnDevices, TwoAxesShareTheSequence) {
  expect_all_plain({1, 12, 12, 4, 8}, context_and_fsdp(2, 2));
  expect_all_plain({1, 13, 13, 3, 8}, context_and_fsdp(2, 3));
  expect_all_plain({1, 13, 5, 3, 8}, context_and_fsdp(3, 2), true);
}

// Lengths that a kernel without odd lengths (cuDNN's) would refuse.
TEST_P(OnDevices, AnyNumberOfTokensIsShardedOverAnyNumberOfDevices) {
  for (const int64_t devices : {3, 5}) {
    for (const int64_t tokens : {1, 7}) {
      expect_all_plain({1, tokens, tokens, 2, 8}, mesh_of({{"data", 1}, {"context", devices}}));
    }
  }
}

TEST_F(Attention, QueriesAndKeysMayBothBeSplitAndDiffer) {
  const MeshCase mesh = mesh_of({{"data", 1}, {"context", 4}});
  expect_plain({1, 13, 10, 3, 8}, DType::F64, every_kind(mesh, false), mesh.mesh);
}

// ---- Kept values, and the choice of kernels --------------------------------------------------

/// How often the program computes this kernel's body.
int64_t count_of(const Graph& graph, std::span<const Tensor> outputs, const std::string& kernel) {
  int64_t count = 0;
  EmitOptions options;
  options.lowering = [&](const Node& node, Emitter&) {
    const auto* body = std::any_cast<std::shared_ptr<Body>>(&node.attrs);
    count += body != nullptr && (*body)->kernel == kernel ? 1 : 0;
    return false;
  };
  emit(graph, outputs, options);
  return count;
}

TEST(AttentionKept, ABackwardPassComputesScoresAgainButNotTheForwardPass) {
  for (const char* name : {"", "attn_output"}) {
    Graph graph;
    const Tensor x = graph.input({DType::F32, {1, 16, 1, 8}});
    const RematPolicy policy{.kind = RematPolicy::Kind::CUSTOM, .saved = {name}};
    const Tensor y = checkpoint({x}, policy, [](std::span<const Tensor> in) {
      const Tensor out = attention(sin(in[0]), in[0], in[0],
                                   {.kind = AttentionKind::FLASH, .blocks = blocks(8, 4)});
      return std::vector<Tensor>{square(named(reshape(out, {1, 16, 8}), "attn_output"))};
    })[0];
    const std::vector<Tensor> both{y, gradients(sum(y), std::vector<Tensor>{x})[0]};
    EXPECT_EQ(count_of(graph, both, "flash_attention"), *name == 0 ? 2 : 1) << name;
    EXPECT_EQ(count_of(graph, both, "flash_attention_backward"), 1) << name;
  }
}

int64_t temporary_bytes(AttentionKind kind, int64_t tokens, bool differentiate) {
  Graph graph;
  std::vector<Tensor> x;
  for (int i = 0; i < 3; ++i) {
    x.push_back(graph.input({DType::F32, {1, tokens, 1, 64}}));
  }
  const std::vector<Tensor> forward{attention(x[0], x[1], x[2], {.kind = kind})};
  const std::vector<Tensor> outputs =
      differentiate ? gradients(sum(square(forward[0])), x) : forward;
  return HostProgram(graph, outputs).executable().memory().temporary;
}

TEST_F(Attention, InBlocksTakesMemoryOfTheLengthNotOfItsSquare) {
  constexpr int64_t kTokens = 4096;
  constexpr int64_t kScores = kTokens * kTokens * 4;
  constexpr int64_t kBlock = 512 * 512 * 4;
  constexpr int64_t kRows = kTokens * 64 * 4;
  for (const bool differentiate : {false, true}) {
    EXPECT_GE(temporary_bytes(AttentionKind::DOT_PRODUCT, kTokens, differentiate), kScores);
    // Scores, weights and, backward, their gradients for one block, each perhaps twice in another
    // layout; q, k, v, y, dy and the gradients, each as an argument, in blocks and as a loop's
    // state.
    EXPECT_LE(temporary_bytes(AttentionKind::FLASH, kTokens, differentiate),
              8 * kBlock + 24 * kRows);
  }
}

TEST(AttentionChoice, ShortSequencesTakeThePlainKind) {
  const auto uses_blocks = [](AttentionKind kind, int64_t min_length,
                              bool replicated_keys = false) {
    Graph graph;
    const Tensor q = graph.input({DType::F32, {1, 16, 2, 8}});
    const Tensor k = graph.input({DType::F32, {1, 8, 2, 8}});
    const std::vector<Tensor> y{attention(
        q, k, k, {.kind = kind, .replicated_keys = replicated_keys, .min_length = min_length})};
    return count_of(graph, y, "flash_attention") > 0;
  };
  EXPECT_TRUE(uses_blocks(AttentionKind::FLASH, 8));
  EXPECT_FALSE(uses_blocks(AttentionKind::FLASH, 9));
  EXPECT_FALSE(uses_blocks(AttentionKind::ULYSSES, 9));
  EXPECT_TRUE(uses_blocks(AttentionKind::RING, 9));
  EXPECT_FALSE(uses_blocks(AttentionKind::RING, 9, true));
}

TEST(AttentionChoice, UlyssesComputesNoMissingHeads) {
  const auto part_of = [](int64_t heads, int64_t context, int64_t tensor) {
    Graph graph;
    const Tensor q = graph.input({DType::F32, {1, 64, heads, 8}});
    const MeshAxes mesh{{{"context", context}, {"tensor", tensor}}};
    const std::vector<Tensor> y{
        attention(q, q, q,
                  {.kind = AttentionKind::ULYSSES,
                   .axes = {.mesh = mesh, .sequence = {"context"}, .heads = {"tensor"}}})};
    const auto record = std::make_shared<kernels::AttentionRecord>();
    emit(graph, y, {.mesh = mesh, .lowering = kernels::recorded({}, record)});
    return kernels::description(record->at(0).call);
  };
  // 40 heads over 4 x 4 devices: 10 are exchanged between two devices, 5 each, for half of the
  // queries.
  EXPECT_EQ(part_of(40, 4, 4), "forward [1,32,5,8] x 64 f32");
  EXPECT_EQ(part_of(40, 4, 1), "forward [1,64,10,8] x 64 f32");
  EXPECT_EQ(part_of(12, 8, 1), "forward [1,32,3,8] x 64 f32");
  EXPECT_EQ(part_of(3, 4, 1), "forward [1,16,3,8] x 64 f32");
}

TEST(AttentionChoice, NamesOfKernelsSelectTheirKind) {
  EXPECT_EQ(attention_kind("tokamax_ring"), AttentionKind::RING);
  EXPECT_EQ(attention_kind("ulysses_custom_fixed_m"), AttentionKind::ULYSSES);
  EXPECT_THAT([] { attention_kind("rings"); }, ThrowsMessage<Error>(HasSubstr("`rings`")));
}

TEST(AttentionChoice, ShardsAndBlockSizesAreCheckedBeforeAGraphIsBuilt) {
  const MeshAxes mesh{{{"context", 16}}};
  AttentionOptions options{.kind = AttentionKind::ULYSSES_RING,
                           .axes = {.mesh = mesh, .sequence = {"context"}},
                           .ulysses_shards = 4};
  EXPECT_NO_THROW(check_attention(options, 75600, 75600));
  options.blocks.block_q_dkv = 0;
  EXPECT_THAT([&] { check_attention(options, 75600, 75600); },
              ThrowsMessage<Error>(HasSubstr("block_q_dkv is 0 but must be from 1 to 1048576")));
  options.min_length = 100000;  // no blocks
  EXPECT_NO_THROW(check_attention(options, 75600, 75600));
  options = {.kind = AttentionKind::ULYSSES_RING, .ulysses_shards = 3};
  EXPECT_NO_THROW(check_attention(options, 9, 9));
}

TEST(AttentionErrors, NameTheOptionAndTheRemedy) {
  Graph graph;
  const Tensor q = graph.input({DType::F32, {1, 8, 2, 8}});
  AttentionOptions options{.kind = AttentionKind::ULYSSES_RING,
                           .axes = {{{{"context", 4}}}, {}, {"context"}, {}},
                           .ulysses_shards = 3};
  EXPECT_THAT([&] { attention(q, q, q, options); },
              ThrowsMessage<Error>(HasSubstr("set ulysses_shards to a divisor of 4")));
  options.kind = AttentionKind::RING;
  options.bias = q;
  EXPECT_THAT([&] { attention(q, q, q, options); }, ThrowsMessage<Error>(HasSubstr("bias")));
  options.bias = {};
  options.ulysses_chunks = 0;
  EXPECT_THAT([&] { attention(q, q, q, options); },
              ThrowsMessage<Error>(HasSubstr("ulysses_chunks is 0")));
  options.blocks.block_q = 0;
  EXPECT_THAT([&] { attention(q, q, q, options); },
              ThrowsMessage<Error>(HasSubstr("block_q is 0")));
}

}  // namespace
}  // namespace kinema::nn
