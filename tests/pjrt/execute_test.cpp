#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <array>
#include <vector>

#include "kinema/core/error.h"
#include "kinema/pjrt/collectives.h"
#include "pjrt/cpu_plugin.h"

namespace kinema::pjrt {
namespace {

using testing::AllOf;
using testing::ElementsAre;
using testing::HasSubstr;
using testing::Not;
using testing::ThrowsMessage;

constexpr char kAddOne[] = R"(module @add_one {
  func.func public @main(%x: tensor<3xf32>) -> tensor<3xf32> {
    %one = stablehlo.constant dense<1.0> : tensor<3xf32>
    %y = stablehlo.add %x, %one : tensor<3xf32>
    return %y : tensor<3xf32>
  }
})";

constexpr char kAddOneInPlace[] = R"(module @add_one_in_place {
  func.func public @main(%x: tensor<3xf32> {tf.aliasing_output = 0 : i32}) -> tensor<3xf32> {
    %one = stablehlo.constant dense<1.0> : tensor<3xf32>
    %y = stablehlo.add %x, %one : tensor<3xf32>
    return %y : tensor<3xf32>
  }
})";

// Rows of x are sharded over two devices; the sum over all of x needs both.
constexpr char kShardedSum[] = R"(module @sharded_sum {
  sdy.mesh @mesh = <["data"=2]>
  func.func public @main(%x: tensor<4x3xf32> {sdy.sharding = #sdy.sharding<@mesh, [{"data"}, {}]>})
      -> (tensor<f32> {sdy.sharding = #sdy.sharding<@mesh, []>},
          tensor<4x3xf32> {sdy.sharding = #sdy.sharding<@mesh, [{"data"}, {}]>}) {
    %zero = stablehlo.constant dense<0.0> : tensor<f32>
    %s = stablehlo.reduce(%x init: %zero) applies stablehlo.add across dimensions = [0, 1]
        : (tensor<4x3xf32>, tensor<f32>) -> tensor<f32>
    %y = stablehlo.add %x, %x : tensor<4x3xf32>
    return %s, %y : tensor<f32>, tensor<4x3xf32>
  }
})";

// The temporary t is too large for registers, so the compiler counts memory for it.
constexpr char kMatmul[] = R"(module @matmul {
  func.func public @main(%x: tensor<64x64xf32>) -> tensor<64x64xf32> {
    %t = stablehlo.dot_general %x, %x, contracting_dims = [1] x [0]
        : (tensor<64x64xf32>, tensor<64x64xf32>) -> tensor<64x64xf32>
    %y = stablehlo.dot_general %t, %x, contracting_dims = [1] x [0]
        : (tensor<64x64xf32>, tensor<64x64xf32>) -> tensor<64x64xf32>
    return %y : tensor<64x64xf32>
  }
})";

HostArray three(float a, float b, float c) {
  return HostArray::f32({3}, std::array<float, 3>{a, b, c});
}

std::vector<float> values(const HostArray& x) {
  const auto view = x.as<float>();
  return {view.begin(), view.end()};
}

std::vector<float> run_once(const Client& client, const Executable& executable,
                            const HostArray& x) {
  const Buffer buffer = client.to_device(x);
  const Buffer* arguments[] = {&buffer};
  return values(executable.execute(arguments)[0].to_host());
}

using Execute = CpuTest;
using Compile = CpuTest;

TEST_F(Execute, RunsAProgramOnHostValues) {
  const Client client = cpu_client();
  const Executable add_one = client.compile(kAddOne);

  const Buffer x = client.to_device(three(1, 2, 3));
  const Buffer* arguments[] = {&x};
  const std::vector<Buffer> results = add_one.execute(arguments);

  ASSERT_EQ(results.size(), 1u);
  EXPECT_EQ(results[0].shape(), (Shape{DType::F32, {3}}));
  EXPECT_THAT(values(results[0].to_host()), ElementsAre(2, 3, 4));
  EXPECT_FALSE(x.is_deleted());
}

TEST_F(Execute, ChainsRunsWithoutWaiting) {
  const Client client = cpu_client();
  const Executable add_one = client.compile(kAddOne);
  Buffer x = client.to_device(three(0, 1, 2));

  for (int i = 0; i < 10; ++i) {
    const Buffer* arguments[] = {&x};
    std::vector<Buffer> results = add_one.execute(arguments);
    x = std::move(results[0]);
  }

  EXPECT_THAT(values(x.to_host()), ElementsAre(10, 11, 12));
}

