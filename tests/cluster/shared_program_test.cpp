// mpirun starts it as two processes of two devices each. Results are compared, bit for bit, with
// those of XLA's own client with four devices, which each process also opens.
#include <fmt/ranges.h>
#include <gmock/gmock.h>

#include <unistd.h>

#include <filesystem>
#include <map>

#include "kinema/core/error.h"
#include "kinema/graph/manual.h"
#include "kinema/graph/ops.h"
#include "kinema/runtime/client.h"
#include "kinema/runtime/full_array_reader.h"
#include "kinema/runtime/program.h"
#include "kinema/runtime/replicas.h"
#include "runtime/cpu_mesh.h"
#include "world/test_world.h"

namespace kinema::runtime {
namespace {

using testing::HasSubstr;
using testing::IsEmpty;

constexpr int64_t kDevices = 4;

/// XLA's own collectives.
pjrt::Client alone() {
  return pjrt::Client(pjrt::Plugin::load(find_plugin({})), {{"cpu_device_count", kDevices}});
}

pjrt::Client& shared() {
  static const std::shared_ptr<world::World> world(&world::test_world(), [](world::World*) {});
  static pjrt::Client client =
      open_client({.cpu_devices = kDevices / world->size(), .world = world});
  return client;
}

HostArray random(const Shape& shape, uint32_t seed) {
  HostArray out(shape);
  for (float& x : out.as<float>()) {
    seed = seed * 1664525U + 1013904223U;
    x = static_cast<float>(seed >> 8U) / 16777216.0F - 0.5F;
  }
  return out;
}

/// A graph with the shardings of inputs and results.
struct Case {
  std::string name;
  std::vector<Shape> inputs;
  std::vector<Sharding> in;
  std::vector<Sharding> out;
  std::function<std::vector<Tensor>(std::vector<Tensor>)> body;
};

std::vector<Array> run(const Devices& devices, const Case& one, const std::string& cache = "",
                       bool* from_cache = nullptr) {
  Graph graph;
  std::vector<Tensor> inputs;
  for (size_t i = 0; i < one.inputs.size(); ++i) {
    inputs.push_back(graph.input(one.inputs[i], fmt::format("x{}", i), one.in[i]));
  }
  const std::vector<Tensor> outputs = one.body(inputs);
  ProgramOptions options{.name = one.name};
  options.emit.output_shardings = one.out;
  options.executable_cache = cache;
  split_over(devices, options);
  const Program program = Program::compile(devices.client(), graph, outputs, options);
  if (from_cache != nullptr) {
    *from_cache = program.report().from_cache;
  }
  std::vector<Array> arrays;
  for (size_t i = 0; i < one.inputs.size(); ++i) {
    arrays.push_back(
        devices.upload(random(one.inputs[i], static_cast<uint32_t>(i + 1)), one.in[i]));
  }
  std::vector<const Array*> arguments;
  for (const Array& each : arrays) {
    arguments.push_back(&each);
  }
  std::vector<Array> last;
  for (int times = 0; times < 3; ++times) {  // consecutive runs without a wait
    last = program.run(devices, arguments);
  }
  return last;
}

/// The shards of an array by device.
std::map<int64_t, HostArray> parts(const std::vector<Array>& arrays, size_t output) {
  std::map<int64_t, HostArray> out;
  for (const pjrt::Buffer& each : arrays.at(output).shards()) {
    out.emplace(each.device_id(), each.to_host());
  }
  return out;
}

void expect_equal(const Case& one, const mesh::Settings& mesh) {
  SCOPED_TRACE(one.name);
  const pjrt::Client reference = alone();
  const std::vector<Array> wanted = run(devices_of(reference, mesh), one);
  const std::vector<Array> given = run(devices_of(shared(), mesh), one);
  for (size_t output = 0; output < one.out.size(); ++output) {
    const std::map<int64_t, HostArray> here = parts(given, output);
    const std::map<int64_t, HostArray> all = parts(wanted, output);
    EXPECT_EQ(here.size(), 2U);
    for (const auto& [device, part] : here) {
      EXPECT_TRUE(part.bytes == all.at(device).bytes)
          << "output " << output << " on device " << device;
    }
  }
}

Sharding rows(std::vector<std::string> axes) { return {{std::move(axes), {}}}; }

TEST(SharedProgram, EveryProcessHasItsOwnDevices) {
  EXPECT_EQ(shared().devices().size(), 4U);
  ASSERT_EQ(shared().addressable_devices().size(), 2U);
  const int64_t rank = world::test_world().rank();
  EXPECT_EQ(shared().process_index(), rank);
  EXPECT_EQ(shared().process_count(), 2);
  EXPECT_EQ(shared().addressable_devices().front().id(), 2 * rank);
  EXPECT_EQ(shared().devices()[3].description().process_index, 1);
}

TEST(SharedProgram, PartitionedProductsHaveTheBitsOfOneProcess) {
  const Shape x{DType::F32, {8, 16}};
  const Shape w{DType::F32, {16, 8}};
  const auto body = [](std::vector<Tensor> in) {
    const Tensor y = tanh(matmul(in[0], in[1]));
    return std::vector<Tensor>{y, sum(y * y), transpose(matmul(in[1], y), {1, 0})};
  };
  for (const auto& [name, mesh] :
       std::map<std::string, mesh::Settings>{{"data", mesh_sizes(4, 1, 1, 1)},
                                             {"fsdp", mesh_sizes(1, 4, 1, 1)},
                                             {"tensor", mesh_sizes(1, 1, 1, 4)},
                                             {"both", mesh_sizes(2, 2, 1, 1)}}) {
    for (const std::vector<std::string>& axes :
         {std::vector<std::string>{"data", "fsdp", "tensor"}, {"fsdp"}}) {
      expect_equal({.name = name,
                    .inputs = {x, w},
                    .in = {rows(axes), {{{}, {"fsdp"}}}},
                    .out = {rows(axes), {{}}, {{{}, {}}}},
                    .body = body},
                   mesh);
    }
  }
}

/// One collective within a manual region over both axes of data=2 fsdp=2.
Case collective(std::string name, const std::function<Tensor(Tensor)>& body, Sharding in,
                Sharding out) {
  const MeshAxes mesh =
      mesh::make_mesh(mesh_sizes(2, 2, 1, 1), std::vector<mesh::Device>{{0}, {1}, {2}, {3}}).axes;
  return {.name = std::move(name),
          .inputs = {{DType::F32, {16, 8}}},
          .in = {in},
          .out = {out},
          .body = [=](std::vector<Tensor> inputs) {
            return manual(
                std::move(inputs), {.mesh = mesh, .in = {in}, .out = {out}},
                [&](std::span<const Tensor> parts) { return std::vector<Tensor>{body(parts[0])}; });
          }};
}

TEST(SharedProgram, CollectivesHaveTheBitsOfOneProcess) {
  const mesh::Settings sizes = mesh_sizes(2, 2, 1, 1);
  const MeshAxes mesh = mesh::make_mesh(sizes, std::vector<mesh::Device>{{0}, {1}, {2}, {3}}).axes;
  const Sharding split = rows({"data", "fsdp"});
  const Sharding by_data = rows({"data"});
  const Sharding whole = rows({});
  for (const std::vector<std::string>& axes :
       {std::vector<std::string>{"data"}, {"fsdp"}, {"data", "fsdp"}, {"fsdp", "data"}}) {
    SCOPED_TRACE(fmt::format("{}", fmt::join(axes, ",")));
    const DeviceGroups groups = device_groups(mesh, axes);
    const auto bare = [&](const char* name, const std::function<Tensor(Tensor)>& body) {
      expect_equal(collective(name, body, split, split), sizes);
    };
    bare("sum", [&](Tensor x) { return all_reduce_sum(x, groups); });
    bare("max", [&](Tensor x) { return all_reduce_max(x, groups) + x; });
    bare("gather", [&](Tensor x) { return sum(all_gather(x, groups, Axis(1)), {1}, true) * x; });
    bare("to all", [&](Tensor x) { return all_to_all(x, groups, Axis(1), Axis(1)); });
    bare("ring", [&](Tensor x) { return ring_shift(x, groups, 1) - x; });
    bare("ring back", [&](Tensor x) { return ring_shift(x, groups, -1) * 2.0; });
    bare("position", [&](Tensor x) {
      return x * convert(broadcast_to(position_in(x.graph(), groups), x.shape().dims), DType::F32);
    });
  }
  const DeviceGroups all = device_groups(mesh, {"data", "fsdp"});
  expect_equal(
      collective(
          "scatter", [&](Tensor x) { return reduce_scatter(x, all, Axis(0)); }, whole, split),
      sizes);
  const DeviceGroups inner = device_groups(mesh, {"fsdp"});
  expect_equal(collective(
                   "half a scatter", [&](Tensor x) { return reduce_scatter(x, inner, Axis(0)); },
                   by_data, split),
               sizes);
}

TEST(SharedProgram, ArraysOfOthersAreReadByAProgram) {
  const Devices devices = devices_of(shared(), mesh_sizes(2, 2, 1, 1));
  EXPECT_EQ(devices.count(), 2U);
  EXPECT_EQ(devices.total(), 4);
  EXPECT_TRUE(devices.is_shared());
  const HostArray values = random({DType::F32, {8, 3}}, 7);
  FullArrayReader reader(devices);
  for (const Sharding& lies : {rows({"fsdp"}), rows({"data"}), rows({"data", "fsdp"}), rows({})}) {
    const Array array = devices.upload(values, lies);
    EXPECT_TRUE(reader.read(array, lies).bytes == values.bytes);
    EXPECT_TRUE(reader.read(array, lies, false).bytes.empty());
  }
  const Sharding split = rows({"data"});
  const Array array = devices.upload(values, split);
  try {
    array.to_host();
    ADD_FAILURE() << "half an array was read as a whole one";
  } catch (const Error& error) {
    EXPECT_THAT(error.what(), HasSubstr("parts of it are in other processes"));
  }
}

TEST(SharedProgram, CopiesAreComparedOverAllProcesses) {
  const mesh::Settings sizes = mesh_sizes(2, 2, 1, 1);
  const Devices devices = devices_of(shared(), sizes);
  const Shape shape{DType::F32, {4, 3}};
  const Sharding split = rows({"fsdp"});
  const std::vector<Port> ports{
      {.name = "a", .shape = shape, .shard = shape, .sharding = split},
      {.name = "b", .shape = shape, .shard = shape, .sharding = rows({})}};
  const ReplicaCheck check(devices, ports, {});
  const HostArray values = random(shape, 4);
  std::vector<Array> arrays;
  arrays.push_back(devices.upload(values, split));
  arrays.push_back(devices.upload(values, rows({})));
  EXPECT_THAT(check.find(std::vector<const Array*>{&arrays[0], &arrays[1]}), IsEmpty());

  // Device 3, in process 1, holds the same second rows of `a` as device 1.
  HostArray turned = values;
  if (!world::test_world().is_first()) {
    turned.bytes.back() ^= std::byte{1};
  }
  arrays[0] = devices.upload(turned, split);
  const std::vector<MismatchedReplica> found =
      check.find(std::vector<const Array*>{&arrays[0], &arrays[1]});
  ASSERT_EQ(found.size(), 1U);
  EXPECT_EQ(found[0].array, 0U);
  EXPECT_EQ(found[0].device, 3U);
  EXPECT_EQ(device_text(devices, 3), "device 3 (process 1, data=1, fsdp=1)");
}

// A process makes only the samples of its own devices.
TEST(SharedProgram, ABatchIsUploadedFromTheRowsOfItsDevices) {
  const Devices devices = devices_of(shared(), mesh_sizes(2, 1, 2, 1));
  const HostArray values = random({DType::F32, {4, 3}}, 9);
  const Sharding split = rows({"data"});
  const std::vector<int64_t> own = devices.rows(split, values.shape.dims);
  const int64_t first = 2 * world::test_world().rank();
  EXPECT_EQ(own, (std::vector<int64_t>{first, first + 1}));
  EXPECT_EQ(devices.rows(rows({"context"}), values.shape.dims).size(), 4U);
  constexpr size_t kRow = 3 * sizeof(float);
  const Array array = devices.upload_rows(
      std::span(values.bytes).subspan(static_cast<size_t>(first) * kRow, 2 * kRow), values.shape,
      own, split);
  EXPECT_TRUE(FullArrayReader(devices).read(array, split).bytes == values.bytes);
  EXPECT_THROW(devices.upload_rows(values.bytes, values.shape, std::vector<int64_t>{first}, split),
               Error);
}

// One-device programs run as usual, on the process's own device.
TEST(SharedProgram, LeavesProgramsOfOneDeviceAlone) {
  Graph graph;
  const Tensor x = graph.input({DType::F32, {2}}, "x");
  const std::vector<Tensor> outputs{x * 2.0};
  const std::vector<HostArray> out =
      evaluate(shared(), graph, outputs, {{random({DType::F32, {2}}, 3)}});
  EXPECT_EQ(out.front().as<float>()[0], 2 * random({DType::F32, {2}}, 3).as<float>()[0]);
}

TEST(SharedProgram, NamesAProcessThatCompilesAnotherProgram) {
  const Devices devices = devices_of(shared(), mesh_sizes(4, 1, 1, 1));
  const double factor = world::test_world().is_first() ? 2.0 : 3.0;
  try {
    run(devices, {.name = "differs",
                  .inputs = {{DType::F32, {4, 2}}},
                  .in = {rows({"data"})},
                  .out = {rows({})},
                  .body = [&](std::vector<Tensor> in) { return std::vector{in[0] * factor}; }});
    ADD_FAILURE() << "two programs ran as one";
  } catch (const Error& error) {
    EXPECT_THAT(error.what(), HasSubstr("process 1 would compile another program"));
  }
}

/// A folder per process, or one shared by all.
std::string cache_folder(const std::string& name) {
  return (std::filesystem::path(testing::TempDir()) /
          fmt::format("kinema_shared_{}_{}", name, getppid()))
      .string();
}

TEST(SharedProgram, IsKeptAndLoadedWhereAllProcessesHaveIt) {
  const Devices devices = devices_of(shared(), mesh_sizes(4, 1, 1, 1));
  const Case one{.name = "kept",
                 .inputs = {{DType::F32, {8, 2}}},
                 .in = {rows({"data"})},
                 .out = {rows({})},
                 .body = [](std::vector<Tensor> in) { return std::vector{in[0] * sum(in[0])}; }};
  const bool first = world::test_world().is_first();
  const std::string folder = cache_folder(first ? "first" : "second");
  bool from_cache = true;
  const std::vector<Array> compiled = run(devices, one, folder, &from_cache);
  EXPECT_FALSE(from_cache);
  const std::vector<Array> loaded = run(devices, one, folder, &from_cache);
  EXPECT_TRUE(from_cache);
  for (const auto& [device, part] : parts(compiled, 0)) {
    EXPECT_TRUE(parts(loaded, 0).at(device).bytes == part.bytes);
  }
  if (!first) {  // a process without its cache entry compiles again, and so do the others
    std::filesystem::remove_all(folder);
  }
  run(devices, one, folder, &from_cache);
  EXPECT_FALSE(from_cache);
  run(devices, one, folder, &from_cache);
  EXPECT_TRUE(from_cache);
  std::filesystem::remove_all(folder);
}

// A compiler error in process 0 is every process's error.
TEST(SharedProgram, ReportsACompilerErrorToAll) {
  const Devices devices = devices_of(shared(), mesh_sizes(4, 1, 1, 1));
  ProgramOptions options{.name = "broken"};
  split_over(devices, options);
  EXPECT_THROW(Program::compile_text(shared(), "module { this is not a program }", {}, {}, options),
               Error);
}

}  // namespace
}  // namespace kinema::runtime
