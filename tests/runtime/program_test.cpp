#include "kinema/runtime/program.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <array>
#include <filesystem>
#include <fstream>
#include <iterator>

#include "kinema/core/error.h"
#include "kinema/runtime/executable_cache.h"
#include "runtime/cpu_client.h"

namespace kinema::runtime {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;
using testing::ThrowsMessage;

constexpr char kAxpy[] = R"(module @axpy {
  func.func public @main(%a: tensor<f32>, %x: tensor<3xf32>, %y: tensor<3xf32> {tf.aliasing_output = 0 : i32}) -> tensor<3xf32> {
    %b = stablehlo.broadcast_in_dim %a, dims = [] : (tensor<f32>) -> tensor<3xf32>
    %p = stablehlo.multiply %b, %x : tensor<3xf32>
    %s = stablehlo.add %p, %y : tensor<3xf32>
    return %s : tensor<3xf32>
  }
})";

const Shape kScalar{DType::F32, {}};
const Shape kThree{DType::F32, {3}};

HostArray scalar(float a) { return HostArray::f32({}, std::array<float, 1>{a}); }
HostArray three(float a, float b, float c) {
  return HostArray::f32({3}, std::array<float, 3>{a, b, c});
}

std::vector<float> values(const HostArray& x) {
  const auto view = x.as<float>();
  return {view.begin(), view.end()};
}

class ProgramTest : public CpuClientTest {
 protected:
  Program axpy(const ProgramOptions& options = {}) {
    return Program::compile_text(
        client(), kAxpy, {{"a", kScalar, kScalar}, {"x", kThree, kThree}, {"", kThree, kThree}},
        {{"", kThree, kThree}}, options);
  }
};

TEST_F(ProgramTest, RunsOnHostValues) {
  const HostArray arguments[] = {scalar(2), three(1, 2, 3), three(10, 20, 30)};

  const std::vector<HostArray> results = axpy().run_on_host(arguments);

  ASSERT_EQ(results.size(), 1u);
  EXPECT_THAT(values(results[0]), ElementsAre(12, 24, 36));
}

TEST_F(ProgramTest, ConsumesDonatedArguments) {
  const Program program = axpy();
  std::vector<pjrt::Buffer> arguments;
  arguments.push_back(client().to_device(scalar(2)));
  arguments.push_back(client().to_device(three(1, 2, 3)));
  arguments.push_back(client().to_device(three(10, 20, 30)));

  const std::vector<pjrt::Buffer> results = program.run(arguments);

  EXPECT_THAT(values(results[0].to_host()), ElementsAre(12, 24, 36));
  EXPECT_FALSE(arguments[1].is_deleted());
  EXPECT_TRUE(arguments[2].is_deleted());
  EXPECT_THAT(
      [&] { program.run(arguments); },
      ThrowsMessage<Error>("[program] argument 2 was donated to an earlier run or dropped"));
}

// XNNPACK caches a packed parameter under its address.
TEST_F(ProgramTest, MultipliesByWhatAWeightIsAfterItWasUpdatedInPlace) {
  constexpr char kStep[] = R"(module @step {
  func.func public @main(%x: tensor<300x144xf32>, %w: tensor<144x192xf32> {tf.aliasing_output = 1 : i32}) -> (tensor<300x192xf32>, tensor<144x192xf32>) {
    %y = stablehlo.dot_general %x, %w, contracting_dims = [1] x [0] : (tensor<300x144xf32>, tensor<144x192xf32>) -> tensor<300x192xf32>
    %s = stablehlo.slice %y [0:1, 0:192] : (tensor<300x192xf32>) -> tensor<1x192xf32>
    %r = stablehlo.reshape %s : (tensor<1x192xf32>) -> tensor<192xf32>
    %zero = stablehlo.constant dense<0.0> : tensor<192xf32>
    %one = stablehlo.constant dense<1.0> : tensor<144x192xf32>
    %n = stablehlo.multiply %r, %zero : tensor<192xf32>
    %b = stablehlo.broadcast_in_dim %n, dims = [1] : (tensor<192xf32>) -> tensor<144x192xf32>
    %v = stablehlo.add %w, %one : tensor<144x192xf32>
    %next = stablehlo.add %v, %b : tensor<144x192xf32>
    return %y, %next : tensor<300x192xf32>, tensor<144x192xf32>
  }
})";
  const Shape x{DType::F32, {300, 144}};
  const Shape w{DType::F32, {144, 192}};
  const Shape y{DType::F32, {300, 192}};
  const Program program = Program::compile_text(client(), kStep, {{"x", x, x}, {"w", w, w}},
                                                {{"y", y, y}, {"w", w, w}});
  std::vector<pjrt::Buffer> arguments;
  arguments.push_back(client().to_device(HostArray::f32(x.dims, std::vector<float>(300 * 144, 1))));
  arguments.push_back(client().to_device(HostArray(w)));
  for (int step = 0; step < 4; ++step) {
    std::vector<pjrt::Buffer> results = program.run(arguments);

    EXPECT_EQ(values(results[0].to_host()), std::vector<float>(300 * 192, 144.0F * step));
    arguments[1] = std::move(results[1]);
  }
}