TEST_F(Execute, DonatesAnAliasedArgument) {
  const Client client = cpu_client();
  const Executable add_one = client.compile(kAddOneInPlace);
  const Buffer x = client.to_device(three(1, 2, 3));
  const Buffer* arguments[] = {&x};

  const std::vector<Buffer> results = add_one.execute(arguments);

  EXPECT_TRUE(x.is_deleted());
  EXPECT_THAT(values(results[0].to_host()), ElementsAre(2, 3, 4));
  EXPECT_EQ(add_one.memory().aliased, 12);
  EXPECT_THAT([&] { add_one.execute(arguments); },
              ThrowsMessage<Error>("[pjrt] argument 0 is empty, or was donated or dropped before"));
}

TEST_F(Execute, KeepsADonatedArgumentOnRequest) {
  const Client client = cpu_client();
  const Executable add_one = client.compile(kAddOneInPlace);
  const Buffer x = client.to_device(three(1, 2, 3));
  const Buffer* arguments[] = {&x};

  const std::vector<Buffer> results = add_one.execute(arguments, {.keep = {0}});

  EXPECT_THAT(values(results[0].to_host()), ElementsAre(2, 3, 4));
  EXPECT_THAT(values(x.to_host()), ElementsAre(1, 2, 3));
}

TEST_F(Execute, RunsAShardedProgramOnTwoDevices) {
  const Client client = cpu_client(4);
  const Executable program = client.compile(kShardedSum, {.partitions = 2, .device_ids = {1, 2}});
  EXPECT_THAT(program.device_ids(), ElementsAre(1, 2));
  const HostArray top = HostArray::f32({2, 3}, std::array<float, 6>{1, 2, 3, 4, 5, 6});
  const HostArray bottom = HostArray::f32({2, 3}, std::array<float, 6>{10, 20, 30, 40, 50, 60});
  const Buffer shards[] = {client.to_device(top, client.device(1)),
                           client.to_device(bottom, client.device(2))};

  const std::vector<const Buffer*> arguments[] = {{&shards[0]}, {&shards[1]}};
  const std::vector<std::vector<Buffer>> results = program.execute_all(arguments);

  ASSERT_EQ(results.size(), 2u);
  EXPECT_THAT(values(results[0][0].to_host()), ElementsAre(231));
  EXPECT_THAT(values(results[1][0].to_host()), ElementsAre(231));
  EXPECT_EQ(results[1][1].shape(), (Shape{DType::F32, {2, 3}}));
  EXPECT_THAT(values(results[1][1].to_host()), ElementsAre(20, 40, 60, 80, 100, 120));
  EXPECT_EQ(results[1][1].device_id(), 2);
}

TEST_F(Execute, RefusesArgumentListsOfDifferentLengths) {
  const Client client = cpu_client(2);
  const Executable program = client.compile(kShardedSum, {.partitions = 2});
  const Buffer x = client.to_device(HostArray(Shape{DType::F32, {2, 3}}));

  const std::vector<const Buffer*> arguments[] = {{&x}, {}};

  EXPECT_THAT([&] { program.execute_all(arguments); },
              ThrowsMessage<Error>("[pjrt] device 1 is given 0 arguments but device 0 1"));
}

TEST_F(Execute, ReportsAWrongArgumentShape) {
  const Client client = cpu_client();
  const Executable add_one = client.compile(kAddOne);
  const Buffer x = client.to_device(HostArray(Shape{DType::F32, {5}}));
  const Buffer* arguments[] = {&x};

  EXPECT_THROW(add_one.execute(arguments)[0].to_host(), Error);
}

TEST_F(Execute, OutlivesTheClientItWasCompiledWith) {
  auto client = std::make_unique<Client>(cpu_client());
  const Executable add_one = client->compile(kAddOne);
  const Buffer x = client->to_device(three(1, 2, 3));
  client.reset();
  const Buffer* arguments[] = {&x};

  EXPECT_THAT(values(add_one.execute(arguments)[0].to_host()), ElementsAre(2, 3, 4));
}

TEST_F(Compile, ReportsWhatTheCompilerSays) {
  const Client client = cpu_client();

  EXPECT_THAT([&] { client.compile("module { this is not a program }"); },
              ThrowsMessage<Error>(AllOf(HasSubstr("[pjrt] PJRT_Client_Compile: "),
                                         HasSubstr("custom op 'this' is unknown"),
                                         Not(testing::EndsWith("\n")))));
}

TEST_F(Compile, TakesFlagsForOneProgramAndRefusesUnknownOnes) {
  const Client client = cpu_client();
  CompileOptions known;
  known.flags = {{"xla_cpu_enable_fast_math", true},
                 {"xla_backend_optimization_level", int64_t{1}}};
  CompileOptions unknown;
  unknown.flags = {{"xla_no_such_flag", true}};

  EXPECT_THAT(run_once(client, client.compile(kAddOne, known), three(1, 2, 3)),
              ElementsAre(2, 3, 4));
  EXPECT_THAT([&] { client.compile(kAddOne, unknown); },
              ThrowsMessage<Error>(HasSubstr("xla_no_such_flag")));
}

