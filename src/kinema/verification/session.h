#pragma once

#include <filesystem>
#include <map>
#include <memory>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "kinema/encoders/autoencoder.h"
#include "kinema/encoders/text_encoder.h"
#include "kinema/graph/graph.h"
#include "kinema/nn/model_options.h"
#include "kinema/nn/params.h"
#include "kinema/pjrt/client.h"
#include "kinema/runtime/program.h"
#include "kinema/sample/denoise_step.h"
#include "kinema/verification/case.h"
#include "kinema/verification/verify.h"

namespace kinema::verification {

/// What the cases of one run share: the device and the programs compiled so far.
class Session {
 public:
  Session(const pjrt::Client& client, const Options& options);

  pjrt::Client& client() { return client_; }
  const std::shared_ptr<sample::StepPrograms>& step_programs() const { return step_programs_; }
  const runtime::ProgramOptions& program_options() const { return options_.program; }
  const Options& options() const { return options_; }
  /// Throws Stopped once that was asked for.
  void check_stop() const {
    if (options_.check_stop) {
      options_.check_stop();
    }
  }

  /// The forms of the transformer to run, with what goes behind the case's name.
  struct Form {
    nn::ModelOptions options;
    std::string suffix;  // "" or " (scan)"
  };
  std::vector<Form> forms() const;
  /// The form that cases with one form only are run in: with scan unless it is switched off.
  nn::ModelOptions model_options() const;

  /// The graph's program; graphs that emit the same text share one.
  const runtime::Program& program(const Graph& graph, std::span<const Tensor> outputs,
                                  const std::string& name);

  /// The text encoder of a pipeline's folder, for prompts of at most so many tokens.
  const encoders::TextEncoder& text_encoder(const std::filesystem::path& pipeline,
                                            int64_t max_sequence_length, bool batched = false);
  /// The autoencoder of a pipeline's folder.
  const encoders::Autoencoder& autoencoder(const std::filesystem::path& pipeline);

 private:
  pjrt::Client client_;
  Options options_;
  std::shared_ptr<sample::StepPrograms> step_programs_;
  std::map<std::string, runtime::Program> programs_;
  std::map<std::string, std::unique_ptr<encoders::TextEncoder>> text_encoders_;
  std::map<std::string, std::unique_ptr<encoders::Autoencoder>> autoencoders_;
};

/// What a host computes from a spec's stacked tensor: one array per layer under the checkpoint's
/// key, or the array itself.
std::vector<std::pair<std::string, HostArray>> unstack(const nn::ParamSpec& spec,
                                                       const HostArray& stacked);

/// The transformer's parameters as the first inputs of a graph.
std::vector<Tensor> parameter_inputs(Graph& graph, std::span<const nn::ParamSpec> specs);

/// Limits of the fixtures' README for float32.
inline constexpr double kForwardAbsolute = 1e-4;
inline constexpr double kForwardRelative = 1e-4;

// ---- Cases (one .cpp each); every function returns the case's rows or throws an Error ------

std::vector<Row> forward_rows(const Case& c, Session& session);
std::vector<Row> lora_rows(const Case& c, Session& session);
std::vector<Row> lora_training_rows(const Case& c, Session& session);
std::vector<Row> lora_format_rows(const Case& c, Session& session);
std::vector<Row> gradient_rows(const Case& c, Session& session);
std::vector<Row> train_rows(const Case& c, Session& session);
std::vector<Row> expert_rows(const Case& c, Session& session);
std::vector<Row> scheduler_rows(const Case& c, Session& session);
std::vector<Row> variant_rows(const Case& c, Session& session);
std::vector<Row> pipeline_rows(const Case& c, Session& session);
std::vector<Row> dataset_rows(const Case& c, Session& session);
std::vector<Row> image_rows(const Case& c, Session& session);
std::vector<Row> vae_rows(const Case& c, Session& session);
std::vector<Row> tokenizer_rows(const Case& c, Session& session);
std::vector<Row> umt5_rows(const Case& c, Session& session);
std::vector<Row> quantized_rows(const Case& c, Session& session);
std::vector<Row> quantized_model_rows(const Case& c, Session& session);
std::vector<Row> flux_schedule_rows(const Case& c, Session& session);
std::vector<Row> sdxl_schedule_rows(const Case& c, Session& session);
std::vector<Row> flux_objective_rows(const Case& c, Session& session);
std::vector<Row> sdxl_objective_rows(const Case& c, Session& session);
std::vector<Row> image_pipeline_rows(const Case& c, Session& session);
std::vector<Row> image_train_rows(const Case& c, Session& session);
std::vector<Row> kl_autoencoder_rows(const Case& c, Session& session);
std::vector<Row> image_lora_rows(const Case& c, Session& session);
std::vector<Row> flux_single_rows(const Case& c, Session& session);
std::vector<Row> sdxl_single_rows(const Case& c, Session& session);
std::vector<Row> image_forward_rows(const Case& c, Session& session);
std::vector<Row> image_gradient_rows(const Case& c, Session& session);
std::vector<Row> clip_tokenizer_rows(const Case& c, Session& session);
std::vector<Row> t5_tokenizer_rows(const Case& c, Session& session);
std::vector<Row> clip_text_rows(const Case& c, Session& session);
std::vector<Row> t5_rows(const Case& c, Session& session);
std::vector<Row> dreamer_rows(const Case& c, Session& session);

// Parts of a case about text.
std::vector<Row> text_variant_rows(const Case& c, Session& session);  // of `variants`
std::vector<Row> caption_rows(const Case& c, Session& session);       // of `dataset`
std::vector<Row> prompt_rows(const Case& c, Session& session);        // of `pipeline_*`

}  // namespace kinema::verification
