#pragma once

#include <gtest/gtest.h>

#include <algorithm>
#include <filesystem>
#include <map>
#include <regex>
#include <string>
#include <vector>

#include "kinema/core/error.h"
#include "kinema/graph/autodiff.h"
#include "kinema/graph/emit.h"
#include "kinema/io/mapped_file.h"
#include "kinema/io/temporary_folder.h"
#include "kinema/nn/quantized.h"
#include "kinema/planning/compile_job.h"
#include "kinema/runtime/client.h"

/// The compiled program text of a quantized layer, forward and backward.
namespace kinema::planning {

inline std::string layer_program(nn::Quantization::Mode mode) {
  Graph graph;
  const Tensor x = graph.input({DType::BF16, {1, 2048, 1024}});
  const Tensor w = graph.input({DType::BF16, {4096, 1024}});
  const Tensor dy = graph.input({DType::BF16, {1, 2048, 4096}});
  const Tensor y =
      nn::quantized_linear(x, w, nn::Quantization{.mode = mode}.product(), Precision::DEFAULT);
  std::vector<Tensor> outputs = pull_back(std::vector{y}, std::vector{dy}, std::vector{x, w});
  outputs.push_back(y);
  return emit(graph, outputs);
}

inline std::string compiled(const std::string& program, const std::string& target,
                            const std::string& plugin) {
  const io::TemporaryFolder folder("narrow");
  CompileJob job;
  job.target = parse_target(target);
  job.plugin = plugin;
  job.program = program;
  job.dump = (folder.path() / "program.txt").string();
  compile_in_child(job, KINEMA_PROGRAM);
  return io::read_text(job.dump);
}

/// The plugin's path; empty if it is not installed.
inline std::string plugin_of(const std::string& hardware) {
  runtime::ClientSpec spec;
  spec.hardware = hardware;
  try {
    return runtime::find_plugin(spec);
  } catch (const Error&) {
    return "";
  }
}

/// The element type of each value of a program.
inline std::map<std::string, std::string> types_of(const std::string& text) {
  static const std::regex definition(R"((%[\w.\-]+) = (\w+)\[)");
  std::map<std::string, std::string> types;
  for (std::sregex_iterator it(text.begin(), text.end(), definition), end; it != end; ++it) {
    types[(*it)[1]] = (*it)[2];
  }
  return types;
}

/// The number of conversions from an element type.
inline int64_t conversions_from(const std::string& text, const std::string& type) {
  static const std::regex conversion(R"( convert\((%[\w.\-]+)\))");
  const std::map<std::string, std::string> types = types_of(text);
  int64_t count = 0;
  for (std::sregex_iterator it(text.begin(), text.end(), conversion), end; it != end; ++it) {
    const auto found = types.find((*it)[1]);
    count += found != types.end() && found->second == type ? 1 : 0;
  }
  return count;
}

/// The element types of both operands of each product, `s8 s8`, sorted. Compilers for accelerators
/// write products as dots or convolutions.
inline std::vector<std::string> operands_of_products(const std::string& text) {
  static const std::regex product(R"( (?:dot|convolution)\((%[\w.\-]+), (%[\w.\-]+)\))");
  std::map<std::string, std::string> types = types_of(text);
  std::vector<std::string> out;
  for (std::sregex_iterator it(text.begin(), text.end(), product), end; it != end; ++it) {
    out.push_back(types[(*it)[1]] + " " + types[(*it)[2]]);
  }
  std::ranges::sort(out);
  return out;
}

/// The forward product, then the two of the backward pass.
inline std::vector<std::string> expected_operands(nn::Quantization::Mode mode) {
  switch (mode) {
    case nn::Quantization::Mode::INT8:
      return {"bf16 bf16", "bf16 bf16", "s8 s8"};
    case nn::Quantization::Mode::FP8:
      return {"bf16 bf16", "bf16 bf16", "f8e4m3fn f8e4m3fn"};
    default:
      return {"f8e4m3fn f8e4m3fn", "f8e5m2 f8e4m3fn", "f8e5m2 f8e4m3fn"};
  }
}

}  // namespace kinema::planning
