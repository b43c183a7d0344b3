#pragma once

#include <span>
#include <string>
#include <vector>

#include "kinema/graph/graph.h"
#include "kinema/kernels/attention_record.h"
#include "kinema/kernels/kernel_set.h"
#include "kinema/kernels/kernel_text.h"
#include "kinema/runtime/program.h"

namespace kinema::runtime {

/// A graph as StableHLO text for one kind of device.
struct Emitted {
  std::string text;
  /// The device's kernels: their handlers are registered with the plugin that compiles the text,
  /// and their flags are added to its compile options.
  kernels::KernelSet kernels;
  /// The source of every kernel that the text contains, each once.
  std::vector<kernels::KernelText> kernel_texts;
  /// Every attention call and its kernel.
  kernels::AttentionRecord attention;
};

/// Writes the program for `target`'s compiler. Training, sampling, `kinema plan`, `kinema verify`
/// and the tile search all use this function, so a plan compiles the same text as a run.
/// `target.mesh` is ignored: the mesh is `options.emit.mesh`.
Emitted emit_for(kernels::Target target, const Graph& graph, std::span<const Tensor> outputs,
                 const ProgramOptions& options);

/// The target of a client's programs.
kernels::Target target_of(const pjrt::Client& client);

}  // namespace kinema::runtime
