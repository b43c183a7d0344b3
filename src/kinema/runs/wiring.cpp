#include "kinema/runs/wiring.h"

#include <map>

#include "kinema/config/buckets.h"
#include "kinema/config/lora.h"
#include "kinema/core/error.h"
#include "kinema/data/dataset_type.h"
#include "kinema/data/picture_sizes.h"
#include "kinema/data/synthetic.h"
#include "kinema/data/tfrecord_source.h"
#include "kinema/encoders/clip_sizes.h"
#include "kinema/encoders/flux_encoder.h"
#include "kinema/encoders/kl_autoencoder.h"
#include "kinema/encoders/sdxl_encoder.h"
#include "kinema/encoders/umt5_encoder.h"
#include "kinema/encoders/wan_autoencoder.h"
#include "kinema/graph/scan.h"
#include "kinema/io/json.h"
#include "kinema/io/media_name.h"
#include "kinema/kernels/block_sizes.h"
#include "kinema/mesh/batch.h"
#include "kinema/mesh/rules.h"
#include "kinema/remote/store.h"
#include "kinema/runs/clip_source.h"
#include "kinema/runs/clips.h"
#include "kinema/runs/compiler_flags.h"
#include "kinema/runs/data_sets.h"
#include "kinema/runs/device.h"
#include "kinema/runs/load.h"
#include "kinema/runs/objective.h"
#include "kinema/runs/quantization.h"
#include "kinema/weights/lora.h"
#include "kinema/weights/single_file.h"
#include "kinema/weights/t5.h"
#include "kinema/weights/weights.h"

