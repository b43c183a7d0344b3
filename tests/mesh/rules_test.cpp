#include "kinema/mesh/rules.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "kinema/core/error.h"
#include "kinema/graph/emit.h"
#include "kinema/graph/ops.h"
#include "kinema/mesh/placement.h"

namespace kinema::mesh {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::ThrowsMessage;

using Axes = std::vector<std::string>;

AxisRules rules(const std::string& json) { return AxisRules::parse({json}, "logical_axis_rules"); }

std::vector<Axes> assign(const AxisRules& of, const Axes& logical) { return of.assign(logical); }

AxisRules defaults() { return rules(Settings().logical_axis_rules.json); }

Placement placement(std::vector<std::pair<std::string, int64_t>> sizes,
                    const AxisRules& of = defaults()) {
  Mesh mesh{{std::move(sizes)}};
  int64_t count = 1;
  for (const auto& [name, size] : mesh.axes.axes) count *= size;
  for (int64_t id = 0; id < count; ++id) mesh.device_ids.push_back(id);
  return {std::move(mesh), of};
}

TEST(AxisRules, AreTriedInOrderAndTheFirstThatIsFreeWins) {
  const AxisRules of = rules(R"([["a", "x"], ["b", ["x", "y"]], ["b", "y"], ["a", "y"]])");

  EXPECT_THAT(assign(of, {"a", "b"}), ElementsAre(Axes{"x"}, Axes{"y"}));
  EXPECT_THAT(assign(of, {"b", "a"}), ElementsAre(Axes{"y"}, Axes{"x"}));
  // Alone, each gets its first rule.
  EXPECT_THAT(assign(of, {"b"}), ElementsAre(Axes{"x", "y"}));
}

TEST(AxisRules, TakeEffectAsAWholeOrNotAtAll) {
  const AxisRules of = rules(R"([["a", "x"], ["b", ["x", "y"]]])");

  EXPECT_THAT(assign(of, {"a", "b"}), ElementsAre(Axes{"x"}, Axes{}));
}

TEST(AxisRules, OfNullPinADimension) {
  const AxisRules of = rules(R"([["a", null], ["a", "x"], ["b", "x"]])");

  EXPECT_THAT(assign(of, {"a", "b"}), ElementsAre(Axes{}, Axes{"x"}));
}

TEST(AxisRules, LeaveNamesWithoutARuleWhole) {
  EXPECT_THAT(assign(defaults(), {"", "nowhere", "mlp"}),
              ElementsAre(Axes{}, Axes{}, Axes{"tensor"}));
}

TEST(AxisRules, GiveTheDefaultLayoutsOfWeightsAndActivations) {
  const AxisRules of = defaults();

  EXPECT_THAT(assign(of, {"heads", "embed"}), ElementsAre(Axes{"tensor"}, Axes{"context", "fsdp"}));
  EXPECT_THAT(assign(of, {"embed", "mlp"}), ElementsAre(Axes{"context", "fsdp"}, Axes{"tensor"}));
  EXPECT_THAT(assign(of, {"activation_batch", "activation_length", "activation_heads"}),
              ElementsAre(Axes{"data", "fsdp"}, Axes{"context"}, Axes{"tensor"}));
  EXPECT_THAT(assign(of, {"conv_out", "", "", "", ""}),
              ElementsAre(Axes{"context"}, Axes{}, Axes{}, Axes{}, Axes{}));
}

TEST(AxisRules, RefuseANameThatATensorHasTwice) {
  EXPECT_THAT(
      [] {
        assign(defaults(), {"embed", "embed"});
      },
      ThrowsMessage<Error>("[mesh] a tensor has the logical axis `embed` twice"));
}

TEST(AxisRules, AreRefusedIfTheyAreNotPairs) {
  for (const char* bad : {R"({"a": "x"})", R"([["a"]])", R"([[1, "x"]])", R"([["a", 2]])",
                          R"([["a", ["x", 2]]])", R"([["a", ["x", "x"]]])", R"(["a"])"}) {
    SCOPED_TRACE(bad);
    EXPECT_THAT([&] { rules(bad); }, ThrowsMessage<Error>(HasSubstr("logical_axis_rules")));
  }
}

TEST(AxisRules, ForAttentionSplitTheSequenceUniformlyOrWhereKeysMove) {
  const Axes q{"activation_batch", "activation_self_attn_q_length", "activation_self_attn_heads"};
  for (const auto& of :
       {defaults().for_attention("flash", true), defaults().for_attention("tokamax_ring", false),
        defaults().for_attention("ulysses", false)}) {
    EXPECT_THAT(assign(of, q), ElementsAre(Axes{"data", "fsdp"}, Axes{"context"}, Axes{"tensor"}));
  }
  EXPECT_THAT(assign(defaults().for_attention("flash", false), q),
              ElementsAre(Axes{"data", "fsdp"}, Axes{}, Axes{"context", "tensor"}));
}

TEST(AxisRules, ForAttentionFollowRulesThatPutTheSequenceOnFsdp) {
  const AxisRules older =
      rules(R"([["activation_batch", "data"], ["activation_length", "fsdp"], )"
            R"(["activation_heads", "tensor"], ["embed", "fsdp"], ["heads", "tensor"]])");

  EXPECT_THAT(older.for_attention("ulysses", true).axes_of("activation_cross_attn_q_length"),
              ElementsAre("fsdp"));
  EXPECT_THAT(older.for_attention("flash", true).axes_of("activation_self_attn_q_length"),
              ElementsAre("fsdp"));
}

TEST(AxisRules, WithTokensOnFsdpMoveFsdpFromSamplesToContext) {
  for (const bool uniform : {true, false}) {
    const AxisRules of = defaults().for_attention("flash", uniform);
    const AxisRules moved = of.with_tokens_on_fsdp();

    EXPECT_THAT(assign(moved, {"activation_batch", "activation_length", "activation_heads"}),
                ElementsAre(Axes{"data"}, Axes{"context", "fsdp"}, Axes{"tensor"}));
    EXPECT_THAT(moved.axes_of("activation_cross_attn_q_length"),
                uniform ? Axes({"context", "fsdp"}) : Axes({"context", "fsdp", "tensor"}));
    EXPECT_THAT(moved.axes_of("activation_self_attn_heads"),
                uniform ? Axes({"tensor"}) : Axes({"context", "fsdp", "tensor"}));
    // The sharding of weights does not change.
    for (const Axes& weight :
         {Axes{"heads", "embed"}, Axes{"embed", "mlp"}, Axes{"norm"}, Axes{"conv_out"}}) {
      EXPECT_EQ(assign(moved, weight), assign(of, weight));
    }
  }
}

TEST(AxisRules, WithTokensOnFsdpAreTheSameWhereRulesKeepTokensOffContext) {
  for (const char* own : {R"([["activation_batch", "fsdp"], ["activation_length", null]])",
                          R"([["activation_batch", "data"], ["activation_length", "fsdp"]])"}) {
    EXPECT_EQ(rules(own).with_tokens_on_fsdp(), rules(own)) << own;
  }
}

TEST(Placement, ForSamplesLeavesFsdpToTokensOnlyWhereSamplesDoNotDivide) {
  const Placement of = placement({{"data", 2}, {"fsdp", 4}, {"context", 1}, {"tensor", 1}});
  for (const int64_t samples : {8, 16}) {
    EXPECT_EQ(of.for_samples(samples).rules(), of.rules()) << samples;
  }
  for (const int64_t samples : {1, 2, 4, 12}) {
    const Placement moved = of.for_samples(samples);
    EXPECT_THAT(moved.axes_of("activation_batch"), ElementsAre("data")) << samples;
    EXPECT_THAT(moved.axes_of("activation_length"), ElementsAre("fsdp")) << samples;
    EXPECT_THAT(moved.axes_of("embed"), ElementsAre("fsdp")) << samples;
  }
  // Without devices on fsdp nothing changes; nor on one device.
  const Placement data = placement({{"data", 8}, {"fsdp", 1}, {"context", 1}, {"tensor", 1}});
  EXPECT_EQ(data.for_samples(3).rules(), data.rules());
  EXPECT_FALSE(Placement().for_samples(3).active());
}

TEST(Placement, LeavesAxesOfOneDeviceOut) {
  const Placement of = placement({{"data", 2}, {"fsdp", 1}, {"context", 1}, {"tensor", 2}});

  EXPECT_THAT(of.sharding({"heads", "embed"}, {4, 4}).dims, ElementsAre(Axes{"tensor"}, Axes{}));
  EXPECT_THAT(of.axes_of("activation_batch"), ElementsAre("data"));
  EXPECT_EQ(of.parts("activation_batch"), 2);
  EXPECT_EQ(of.parts("activation_length"), 1);
}

TEST(Placement, SplitsArraysOnlyWhereTheyDivide) {
  // Every size over every pair of axes: the remaining axes divide it, and one more would not.
  for (int64_t context = 1; context <= 4; ++context) {
    for (int64_t fsdp = 1; fsdp <= 4; ++fsdp) {
      const Placement of =
          placement({{"data", 2}, {"fsdp", fsdp}, {"context", context}, {"tensor", 1}});
      for (int64_t size = 1; size <= 24; ++size) {
        SCOPED_TRACE(fmt::format("{} over context={} fsdp={}", size, context, fsdp));
        const Sharding found = of.sharding({"embed"}, {size});
        const int64_t parts = of.mesh().size(found.dims[0]);
        EXPECT_EQ(size % parts, 0);
        if (parts < context * fsdp) {
          EXPECT_NE(size % (parts == context ? context * fsdp : context), 0);
        }
      }
    }
  }
}

TEST(Placement, RefusesRulesForAxesThatTheMeshDoesNotHave) {
  EXPECT_THAT(
      [] {
        placement({{"data", 2}}, rules(R"([["embed", "sequence"]])"));
      },
      ThrowsMessage<Error>("[mesh] logical_axis_rules puts `embed` on `sequence`, which is "
                           "not an axis of the mesh data=2"));
}

TEST(Placement, WritesConstraintsOnlyOverAMesh) {
  Graph graph;
  const Tensor x = graph.input({DType::F32, {4, 6, 8}});
  const auto logical = {std::string_view("activation_batch"), std::string_view("activation_length"),
                        std::string_view("activation_heads")};
  EXPECT_EQ(&Placement()(x, logical).node(), &x.node());
  EXPECT_EQ(
      &placement({{"data", 1}, {"fsdp", 1}, {"context", 1}, {"tensor", 1}})(x, logical).node(),
      &x.node());
  EXPECT_THAT(Placement().axes_of("embed"), IsEmpty());

  const Placement of = placement({{"data", 2}, {"fsdp", 2}, {"context", 2}, {"tensor", 1}});
  const Tensor y = of(x, logical);

  EXPECT_THAT(emit(graph, std::vector{y}, {.mesh = of.mesh().axes}),
              HasSubstr(R"([{"data", "fsdp"}, {"context"}, {}])"));
}

}  // namespace
}  // namespace kinema::mesh