TEST_F(Compile, CountsMemoryAndWork) {
  const Client client = cpu_client();
  const Executable matmul = client.compile(kMatmul);

  const CompiledMemory memory = matmul.memory();
  EXPECT_EQ(memory.arguments, 64 * 64 * 4);
  EXPECT_EQ(memory.outputs, 64 * 64 * 4);
  EXPECT_GE(memory.temporary, 64 * 64 * 4);
  // Two products of 64^3 multiply-adds.
  EXPECT_EQ(std::get<float>(matmul.cost().at("flops")), 2 * 2 * 64 * 64 * 64);
  EXPECT_THAT(matmul.output_shapes(), ElementsAre(Shape{DType::F32, {64, 64}}));
  EXPECT_EQ(matmul.name(), "matmul");
}

TEST_F(Compile, ShowsTheOptimizedProgram) {
  const Client client = cpu_client();

  const std::string text = client.compile(kMatmul).optimized_text();

  EXPECT_THAT(text, AllOf(HasSubstr("HloModule matmul"), HasSubstr("ENTRY %main"),
                          HasSubstr("f32[64,64]{1,0} dot(")));
}

TEST_F(Compile, LoadsASerializedProgramInAnotherClient) {
  std::string bytes;
  {
    const Client client = cpu_client();
    bytes = client.compile(kAddOne).serialize();
  }
  const Client client = cpu_client();

  const Executable add_one = client.load(bytes);

  EXPECT_THAT(run_once(client, add_one, three(1, 2, 3)), ElementsAre(2, 3, 4));
  EXPECT_THAT(add_one.output_shapes(), ElementsAre(Shape{DType::F32, {3}}));
}

TEST_F(Compile, RefusesBytesThatAreNoExecutable) {
  const Client client = cpu_client();

  EXPECT_THROW(client.load("no executable"), Error);
}

// A sum over two devices in a loop of three steps.
constexpr char kLoopedSum[] = R"(module @looped_sum {
  sdy.mesh @mesh = <["data"=2]>
  func.func public @main(%x: tensor<4x3xf32> {sdy.sharding = #sdy.sharding<@mesh, [{"data"}, {}]>})
      -> (tensor<3xf32> {sdy.sharding = #sdy.sharding<@mesh, [{}]>}) {
    %n = stablehlo.constant dense<0> : tensor<i32>
    %one = stablehlo.constant dense<1> : tensor<i32>
    %limit = stablehlo.constant dense<3> : tensor<i32>
    %zero = stablehlo.constant dense<0.0> : tensor<f32>
    %start = stablehlo.constant dense<1.0> : tensor<3xf32>
    %r:2 = stablehlo.while(%i = %n, %s = %start) : tensor<i32>, tensor<3xf32>
      cond {
        %c = stablehlo.compare LT, %i, %limit : (tensor<i32>, tensor<i32>) -> tensor<i1>
        stablehlo.return %c : tensor<i1>
      } do {
        %b = stablehlo.broadcast_in_dim %s, dims = [1] : (tensor<3xf32>) -> tensor<4x3xf32>
        %p = stablehlo.multiply %x, %b : tensor<4x3xf32>
        %t = stablehlo.reduce(%p init: %zero) applies stablehlo.add across dimensions = [0]
            : (tensor<4x3xf32>, tensor<f32>) -> tensor<3xf32> loc("blocks/sum")
        %j = stablehlo.add %i, %one : tensor<i32>
        stablehlo.return %j, %t : tensor<i32>, tensor<3xf32>
      }
    return %r#1 : tensor<3xf32>
  }
})";

TEST_F(Execute, CountsTheCollectivesOfALoop) {
  const Client client = cpu_client(2);

  const std::vector<Collective> found =
      collectives(client.compile(kLoopedSum, {.partitions = 2}).optimized());

  ASSERT_EQ(found.size(), 1U);
  EXPECT_EQ(found[0].kind, "all-reduce");
  EXPECT_EQ(found[0].bytes, 12);
  EXPECT_EQ(found[0].times, 3);
  EXPECT_THAT(found[0].origin, HasSubstr("blocks/sum"));
  EXPECT_THAT(found[0].group, ElementsAre(0, 1));
  EXPECT_TRUE(collectives(client.compile(kMatmul).optimized()).empty());
  EXPECT_THROW(collectives({"hlo", "no module"}), Error);
}

}  // namespace
}  // namespace kinema::pjrt