namespace kinema::runs {
namespace {

namespace fs = std::filesystem;

Precision precision(config::MatmulPrecision given) {
  switch (given) {
    case config::MatmulPrecision::DEFAULT:
      return Precision::DEFAULT;
    case config::MatmulPrecision::HIGH:
      return Precision::HIGH;
    case config::MatmulPrecision::HIGHEST:
      return Precision::HIGHEST;
  }
  fail("[config] unknown precision {}", static_cast<int>(given));
}

kernels::FlashBlockSizes block_sizes(const config::Given<config::Tree>& given) {
  const io::Json tree = io::Json::parse(given.value.json, "flash_block_sizes");
  kernels::FlashBlockSizes sizes;
  if (tree.is_null()) {
    return sizes;
  }
  sizes.asked = given.given;
  check(tree.is_object(), "[config] flash_block_sizes is {}, expected {{block_q: 512, ...}}",
        tree.describe());
  const std::map<std::string, int64_t*> numbers{
      {"block_q", &sizes.block_q},
      {"block_kv", &sizes.block_kv},
      {"block_kv_compute", &sizes.block_kv_compute},
      {"block_q_dkv", &sizes.block_q_dkv},
      {"block_kv_dkv", &sizes.block_kv_dkv},
      {"block_kv_dkv_compute", &sizes.block_kv_dkv_compute},
      {"block_q_dq", &sizes.block_q_dq},
      {"block_kv_dq", &sizes.block_kv_dq},
      {"heads_per_tile", &sizes.heads_per_tile},
      {"vmem_limit_bytes", &sizes.vmem_limit_bytes}};
  for (const auto& [key, value] : tree.members()) {
    const auto found = numbers.find(key);
    if (key == "use_fused_bwd_kernel") {
      sizes.use_fused_bwd_kernel = value.as_bool();
    } else if (found != numbers.end()) {
      if (!value.is_null()) {  // configurations without a pass for dq say null
        *found->second = value.as_int();
        const int64_t most = key == "vmem_limit_bytes" ? int64_t{1} << 40 : int64_t{1} << 20;
        check(*found->second > 0 && *found->second <= most,
              "[config] flash_block_sizes: {} is {}, expected 1 to {}", key, *found->second, most);
      }
    } else {
      // Of kernels that are tuned further inside, which these sizes do not depend on.
      check(key == "block_kv_compute_in", "[config] flash_block_sizes has no `{}`: it has {}", key,
            kernels::to_string(kernels::FlashBlockSizes{}));
    }
  }
  return sizes;
}

nn::AttentionOptions attention_options(const config::Config& config) {
  const config::ModelConfig& m = config.model;
  nn::AttentionOptions options;
  options.kind = nn::attention_kind(m.attention);
  options.blocks = block_sizes(m.flash_block_sizes);
  options.min_length = m.flash_min_seq_length;
  options.base2 = m.use_base2_exp;
  options.mask_padding = m.mask_padding_tokens;
  options.split_heads = m.split_head_dim;
  options.ulysses_shards = m.ulysses_shards;
  options.ulysses_chunks = m.ulysses_attention_chunks;
  return options;
}

/// The override when there is one.
int64_t or_else(int64_t override_value, int64_t value) {
  return override_value > 0 ? override_value : value;
}

Memory weights_memory(const config::Config& config) {
  const config::WeightsMemory given = config.model.weights_memory;
  if (given == config::WeightsMemory::DEVICE) {
    return Memory::DEVICE;
  }
  check(config.model.scan_layers,
        "[config] weights_memory is `{}`, but the loop that fetches layers is not there: "
        "scan_layers is false\n  scan_layers=true, or weights_memory=device",
        config::word_of(given));
  check(config.runtime.jit,
        "[config] weights_memory is `{}`, but jit is false, which runs every block alone\n  "
        "jit=true, or weights_memory=device",
        config::word_of(given));
  return given == config::WeightsMemory::HOST ? Memory::HOST : Memory::STREAMED;
}

/// Pixels a side of a latent cell where no VAE is opened: as those of images, and most of videos,
/// have.
int64_t cell_side(const config::Config& config) {
  constexpr int64_t kVae = 8;
  return config.model.autoencoder == config::Autoencoder::SPACE_TO_DEPTH
             ? space_to_depth(config).side()
             : kVae;
}

std::unique_ptr<data::Source> make_synthetic(const config::Config& config,
                                             const networks::Sizes& model, int64_t batch) {
  const config::DataConfig& d = config.data;
  const bool blocks = config.model.autoencoder == config::Autoencoder::SPACE_TO_DEPTH;
  data::SyntheticOptions options;
  options.height = or_else(d.synthetic_override_height, config.generate.height);
  options.width = or_else(d.synthetic_override_width, config.generate.width);
  options.num_frames = or_else(d.synthetic_override_num_frames, config.generate.num_frames);
  options.max_sequence_length =
      or_else(d.synthetic_override_max_sequence_length, text_tokens(config, model));
  options.text_embed_dim = or_else(d.synthetic_override_text_embed_dim, model.text_dim);
  options.num_channels_latents =
      or_else(d.synthetic_override_num_channels_latents, model.out_channels);
  options.condition_channels = model.condition_channels();
  options.image_dim = model.image_dim;
  options.image_tokens = model.image_tokens;
  options.pooled_dim = model.pooled_dim;
  options.sizes = model.size_ids > 0;
  options.vae_scale_factor_spatial =
      or_else(d.synthetic_override_vae_scale_factor_spatial, cell_side(config));
  options.vae_scale_factor_temporal =
      or_else(d.synthetic_override_vae_scale_factor_temporal,
              blocks ? space_to_depth(config).frames() : options.vae_scale_factor_temporal);
  options.first_frame_alone = !blocks;
  encoders::check_clip_sizes(options.num_frames, options.height, options.width,
                             {.spatial = options.vae_scale_factor_spatial,
                              .temporal = options.vae_scale_factor_temporal,
                              .first_frame_alone = options.first_frame_alone},
                             model.patch_size, model.max_positions);
  // MaxDiffusion counts batches.
  options.num_samples = d.synthetic_num_samples < 0 ? 0 : d.synthetic_num_samples * batch;
  options.seed = static_cast<uint64_t>(config.run.seed);
  return data::synthetic_source(options);
}

}  // namespace

DType dtype(config::Dtype given) {
  return given == config::Dtype::BFLOAT16 ? DType::BF16 : DType::F32;
}

void check_values(const config::Loaded& loaded) {
  const config::Config& config = loaded.config;
  attention_options(config);
  quantization_options(config.model);
  for (const auto& [rules, key] :
       {std::pair{&config.parallel.logical_axis_rules, "logical_axis_rules"},
        std::pair{&config.parallel.vae_logical_axis_rules, "vae_logical_axis_rules"}}) {
    mesh::AxisRules::parse(*rules, key);
  }
  mesh::sample_rules(config.parallel.data_sharding);
  config::lora_choices(config.model);
  config::read_buckets(config.data);
  weights_memory(config);
  timestep_bias(config.optimizer.timestep_bias);
  resolve_flags(loaded, {});
}

nn::ModelOptions model_options(const config::Config& config) {
  const config::ModelConfig& m = config.model;
  nn::ModelOptions options;
  options.weights_dtype = dtype(m.weights_dtype);
  options.activations_dtype = dtype(m.activations_dtype);
  options.precision = precision(m.precision);
  options.scan_layers = m.scan_layers;
  options.remat =
      remat_policy(m.remat_policy, m.names_which_can_be_saved, m.names_which_can_be_offloaded);
  options.dropout = m.dropout;
  options.attention = attention_options(config);
  options.weights_storage = weights_storage(m.weights_storage);
  options.weights_memory = weights_memory(config);
  options.quantization = quantization_options(config.model);
  return options;
}

nn::InitOptions init_options(const config::Config& config) {
  nn::InitOptions init;
  init.gate_bias = config.model.init_gate;
  init.text = config.model.init_text == config::TextInit::XAVIER ? nn::InitOptions::Text::XAVIER
                                                                 : nn::InitOptions::Text::NORMAL;
  return init;
}

namespace {

/// Throws an Error that says what a folder is, and what it is for, where it holds no model.
void check_is_model(const fs::path& folder) {
  std::error_code ignored;
  bool has_weights = fs::exists(folder / "config.json", ignored);
  bool has_clips = false;
  for (const auto& entry : fs::directory_iterator(folder)) {
    has_weights = has_weights || entry.path().extension() == ".safetensors";
    has_clips = has_clips || io::is_video_name(entry.path().filename().string());
  }
  if (has_weights) {
    return;
  }
  const std::string name = folder.string();
  check(
      !fs::is_directory(folder / "checkpoints", ignored),
      "[config] {0} is the folder of a training run, not a model\n  to sample it: kinema generate "
      "{0}/config.yml; to train on from its weights: wan_transformer_pretrained_model_name_or_path="
      "{0}/checkpoints/STEP",
      name);
  check(!has_clips,
        "[config] {0} is a folder of clips, not a model\n  to train on them: "
        "train_data_dir={0}",
        name);
  fail(
      "[config] {} holds no model: neither model_index.json, transformer/, config.json nor a "
      ".safetensors file",
      name);
}

/// Throws an Error that names the key of adapters for a LoRA that was given as a model.
void check_no_lora(const fs::path& path, std::string_view key) {
  std::error_code ignored;
  const bool is_file = path.extension() == ".safetensors" && fs::is_regular_file(path, ignored);
  bool is_lora = false;
  try {
    is_lora = is_file ? weights::file_kind(path) == weights::FileKind::LORA
                      : weights::is_lora_folder(path);
  } catch (const Error&) {
    // what is damaged is told where it is opened
  }
  check(!is_lora,
        "[config] {0} is {1}, a LoRA: an adapter of a model, which this key names\n  "
        "enable_lora=true lora_config={{lora_model_name_or_path: [{1}]}} puts it on the model",
        key, path.string());
}

}  // namespace

bool is_pipeline_file(const fs::path& path) {
  if (path.extension() != ".safetensors") {
    return false;
  }
  try {
    return !weights::parts_in(path).empty();
  } catch (const Error&) {
    return false;  // what is damaged is told where it is opened
  }
}

fs::path pretrained_transformer(const config::Config& config, const std::string& part) {
  const std::string& own = config.model.wan_transformer_pretrained_model_name_or_path;
  const fs::path path = own.empty() ? config.model.pretrained_model_name_or_path : own;
  if (path.empty()) {
    return {};
  }
  check_no_lora(path, own.empty() ? "pretrained_model_name_or_path"
                                  : "wan_transformer_pretrained_model_name_or_path");
  std::error_code ignored;
  // A file may be the transformer alone, or hold the pipeline's other models too.
  const bool there = own.empty() ? fs::is_directory(path, ignored) || is_pipeline_file(path)
                                 : fs::exists(path, ignored);
  check(there || !own.empty() || !fs::is_regular_file(path, ignored),
        "[config] pretrained_model_name_or_path is the file {0}, expected a folder\n"
        "  wan_transformer_pretrained_model_name_or_path={0} takes a transformer's file",
        path.string());
  check(there,
        "[config] the model `{}` is not {} here\n"
        "  leave pretrained_model_name_or_path empty to start from scratch",
        path.string(), own.empty() ? "a folder" : "a folder or file");
  if (fs::is_directory(path / part, ignored)) {
    return path / part;
  }
  if (part == "transformer" && fs::is_directory(path / "unet", ignored)) {
    return path / "unet";
  }
  const std::string other = part == "transformer" ? "transformer_2" : "transformer";
  check(!fs::is_directory(path / other, ignored), "[config] {} has a {}/ but no {}/", path.string(),
        other, part);
  if (fs::is_directory(path, ignored)) {
    check_is_model(path);
  }
  return path;
}

data::SpaceToDepth space_to_depth(const config::Config& config) {
  data::SpaceToDepth out;
  out.block = config.model.space_to_depth_block;
  out.temporal = config.model.space_to_depth_temporal;
  out.regions = config.model.space_to_depth_regions;
  out.temporal_regions = config.model.space_to_depth_temporal_regions;
  out.shift = config.model.space_to_depth_mean;
  out.scale = 1.0 / config.model.space_to_depth_std;
  return out;
}

TextWidths text_widths(const networks::Sizes& network) {
  return {.states = network.text_dim, .pooled = network.pooled_dim};
}

int64_t text_tokens(const config::Config& config, const networks::Sizes& network) {
  const bool own = config.model.text_encoder != config::TextEncoder::HASHED;
  return own && network.encoder_tokens > 0 ? network.encoder_tokens
                                           : config.model.max_sequence_length;
}

text::HashedEncoder hashed_encoder(const config::Config& config, const TextWidths& widths) {
  text::HashedEncoder out;
  out.max_sequence_length = config.model.max_sequence_length;
  out.text_dim = widths.states;
  out.pooled_dim = widths.pooled;
  return out;
}

fs::path vae_folder(const config::Config& config) {
  const std::string& own = config.model.wan_vae_pretrained_model_name_or_path;
  const std::string& pipeline = config.model.pretrained_model_name_or_path;
  const fs::path named(own.empty() ? pipeline : own);
  check(!named.empty(),
        "[config] autoencoder=wan needs a VAE: set wan_vae_pretrained_model_name_or_path=FOLDER, "
        "or autoencoder=space_to_depth");
  std::error_code ignored;
  if (fs::is_regular_file(named, ignored)) {
    return named;
  }
  const fs::path inside = named / "vae";
  const fs::path folder = fs::is_directory(inside, ignored) ? inside : named;
  check(!fs::exists(named / "train_state.json", ignored),
        "[config] {0} is a run's checkpoint, which has a transformer but no VAE\n  name the run's "
        "pipeline, and beside it wan_transformer_pretrained_model_name_or_path={0}",
        named.string());
  check(fs::exists(folder / "config.json", ignored),
        "[config] there is no VAE in {}: a folder vae/ with config.json and weights is expected",
        named.string());
  return folder;
}

std::unique_ptr<encoders::Autoencoder> make_autoencoder(const config::Config& config,
                                                        const runtime::Devices& devices) {
  const config::ModelConfig& m = config.model;
  if (m.autoencoder == config::Autoencoder::SPACE_TO_DEPTH) {
    return encoders::space_to_depth_autoencoder(space_to_depth(config));
  }
  std::optional<encoders::Tiling> tiling;
  if (m.vae_tiling) {
    tiling = encoders::Tiling{.height = m.vae_tile_height,
                              .width = m.vae_tile_width,
                              .stride_height = m.vae_tile_stride_height,
                              .stride_width = m.vae_tile_stride_width};
  }
  const fs::path folder = vae_folder(config);
  if (encoders::is_kl_autoencoder(folder)) {
    return std::make_unique<encoders::KlAutoencoder>(
        devices, folder,
        encoders::KlAutoencoderOptions{.model = {.weights_dtype = dtype(m.vae_weights_dtype),
                                                 .activations_dtype = dtype(m.vae_dtype),
                                                 .precision = precision(m.precision)},
                                       .tiling = tiling,
                                       .program = program_options(config)});
  }
  encoders::WanAutoencoderOptions options;
  options.model = {.weights_dtype = dtype(m.vae_weights_dtype),
                   .activations_dtype = dtype(m.vae_dtype),
                   .precision = precision(m.precision)};
  options.replicate = m.replicate_vae;
  options.encode_chunk = m.vae_encode_chunk;
  options.decode_chunk = m.vae_decode_chunk;
  options.tiling = tiling;
  options.program = program_options(config);
  return std::make_unique<encoders::WanAutoencoder>(devices, folder, options);
}

bool has_both_text_encoders(const fs::path& file) {
  const std::vector<std::string_view> parts =
      is_pipeline_file(file) ? weights::parts_in(file) : std::vector<std::string_view>();
  return std::ranges::count(parts, weights::kTextEncoder) > 0 &&
         std::ranges::count(parts, weights::kTextEncoder2) > 0;
}

fs::path text_encoder_file(const config::Config& config) {
  const fs::path own(config.model.wan_text_encoder_pretrained_model_name_or_path);
  const fs::path pipeline(config.model.pretrained_model_name_or_path);
  std::error_code ignored;
  const bool elsewhere = !own.empty() && fs::is_directory(own / "text_encoder", ignored);
  return !elsewhere && has_both_text_encoders(pipeline) ? pipeline : fs::path();
}

fs::path text_encoder_folder(const config::Config& config) {
  const std::string& own = config.model.wan_text_encoder_pretrained_model_name_or_path;
  const std::string& pipeline = config.model.pretrained_model_name_or_path;
  const fs::path named(own.empty() ? pipeline : own);
  check(!named.empty(),
        "[config] text_encoder=umt5 needs a model: set pretrained_model_name_or_path=FOLDER or "
        "wan_text_encoder_pretrained_model_name_or_path=FOLDER,\n"
        "  or text_encoder=hashed where the model was trained with that");
  std::error_code ignored;
  if (const fs::path file = text_encoder_file(config); !file.empty()) {
    const fs::path folder = own.empty() ? file.parent_path() : named;
    for (const char* part : {"tokenizer", "tokenizer_2"}) {
      check(fs::is_directory(folder / part, ignored),
            "[config] {} holds no tokenizers, and there is no {}/ in {}\n  set "
            "wan_text_encoder_pretrained_model_name_or_path to the folder of a pipeline that has "
            "tokenizer/ and tokenizer_2/",
            file.string(), part, folder.empty() ? "its folder" : folder.string());
    }
    return folder;
  }
  for (const char* part : {"text_encoder", "tokenizer"}) {
    check(fs::is_directory(named / part, ignored),
          "[config] there is no {0}/ in {1}: expected the folder of a pipeline", part,
          named.string());
  }
  return named;
}

namespace {

/// Of a pipeline with two text encoders: Flux's, whose second is T5, or Stable Diffusion XL's.
std::unique_ptr<encoders::TextEncoder> image_text_encoder(
    const config::Config& config, const fs::path& folder, const TextWidths& widths,
    const pjrt::Client& client, const Job& job, TextUse use, const TextAdapters& adapters) {
  const config::ModelConfig& m = config.model;
  const DType type = dtype(m.text_encoder_dtype);
  const auto on_note = [job](const std::string& note) { job.notice(note); };
  std::error_code ignored;
  check(fs::is_directory(folder / "tokenizer_2", ignored),
        "[config] there is no tokenizer_2/ in {}, for its text_encoder_2", folder.string());
  const fs::path file = text_encoder_file(config);
  if (file.empty() && weights::is_t5(io::Json::read(folder / "text_encoder_2" / "config.json"))) {
    return encoders::flux_text_encoder(
        client, {.pipeline = folder,
                 .max_sequence_length = m.max_sequence_length,
                 .width = widths.states,
                 .pooled_width = widths.pooled,
                 .batched = use == TextUse::PROMPTS && m.use_batched_text_encoder,
                 .memory = encoders::text_encoder_memory(m.text_encoder_memory),
                 .options = {.weights_dtype = type,
                             .activations_dtype = type,
                             .precision = precision(m.precision),
                             .scan_layers = m.scan_layers},
                 .clip_dtype = type,
                 .clip_adapters = adapters.first,
                 .t5_adapters = adapters.second,
                 .program = program_options(config),
                 .on_note = on_note});
  }
  return encoders::sdxl_text_encoder(client, {.pipeline = folder,
                                              .file = file,
                                              .clip_skip = config.generate.clip_skip,
                                              .width = widths.states,
                                              .pooled_width = widths.pooled,
                                              .dtype = type,
                                              .precision = precision(m.precision),
                                              .scan_layers = m.scan_layers,
                                              .program = program_options(config),
                                              .adapters = adapters.first,
                                              .adapters_2 = adapters.second,
                                              .on_note = on_note});
}

}  // namespace

std::unique_ptr<encoders::TextEncoder> make_text_encoder(const config::Config& config,
                                                         const TextWidths& widths,
                                                         const pjrt::Client& client, const Job& job,
                                                         TextUse use,
                                                         const TextAdapters& adapters) {
  const config::ModelConfig& m = config.model;
  if (m.text_encoder == config::TextEncoder::HASHED) {
    return encoders::hashed_text_encoder(hashed_encoder(config, widths));
  }
  const fs::path folder = text_encoder_folder(config);
  const DType type = dtype(m.text_encoder_dtype);
  std::error_code ignored;
  if (fs::is_directory(folder / "text_encoder_2", ignored) || !text_encoder_file(config).empty()) {
    return image_text_encoder(config, folder, widths, client, job, use, adapters);
  }
  return encoders::umt5_text_encoder(
      client, {.model = folder / "text_encoder",
               .tokenizer = folder / "tokenizer",
               .max_sequence_length = m.max_sequence_length,
               .width = widths.states,
               .batched = use == TextUse::PROMPTS && m.use_batched_text_encoder,
               .memory = encoders::text_encoder_memory(m.text_encoder_memory),
               .options = {.weights_dtype = type,
                           .activations_dtype = type,
                           .precision = precision(m.precision),
                           .scan_layers = m.scan_layers},
               .program = program_options(config),
               .on_note = [job](const std::string& note) { job.notice(note); }});
}

std::unique_ptr<data::Source> make_source(const config::Config& config,
                                          const networks::Sizes& model, int64_t batch,
                                          const pjrt::Client& client, const Job& job,
                                          const ClipReport& report, data::Split::Part part) {
  if (config.data.dataset_type == config::DatasetType::SYNTHETIC) {
    return make_synthetic(config, model, batch);
  }
  const bool videos = config.data.dataset_type == config::DatasetType::VIDEOS;
  check(config.data.dataset_type == config::DatasetType::HF || !config.data.train_data_dir.empty(),
        "[config] train_data_dir is empty: where are the {}?",
        videos ? "clips or pictures" : "TFRecords");
  if (has_clips(config.data)) {
    return make_clip_source(config, model, batch, client, job, report, part);
  }
  // tfrecord, tf or grain: other programs' names for how the same files are read.
  const std::string& folder = config.data.train_data_dir;
  const data::TfRecordOptions options{.folder = folder,
                                      .seed = static_cast<uint64_t>(config.run.seed),
                                      .shuffle = config.data.enable_data_shuffling,
                                      .max_samples = config.data.max_train_samples,
                                      .by_shape = config::read_buckets(config.data).on,
                                      .batch = batch,
                                      .split = split_of(config, part)};
  std::unique_ptr<data::Source> records =
      remote::is_store_path(folder) ? data::tfrecord_source(stored_records(folder, job), options)
                                    : data::tfrecord_source(options);
  return model.size_ids > 0 ? data::with_sizes(std::move(records), cell_side(config))
                            : std::move(records);
}

namespace {

/// What eval_data_dir holds.
config::DatasetType type_of_evaluation(const std::string& folder) {
  check(
      !folder.empty(),
      "[config] evaluation wants samples, but eval_data_dir names none\n  `kinema prepare` writes "
      "some with eval_tfrecords_dir=..., and eval_split keeps some of the training's out");
  if (remote::is_store_path(folder)) {
    return config::DatasetType::TFRECORD;
  }
  std::error_code error;
  check(fs::is_directory(folder, error), "[config] eval_data_dir {} is no folder", folder);
  const std::string found = data::dataset_type_of(data::file_names(folder));
  return config::choice_of<config::DatasetType>(found).value_or(config::DatasetType::TFRECORD);
}

}  // namespace

std::unique_ptr<data::Source> make_eval_source(const config::Config& config,
                                               const networks::Sizes& model, int64_t batch,
                                               const pjrt::Client& client, const Job& job) {
  config::Config eval = config;
  const bool is_split = config.run.eval_split > 0 && config.run.eval_data_dir.empty();
  if (!is_split) {
    eval.data.train_data_dir = config.run.eval_data_dir;
    eval.data.dataset_type = type_of_evaluation(config.run.eval_data_dir);
  }
  eval.data.enable_data_shuffling = false;
  eval.data.random_start = false;
  eval.data.center_crop = true;
  eval.data.random_flip = false;
  // Clips have no timesteps of their own: those behind the first num_eval_samples have no part.
  eval.data.max_train_samples = has_clips(eval.data) ? config.data.num_eval_samples : -1;
  eval.data.buckets = {"[]"};
  return make_source(eval, model, batch, client, job,
                     {.what = "evaluation data", .file = "skipped_evaluation.jsonl"},
                     is_split ? data::Split::Part::KEPT_OUT : data::Split::Part::ALL);
}

bool on_command_line(const config::Loaded& loaded, const std::string& key) {
  const auto found = loaded.origin.find(key);
  return found != loaded.origin.end() && found->second == config::kCommandLine;
}

}  // namespace kinema::runs
