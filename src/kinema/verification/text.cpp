// Text: prompts to token ids, token ids and prompts to hidden states.
#include <algorithm>

#include "kinema/core/error.h"
#include "kinema/data/video_source.h"
#include "kinema/encoders/flux_encoder.h"
#include "kinema/encoders/redux_encoder.h"
#include "kinema/encoders/sd_encoder.h"
#include "kinema/encoders/umt5_encoder.h"
#include "kinema/models/clip/text.h"
#include "kinema/models/qwen3/encoder.h"
#include "kinema/models/t5/encoder.h"
#include "kinema/text/clean.h"
#include "kinema/text/clip_tokenizer.h"
#include "kinema/text/qwen_tokenizer.h"
#include "kinema/text/tokenizer.h"
#include "kinema/verification/arrays.h"
#include "kinema/verification/kinds.h"
#include "kinema/weights/clip.h"
#include "kinema/weights/embedding.h"
#include "kinema/weights/qwen3.h"
#include "kinema/weights/t5.h"

namespace kinema::verification {
namespace {

constexpr int64_t kNoLimit = int64_t{1} << 40;

/// `ids` of prompts, and `mask`, which is 1 at tokens: padded to the width of the case's table
/// `PREFIXids`.
template <typename Tokenizer>
Values token_table(const Case& c, const Tokenizer& tokenizer, const std::string& prefix,
                   const std::vector<std::string>& prompts) {
  const Shape shape = c.tensor(prefix + "ids").shape;
  const auto width = static_cast<size_t>(shape.dims.back());
  HostArray ids(shape);
  HostArray mask(shape);
  check(ids.as<int64_t>().size() == width * prompts.size(), "[verify] {}ids is {} for {} prompts",
        prefix, to_string(shape), prompts.size());
  std::ranges::fill(ids.as<int64_t>(), tokenizer.pad());
  for (size_t i = 0; i < prompts.size(); ++i) {
    const auto tokens = tokenizer.encode(prompts[i], shape.dims.back()).ids;
    std::ranges::copy(tokens, ids.as<int64_t>().subspan(i * width).begin());
    std::ranges::fill(mask.as<int64_t>().subspan(i * width, tokens.size()), 1);
  }
  return {{prefix + "ids", ids}, {prefix + "mask", mask}};
}

/// Compares token ids and tokens of each prompt, and the truncated and padded table `ids`. In cases
/// of Wan, prompts are cleaned first, counted tokens are truncated too, and there is a `mask`.
template <typename Tokenizer, bool wan = false>
void tokenize(const Run& run) {
  const auto tokenizer = Tokenizer::open(run.path("tokenizer"));
  const int64_t limit = wan ? run.tensor("ids").shape.dims.back() : kNoLimit;
  Count cleaned("cleaned");
  Count ids(wan ? "raw_ids" : "prompts.ids");
  Count tokens(wan ? "tokens" : "prompts.tokens");
  std::vector<std::string> prompts;
  for (const io::Json& each : run.about("prompts").items()) {
    const std::string& name = each.at("name").as_string();
    const std::string& prompt = each.at("prompt").as_string();
    const std::string& want = wan ? each.at("cleaned").as_string() : prompt;
    prompts.push_back(wan ? text::clean_prompt(prompt) : prompt);
    cleaned.add(name, std::vector{io::Json(prompts.back()).dump()},
                std::vector{io::Json(want).dump()});
    ids.add(name, tokenizer.encode(prompt, limit).ids, each.at(wan ? "raw_ids" : "ids").as_ints());
    std::vector<std::string> texts;
    for (const int64_t id : tokenizer.encode(want, limit).ids) {
      texts.push_back(tokenizer.token(id));
    }
    tokens.add(name, texts, strings(each.at("tokens")));
  }
  if (wan) {
    run.add(cleaned.row);
  }
  run.add(ids.row);
  run.add(tokens.row);
  const Values table = token_table(run.c, tokenizer, "", prompts);
  if (!wan) {
    run.add("ids", value_of(table, "ids"));
    return;
  }
  run.add(table);
  for (const std::string& prefix : run.c.names_before("ids")) {
    if (prefix.starts_with("truncated") && prefix.ends_with('.')) {
      run.add(token_table(run.c, tokenizer, prefix, {prompts.back()}));
    }
  }
}

/// Rows of the embedding table for ids [b, t], as an input f32 [b, t, d].
Tensor embedded(CaseGraph& graph, const io::TensorView& table, const HostArray& ids) {
  return graph.input(
      convert(weights::embedding_rows(table, ids.shape.dims, ids.as<int64_t>()), DType::F32));
}

/// The encoder of T5 or UMT5 on ids [b, t], with a mask of the same shape or without one (null), as
/// `output`. `taps`: the prefix of the case's names of intermediate values.
Values t5_states(const Run& run, const std::filesystem::path& folder, const HostArray& ids,
                 const HostArray* mask, const std::string& output, const std::string& taps) {
  const io::ModelFolder files = io::ModelFolder::open(folder);
  const t5::EncoderConfig config = weights::parse_t5_config(files.config());
  weights::check_t5_tensors(files, config);
  const t5::EncoderOptions options{.precision = run.options.precision,
                                   .scan_layers = run.options.scan_layers};
  CaseGraph graph(run);
  const std::vector<Tensor> params = graph.parameters(t5::parameters(config, options), files);
  t5::EncoderInputs inputs{.embeddings = embedded(graph, weights::t5_embedding(files), ids),
                           .mask = mask != nullptr ? graph.input(*mask) : Tensor(),
                           .tap = graph.tap(taps)};
  graph.output(output, t5::encoder(params, config, options, inputs));
  return graph.run();
}

/// Prompts as they are and in the chat, and their padded table.
void tokenize_chats(const Run& run) {
  for (const std::string pipeline : {"zimage", "zimage_turbo"}) {
    const auto tokenizer = text::QwenTokenizer::open(run.c.folder() / pipeline / "tokenizer");
    Count ids("prompts.ids");
    Count tokens("prompts.tokens");
    Count chats("prompts.chat_ids");
    Count answers("prompts.chat_ids_without_thinking");
    std::vector<std::string> all;
    for (const io::Json& each : run.about("prompts").items()) {
      const std::string& name = each.at("name").as_string();
      const std::string& prompt = each.at("prompt").as_string();
      const auto ids_of = [&](const std::string& text) {
        return tokenizer.encode(text, kNoLimit).ids;
      };
      all.push_back(text::qwen_chat(prompt));
      ids.add(name, ids_of(prompt), each.at("ids").as_ints());
      std::vector<std::string> texts;
      for (const int64_t id : ids_of(prompt)) {
        texts.push_back(tokenizer.token(id));
      }
      tokens.add(name, texts, strings(each.at("tokens")));
      chats.add(name, ids_of(all.back()), each.at("chat_ids").as_ints());
      if (const io::Json& without = each.at("chat_ids_without_thinking"); !without.is_null()) {
        answers.add(name, ids_of(text::qwen_chat(prompt, false)), without.as_ints());
      }
    }
    const Run here = run.with(" " + pipeline);
    for (const Count& each : {ids, tokens, chats, answers}) {
      here.add(each.row);
    }
    here.add(token_table(run.c, tokenizer, "", all));
  }
}

/// Qwen3 on ids [b, t] with padding at the end: the states of the layer before the last, and in
/// another program those after the last, with the case's taps, which are zero at padding.
void encode_qwen3(const Run& run) {
  const std::string& model = run.about("model").as_string();  // `zimage/text_encoder (...)`
  const auto files = model_files::Checkpoint::open(
      run.c.folder() / model.substr(0, model.find(' ')), model_files::kTextEncoder);
  const qwen3::EncoderConfig config = weights::qwen3_config(files);
  weights::check_qwen3_tensors(files, config);
  for (const std::string& key : run.c.names_before(".ids")) {
    const HostArray ids = run.tensor(key + ".ids");
    const HostArray mask = run.tensor(key + ".mask");
    const std::string taps = "tap." + key + ".";
    for (const bool whole : {false, true}) {
      if (whole && !run.has(key + ".last_hidden_state")) {
        continue;
      }
      const qwen3::EncoderOptions options{.precision = run.options.precision,
                                          .scan_layers = run.options.scan_layers,
                                          .skipped_layers = whole ? 0 : 1};
      CaseGraph graph(run);
      const std::vector<Tensor> params =
          graph.parameters(qwen3::parameters(config, options), files);
      const Tensor is_token = convert(graph.input(mask), DType::F32);
      const auto without_padding = [&](Tensor value) {
        Dims dims(static_cast<size_t>(value.rank()), 1);
        std::ranges::copy(ids.shape.dims, dims.begin());
        return value * reshape(is_token, dims);
      };
      const auto offer = graph.tap(taps);
      qwen3::EncoderInputs inputs{.embeddings =
                                      embedded(graph, files.at("embed_tokens.weight"), ids)};
      if (whole) {
        inputs.tap = [&](const std::string& name, Tensor value) {
          offer(name, value.rank() > 2 ? without_padding(value) : value);
        };
      }
      const Tensor states = qwen3::encoder(params, config, options, inputs);
      if (whole) {
        graph.output(key + ".last_hidden_state", without_padding(states));
        const Values values = graph.run();
        run.add(values);
        run.add_absent(taps, values, run.fails());
        continue;
      }
      for (int64_t i = 0; i < ids.shape.dims[0]; ++i) {
        const std::string name = fmt::format("{}.prompt_embeds.{}", key, i);
        graph.output(name, slice(squeeze(slice(states, Axis(0), i, 1), Axis(0)), Axis(0), 0,
                                 run.tensor(name).shape.dims[0]));
      }
      run.add(graph.run());
    }
  }
}

void encode_clip_text(const Run& run) {
  const io::ModelFolder files = io::ModelFolder::open(run.c.model());
  const clip::TextConfig config = weights::parse_clip_text_config(files.config());
  weights::check_clip_text_tensors(files, config);
  const Values states = clip_states(run, files, config);
  run.add_known(states);
  run.add_absent("tap.", states, run.fails());
}

/// The text encoders of Stable Diffusion 1 and 2 by name: ids of the prompts, their states, and
/// those with clip_skip 1.
void encode_sd_text(const Run& run) {
  const std::vector<std::string> prompts = strings(run.about("prompts"));
  for (const std::string& name : run.c.names_before(".ids")) {
    const std::filesystem::path pipeline = run.c.folder() / name;
    run.add(name + ".ids",
            value_of(token_table(run.c, text::ClipTokenizer::open(pipeline / "tokenizer"),
                                 name + ".", prompts),
                     name + ".ids"));
    for (const int64_t skip : {0, 1}) {
      const std::unique_ptr<encoders::TextEncoder> encoder =
          encoders::sd_text_encoder(run.session.client, {.pipeline = pipeline,
                                                         .clip_skip = skip,
                                                         .precision = run.options.precision,
                                                         .scan_layers = run.options.scan_layers,
                                                         .program = run.program()});
      run.add(name + (skip == 0 ? ".prompt_embeds" : ".clip_skip1"),
              encoder->encode(prompts).states);
    }
  }
}

void encode_t5(const Run& run) {
  for (const std::string& key : run.c.names_before(".ids")) {
    const std::string taps = "tap." + key + ".";
    const HostArray ids = run.tensor(key + ".ids");
    const Values states = t5_states(run, run.c.model(), ids, nullptr, key + ".hidden", taps);
    run.add(states);
    run.add_absent(taps, states, run.fails());
  }
}

void encode_umt5(const Run& run) {
  for (const Run& form : run.forms()) {
    for (const std::string key : {"short", "long"}) {
      const HostArray mask = run.tensor(key + ".mask");
      const Values states = t5_states(form, run.c.model(), run.tensor(key + ".ids"), &mask,
                                      key + ".hidden", key + ".tap.");
      form.add(key + ".hidden", value_of(states, key + ".hidden"));
      form.add_all(key + ".tap.", states, form.is_unsupported());
    }
  }
  const io::Json& about = run.about("prompt_embeds");
  for (const bool batched : {false, true}) {
    const auto encoder = wan_text_encoder(run, run.c.model().parent_path(),
                                          about.at("max_sequence_length").as_int(), batched);
    run.with(batched ? " (batched)" : "")
        .add("prompt_embeds", encoder->encode(strings(about.at("prompts"))).states);
  }
}

/// The factors of images in `scales`: a list of those of states and of pooled text, or two lists.
std::vector<encoders::ReduxImage> redux_images(const io::Json& scales,
                                               std::span<const HostArray> tokens) {
  std::vector<encoders::ReduxImage> out;
  for (size_t i = 0; i < tokens.size(); ++i) {
    out.push_back({.tokens = tokens[i]});
    if (scales.is_array()) {
      out[i].scale = scales.items().at(0).as_number();
      out[i].pooled_scale = scales.items().at(1).as_number();
    } else {
      out[i].scale = scales.at("prompt_embeds_scale").items().at(i).as_number();
      out[i].pooled_scale = scales.at("pooled_prompt_embeds_scale").items().at(i).as_number();
    }
  }
  return out;
}

void encode_redux(const Run& run) {
  const encoders::ReduxEncoder redux(run.session.client, run.c.model(), run.program());
  std::vector<HostArray> pixels;
  std::vector<HostArray> states;
  std::vector<HostArray> tokens;
  for (size_t i = 0; run.has(fmt::format("image{}", i)); ++i) {
    encoders::ReduxEncoder::Tokens made = redux.encode(run.tensor(fmt::format("image{}", i)));
    pixels.push_back(std::move(made.pixels));
    states.push_back(std::move(made.states));
    tokens.push_back(std::move(made.tokens));
  }
  run.add("pixels", joined(pixels));
  run.add("siglip", joined(states));
  run.add("tokens", joined(tokens));
  encoders::FluxTextSettings settings{.pipeline = run.c.model(), .program = run.program()};
  settings.options.precision = run.options.precision;
  settings.options.scan_layers = run.options.scan_layers;
  const std::shared_ptr<const encoders::TextEncoder> text =
      encoders::flux_text_encoder(run.session.client, std::move(settings));
  const std::string& prompt = run.about("prompt").as_string();
  for (const auto& [name, scales] : run.about("scales").members()) {
    const size_t count = name == "one" ? 1 : tokens.size();
    const auto encoder =
        encoders::with_redux(text, redux_images(scales, std::span(tokens).first(count)));
    const encoders::TextStates made = encoder->encode(std::span(&prompt, 1));
    run.add(name + ".prompt_embeds", made.states);
    run.add(name + ".pooled_prompt_embeds", made.pooled);
  }
}

}  // namespace

std::shared_ptr<const encoders::TextEncoder> wan_text_encoder(const Run& run,
                                                              const std::filesystem::path& pipeline,
                                                              int64_t max_sequence_length,
                                                              bool batched) {
  const std::string key =
      fmt::format("text {} {} {}", pipeline.string(), max_sequence_length, batched);
  return run.session.shared(key, [&] {
    encoders::T5Settings settings{.model = pipeline / "text_encoder",
                                  .tokenizer = pipeline / "tokenizer",
                                  .max_sequence_length = max_sequence_length,
                                  .batched = batched,
                                  .program = run.program()};
    settings.options.precision = run.options.precision;
    settings.options.scan_layers = run.options.scan_layers;
    return std::shared_ptr<const encoders::TextEncoder>(
        encoders::umt5_text_encoder(run.session.client, std::move(settings)));
  });
}

void add_chat_ids(const Run& run, const std::filesystem::path& tokenizer,
                  const std::string& prefix) {
  if (!run.has(prefix + "ids")) {
    return;
  }
  const io::Json& call = run.about("call");
  std::vector<std::string> prompts;
  if (const io::Json* given = call.find(prefix + "prompt"); given == nullptr || given->is_null()) {
    prompts.emplace_back("");
  } else if (given->is_array()) {
    prompts = strings(*given);
  } else {
    prompts.push_back(given->as_string());
  }
  for (std::string& prompt : prompts) {
    prompt = text::qwen_chat(prompt);
  }
  run.add(token_table(run.c, text::QwenTokenizer::open(tokenizer), prefix, prompts));
}

void encode_qwen3_file(const Run& run, const std::filesystem::path& file,
                       const std::filesystem::path& config) {
  const auto files = model_files::Checkpoint::open(file, model_files::kTextEncoder);
  const qwen3::EncoderConfig sizes = weights::qwen3_config(files, config);
  weights::check_qwen3_tensors(files, sizes);
  const qwen3::EncoderOptions options{.precision = run.options.precision,
                                      .scan_layers = run.options.scan_layers};
  CaseGraph graph(run);
  const std::vector<Tensor> params = graph.parameters(qwen3::parameters(sizes, options), files);
  graph.output("qwen3.prompt_embeds",
               qwen3::encoder(params, sizes, options,
                              {.embeddings = embedded(graph, files.at("embed_tokens.weight"),
                                                      run.tensor("ids"))}));
  run.add(graph.run());
}

Values clip_states(const Run& run, const model_files::Checkpoint& files,
                   const clip::TextConfig& config, std::span<const weights::Adapter> adapters) {
  const std::string prefix = weights::clip_text_prefix(files);
  const clip::TextOptions options{.precision = run.options.precision,
                                  .scan_layers = run.options.scan_layers};
  CaseGraph graph(run);
  const std::vector<Tensor> params =
      graph.parameters(clip::text_parameters(config, prefix, options), files, adapters);
  const HostArray ids = run.tensor("ids");
  const clip::TextOutputs out =
      clip::text_states(params, config, prefix, options,
                        {.embeddings = embedded(graph, weights::clip_text_embedding(files), ids),
                         .ids = graph.input(ids),
                         .tap = graph.tap("tap.")});
  graph.output("last_hidden_state", out.last);
  graph.output("penultimate", out.hidden);
  graph.output("pooled", out.pooled);
  if (config.projection_dim > 0) {
    graph.output("text_embeds", out.text_embeds);
  }
  return graph.run();
}

void encode_umt5_variants(const Run& run) {
  for (const std::string& tensor : run.c.names("text_")) {
    const std::string folder = "text_encoder_" + tensor.substr(5, tensor.find('.') - 5);
    for (const Run& form : run.forms()) {
      form.attempt(tensor, [&] {
        const HostArray ids = run.tensor("text.ids");
        HostArray mask(ids.shape);
        std::ranges::fill(mask.as<int64_t>(), 1);
        form.add(t5_states(form, run.c.folder() / "variants" / folder, ids, &mask, tensor, "tap."));
      });
    }
  }
}

void encode_captions(const Run& run) {
  const std::string& models = run.about("model").as_string();  // "X/vae, X/text_encoder"
  const size_t end = models.find("/text_encoder");
  check(end != std::string::npos, "[verify] {} names no text_encoder", run.about("model").where());
  const size_t start = models.rfind(' ', end) + 1;  // 0 without a space
  const auto clips = data::list_clips(run.c.folder() / "dataset");
  for (const std::string& stem : run.c.names_before(".encoder_hidden_states", "clip_")) {
    const auto clip = std::ranges::find_if(
        clips, [&](const data::CaptionedClip& each) { return each.path.stem() == stem; });
    check(clip != clips.end(), "[verify] the data set has no clip {}", stem);
    const std::string tensor = stem + ".encoder_hidden_states";
    const auto encoder = wan_text_encoder(run, run.c.folder() / models.substr(start, end - start),
                                          run.tensor(tensor).shape.dims.at(0));
    run.add(tensor, encoder->encode(std::span(&clip->caption, 1)).states);
  }
}

std::vector<Kind> text_kinds() {
  using enum Kind::Forms;
  return {
      {"tokenizer", tokenize<text::Tokenizer, /*wan=*/true>, ONE, {{"*", kExact}}},
      {"clip_tokenizer clip_tokenizer_pad", tokenize<text::ClipTokenizer>},
      {"t5_tokenizer", tokenize<text::Tokenizer>},
      {"umt5", encode_umt5, ONE, {{"*", kStates}}},
      {"flux_clip sdxl_clip2", encode_clip_text, EACH},
      {"flux_t5", encode_t5, EACH},
      {"qwen3_tokenizer", tokenize_chats, ONE, {{"*", kExact}}},
      {"qwen3_text", encode_qwen3, EACH},
      {"sd_text", encode_sd_text, ONE, {{"*.ids", kExact}}},
      {"flux_redux", encode_redux},
  };
}

}  // namespace kinema::verification