TEST_F(ProgramTest, NamesTheArgumentThatDoesNotFit) {
  const Program program = axpy();
  const HostArray wrong[] = {scalar(2), scalar(1), three(10, 20, 30)};
  const HostArray few[] = {scalar(2)};

  EXPECT_THAT(
      [&] { program.run_on_host(wrong); },
      ThrowsMessage<Error>("[program] argument 1 (`x`) is f32[] but the program takes f32[3]"));
  EXPECT_THAT([&] { program.run_on_host(few); },
              ThrowsMessage<Error>("[program] 1 arguments given but the program takes 3"));
}

TEST_F(ProgramTest, CompilesAGraphAndKeepsItsNames) {
  Graph graph;
  const Tensor x = graph.input(kThree, "latents");
  const Tensor outputs[] = {x};

  const Program program = Program::compile(client(), graph, outputs, {.output_names = {"same"}});

  const HostArray arguments[] = {three(1, 2, 3)};
  EXPECT_THAT(values(program.run_on_host(arguments)[0]), ElementsAre(1, 2, 3));
  EXPECT_EQ(program.inputs()[0].name, "latents");
  EXPECT_EQ(program.inputs()[0].shape, kThree);
  EXPECT_EQ(program.outputs()[0].name, "same");
  EXPECT_GT(program.report().text_bytes, 0);
  EXPECT_EQ(program.report().memory.arguments, 12);
}

TEST_F(ProgramTest, ComesFromTheCacheTheSecondTime) {
  const ProgramOptions options{.executable_cache = folder()};
  const HostArray arguments[] = {scalar(2), three(1, 2, 3), three(10, 20, 30)};
  const Program first = axpy(options);

  const Program second = axpy(options);

  EXPECT_FALSE(first.report().from_cache);
  EXPECT_TRUE(second.report().from_cache);
  EXPECT_THAT(values(second.run_on_host(arguments)[0]), ElementsAre(12, 24, 36));
  EXPECT_EQ(second.report().memory.arguments, first.report().memory.arguments);
  EXPECT_EQ(second.report().memory.aliased, first.report().memory.aliased);
}

TEST_F(ProgramTest, IsCompiledAnewWhenItsCacheEntryIsSpoiled) {
  const ProgramOptions options{.executable_cache = folder()};
  axpy(options);
  for (const auto& file : std::filesystem::directory_iterator(folder())) {
    std::filesystem::resize_file(file.path(), std::filesystem::file_size(file.path()) / 2);
  }

  EXPECT_FALSE(axpy(options).report().from_cache);
  EXPECT_TRUE(axpy(options).report().from_cache);
}

TEST_F(ProgramTest, IsCompiledAnewWhenThePluginRefusesItsCacheEntry) {
  const ProgramOptions options{.executable_cache = folder()};
  const std::string key = ExecutableCache::key(client(), kAxpy, options.compile.serialize());
  ExecutableCache(folder(), 1 << 20).put(key, "valid for the cache but not an executable");

  EXPECT_FALSE(axpy(options).report().from_cache);
  EXPECT_TRUE(axpy(options).report().from_cache);
}

TEST_F(ProgramTest, DumpsItsTextBeforeAndAfterTheCompiler) {
  axpy({.name = "step", .dump = folder() + "/dump"});

  const auto read = [&](const char* name) {
    std::ifstream file(folder() + "/dump/" + name);
    return std::string(std::istreambuf_iterator<char>(file), {});
  };
  EXPECT_EQ(read("step.mlir"), kAxpy);
  EXPECT_THAT(read("step.hlo.txt"), HasSubstr("HloModule axpy"));
}

TEST_F(ProgramTest, RunsASplitGraphOnTwoDevices) {
  Graph graph;
  const Sharding rows{{{"data"}, {}}};
  const Tensor x = graph.input({DType::F32, {4, 2}}, "x", rows);
  const Tensor outputs[] = {x};
  ProgramOptions options;
  options.emit.mesh.axes = {{"data", 2}};
  options.emit.output_shardings = {rows};
  options.compile.partitions = 2;
  const Program program = Program::compile(client(), graph, outputs, options);
  const HostArray half = HostArray::f32({2, 2}, std::array<float, 4>{1, 2, 3, 4});
  const pjrt::Buffer shards[] = {client().to_device(half, client().device(0)),
                                 client().to_device(half, client().device(1))};

  const std::vector<const pjrt::Buffer*> arguments[] = {{&shards[0]}, {&shards[1]}};
  const auto results = program.run_all(arguments);

  EXPECT_EQ(program.inputs()[0].shape, (Shape{DType::F32, {4, 2}}));
  EXPECT_EQ(program.inputs()[0].shard, half.shape);
  EXPECT_EQ(program.outputs()[0].shard, half.shape);
  EXPECT_THAT(values(results[1][0].to_host()), ElementsAre(1, 2, 3, 4));
  const HostArray whole[] = {HostArray(Shape{DType::F32, {4, 2}})};
  EXPECT_THAT([&] { program.run_on_host(whole); },
              ThrowsMessage<Error>("[program] runs on 2 devices; run_on_host is for one"));
}

}  // namespace
}  // namespace kinema::runtime
