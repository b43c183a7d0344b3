#pragma once

#include <concepts>
#include <cstdint>
#include <optional>
#include <string_view>
#include <type_traits>

/// Keys whose value is one of a few names: an enumeration each, and `choices` with the names in the
/// order of the enumerators.
namespace kinema::config {

enum class Hardware : uint8_t { CPU, GPU, TPU };
constexpr std::string_view choices(Hardware /*value*/) { return "cpu | gpu | tpu"; }

/// A dtype of computation or storage.
enum class Dtype : uint8_t { FLOAT32, BFLOAT16 };
constexpr std::string_view choices(Dtype /*value*/) { return "float32 | bfloat16"; }

/// The precision of float32 matmuls, with JAX's names.
enum class MatmulPrecision : uint8_t { DEFAULT, HIGH, HIGHEST };
constexpr std::string_view choices(MatmulPrecision /*value*/) { return "DEFAULT | HIGH | HIGHEST"; }

/// The kernel of blockwise attention on NVIDIA GPUs.
enum class GpuAttentionKernel : uint8_t { AUTO, CUDNN, CUDNN_FP8, TRITON, BLOCKWISE };
constexpr std::string_view choices(GpuAttentionKernel /*value*/) {
  return "auto | cudnn | cudnn_fp8 | triton | blockwise";
}

enum class ModelType : uint8_t { T2V, I2V, TI2V, VACE, ANIMATE, T2I };
constexpr std::string_view choices(ModelType /*value*/) {
  return "T2V | I2V | TI2V | VACE | ANIMATE | T2I";
}

enum class Autoencoder : uint8_t { WAN, SPACE_TO_DEPTH };
constexpr std::string_view choices(Autoencoder /*value*/) { return "wan | space_to_depth"; }

enum class TextEncoder : uint8_t { UMT5, HASHED };
constexpr std::string_view choices(TextEncoder /*value*/) { return "umt5 | hashed"; }

/// How prompts are read: text::PromptSyntax.
enum class PromptSyntax : uint8_t { PLAIN, A1111, COMPEL };
constexpr std::string_view choices(PromptSyntax /*value*/) { return "plain | a1111 | compel"; }

enum class TextInit : uint8_t { NORMAL, XAVIER };
constexpr std::string_view choices(TextInit /*value*/) { return "normal | xavier"; }

enum class LoraMode : uint8_t { MERGE, APPLY };
constexpr std::string_view choices(LoraMode /*value*/) { return "merge | apply"; }

/// The kind of the trained adapter.
enum class AdapterType : uint8_t { LORA, DORA, LOHA, LOKR };
constexpr std::string_view choices(AdapterType /*value*/) { return "lora | dora | loha | lokr"; }

/// What is done with an adapter's tensors that the model has no weight for.
enum class LoraUnmatched : uint8_t { HARMLESS, REFUSE, SKIP };
constexpr std::string_view choices(LoraUnmatched /*value*/) { return "harmless | refuse | skip"; }

/// The initial values of an adapter's first factor; the second is 0.
enum class LoraInit : uint8_t { KAIMING, GAUSSIAN };
constexpr std::string_view choices(LoraInit /*value*/) { return "kaiming | gaussian"; }

/// FLOATS: in weights_dtype.
enum class WeightsStorage : uint8_t { FLOATS, INT8, FLOAT8_E4M3FN };
constexpr std::string_view choices(WeightsStorage /*value*/) {
  return "weights_dtype | int8 | float8_e4m3fn";
}

/// The memory of frozen weights. STREAMED: in host memory, copied to the device one layer ahead.
enum class WeightsMemory : uint8_t { DEVICE, HOST, STREAMED };
constexpr std::string_view choices(WeightsMemory /*value*/) { return "device | host | streamed"; }

/// The memory of an optimizer's moments and of EMA weights.
enum class OptimizerMemory : uint8_t { DEVICE, HOST };
constexpr std::string_view choices(OptimizerMemory /*value*/) { return "device | host"; }

/// TF and GRAIN are MaxDiffusion's names for the same reader; IMAGES becomes VIDEOS of one frame
/// when a configuration is loaded.
enum class DatasetType : uint8_t { TFRECORD, VIDEOS, SYNTHETIC, HF, TF, GRAIN, IMAGES };
constexpr std::string_view choices(DatasetType /*value*/) {
  return "tfrecord | videos | synthetic | hf | tf | grain | images";
}

/// The captions of a caption with several lines.
enum class CaptionLines : uint8_t { JOINED, ANY };
constexpr std::string_view choices(CaptionLines /*value*/) { return "joined | any"; }

enum class StateDtype : uint8_t { FLOAT32, WEIGHTS_DTYPE };
constexpr std::string_view choices(StateDtype /*value*/) { return "float32 | weights_dtype"; }

/// The learning rate after the warmup (optimizers::Schedule).
enum class LrSchedule : uint8_t {
  CONSTANT,
  LINEAR,
  COSINE,
  WSD,
  COSINE_WITH_RESTARTS,
  POLYNOMIAL,
  REX
};
constexpr std::string_view choices(LrSchedule /*value*/) {
  return "constant | linear | cosine | wsd | cosine_with_restarts | polynomial | rex";
}

enum class Optimizer : uint8_t {
  ADAMW,
  ADAMW8BIT,
  ADAFACTOR,
  LION,
  LION8BIT,
  CAME,
  PRODIGY,
  ADAMW_SCHEDULE_FREE,
  MUON
};
constexpr std::string_view choices(Optimizer /*value*/) {
  return "adamw | adamw8bit | adafactor | lion | lion8bit | came | prodigy | adamw_schedule_free | "
         "muon";
}

/// The rate of a matrix under Muon (optimizers::MuonRate).
enum class MuonRate : uint8_t { LIKE_ADAMW, ORIGINAL };
constexpr std::string_view choices(MuonRate /*value*/) { return "like_adamw | original"; }

/// The loss of an element, and what its threshold depends on, with kohya's names.
enum class LossType : uint8_t { L2, L1, HUBER, SMOOTH_L1 };
constexpr std::string_view choices(LossType /*value*/) { return "l2 | l1 | huber | smooth_l1"; }
enum class HuberSchedule : uint8_t { CONSTANT, EXPONENTIAL, SNR };
constexpr std::string_view choices(HuberSchedule /*value*/) {
  return "constant | exponential | snr";
}

enum class TrainExpert : uint8_t { NONE, HIGH_NOISE, LOW_NOISE, BOTH };
constexpr std::string_view choices(TrainExpert /*value*/) {
  return "none | high_noise | low_noise | both";
}

/// The memory of the idle expert.
enum class IdleExpert : uint8_t { DEVICE, HOST };
constexpr std::string_view choices(IdleExpert /*value*/) { return "device | host"; }

/// The prediction of a diffusion model's network.
enum class PredictionType : uint8_t { EPSILON, V_PREDICTION };
constexpr std::string_view choices(PredictionType /*value*/) { return "epsilon | v_prediction"; }

/// Sampling and loss weights of a flow's timesteps, with diffusers' names; BELL is Wan's.
enum class WeightingScheme : uint8_t { NONE, SIGMA_SQRT, COSMAP, LOGIT_NORMAL, MODE, BELL };
constexpr std::string_view choices(WeightingScheme /*value*/) {
  return "none | sigma_sqrt | cosmap | logit_normal | mode | bell";
}

enum class OnNonfinite : uint8_t { STOP, SKIP };
constexpr std::string_view choices(OnNonfinite /*value*/) { return "stop | skip"; }

template <typename T>
concept Choice = std::is_enum_v<T> && requires(T value) {
  { choices(value) } -> std::same_as<std::string_view>;
};

/// The name at index `place` of "a | b | c"; empty after the last one.
std::string_view word_at(std::string_view one_of, size_t place);

template <Choice T>
std::string_view word_of(T value) {
  return word_at(choices(value), static_cast<size_t>(value));
}

/// The enumerator of a name; nothing for other names.
template <Choice T>
std::optional<T> choice_of(std::string_view word) {
  for (size_t i = 0;; ++i) {
    const std::string_view each = word_at(choices(T{}), i);
    if (each == word || each.empty()) {
      return each.empty() ? std::nullopt : std::optional(static_cast<T>(i));
    }
  }
}

}  // namespace kinema::config
