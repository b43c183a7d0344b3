// The API of AUTOMATIC1111's web UI (modules/api of its source), for its clients.
#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <charconv>
#include <ctime>

#include "kinema/core/error.h"
#include "kinema/http/json_body.h"
#include "kinema/media/png_text.h"
#include "kinema/serve/foreign.h"

namespace kinema::serve {
namespace {

using http::Refusal;
using http::Request;
using http::Response;

const char* const kA1111 = "a1111";
const http::BodyRule kLargeJson{.limit = 64 << 20};

/// Samplers by the names of the web UI, which kinema knows too.
constexpr std::array<std::string_view, 18> kSamplers{
    "Euler",      "Euler a",  "Heun",      "LMS",          "DPM2",         "DPM2 a",
    "DPM++ 2S a", "DPM++ 2M", "DPM++ SDE", "DPM++ 2M SDE", "DPM++ 3M SDE", "DDIM",
    "UniPC",      "LCM",      "TCD",       "DDPM",         "PNDM",         "DEIS"};

/// What kinema has not: a request that asks for it is refused by its name.
void refuse_unknown(const io::Json& json) {
  const auto is_set = [&](const char* name) {
    const io::Json* member = json.find(name);
    return member != nullptr && member->kind() == io::Json::Kind::Bool && member->as_bool();
  };
  for (const char* name : {"enable_hr", "restore_faces", "tiling"}) {
    if (is_set(name)) {
      throw Refusal(422, fmt::format("`{}` is not there", name), name);
    }
  }
  if (!text_member(json, "script_name").empty()) {
    throw Refusal(422, "`script_name` is given, but there are no scripts", "script_name");
  }
  const io::Json* scripts = json.find("alwayson_scripts");
  if (scripts != nullptr && scripts->is_object() && !scripts->members().empty()) {
    throw Refusal(422,
                  fmt::format("`alwayson_scripts` asks for {}, but there are no scripts",
                              scripts->members().front().first),
                  "alwayson_scripts");
  }
}

/// Takes `<lora:name:0.8>` out of a prompt, and returns what they ask for.
std::vector<LoraUse> take_loras(Context& context, std::string& prompt) {
  std::vector<LoraUse> out;
  constexpr std::string_view kTag = "<lora:";
  for (size_t at = 0; (at = prompt.find(kTag, at)) != std::string::npos;) {
    const size_t end = prompt.find('>', at);
    if (end == std::string::npos) {
      break;
    }
    const std::string inner = prompt.substr(at + kTag.size(), end - at - kTag.size());
    const size_t colon = inner.find(':');
    LoraUse use{.name = inner.substr(0, colon)};
    if (colon != std::string::npos) {
      const char* first = inner.data() + colon + 1;
      std::from_chars(first, inner.data() + inner.size(), use.scale);
    }
    const std::vector<Lora> known = context.catalogue.loras();
    if (std::ranges::find(known, use.name, &Lora::name) == known.end()) {
      throw Refusal(404, fmt::format("there is no LoRA `{}`", use.name), "prompt");
    }
    out.push_back(std::move(use));
    prompt.erase(at, end + 1 - at);
  }
  return out;
}

std::string chosen_model(Context& context, const io::Json& json) {
  const io::Json* overrides = json.find("override_settings");
  const std::string given = overrides != nullptr && overrides->is_object()
                                ? text_member(*overrides, "sd_model_checkpoint")
                                : "";
  return context.catalogue.model(given.empty() ? context.store.setting("a1111_model") : given).name;
}

/// A request, and what was replaced: sampler and scale, by the web UI's names.
struct A1111Request {
  MakeRequest request;
  io::Json replaced = io::Json::object();
};

void set_guidance(Context& context, const io::Json& json, A1111Request& out) {
  const std::string& model = out.request.model;
  if (!has_key(context, model, "guidance_scale")) {
    return;
  }
  // Every client sends 7, which a guidance-distilled model cannot use; Forge has a field for those.
  const bool is_distilled = has_key(context, model, "true_cfg_scale");
  const char* name = is_distilled ? "distilled_cfg_scale" : "cfg_scale";
  if (json.contains(name)) {
    out.request.settings.set("guidance_scale", number_member(json, name, 7));
  } else if (is_distilled && json.contains("cfg_scale")) {
    out.replaced.set("CFG scale", "of the model");
  }
}

void set_sampler(Context& context, const io::Json& json, A1111Request& out) {
  const std::string name = text_member(json, "sampler_name", text_member(json, "sampler_index"));
  if (name.empty() || name == "Automatic") {
    return;
  }
  const bool is_known = std::ranges::any_of(
      kSamplers, [&](std::string_view known) { return http::equal_without_case(known, name); });
  // Flows have samplers of their own, and clients send "Euler a" without being asked.
  if (is_known && has_key(context, out.request.model, "diffusion_scheduler_config")) {
    out.request.settings.set("scheduler", name);
  } else {
    out.replaced.set("Sampler", "of the model, in place of " + name);
  }
}

A1111Request read_a1111(Context& context, const io::Json& json) {
  refuse_unknown(json);
  A1111Request out;
  out.request.model = chosen_model(context, json);
  const std::string& model = out.request.model;
  if (context.catalogue.model(model).is_video) {
    throw Refusal(422, fmt::format("the model {} makes videos, which this API has not", model));
  }
  io::Json& settings = out.request.settings;
  std::string prompt = text_member(json, "prompt");
  out.request.loras = take_loras(context, prompt);
  settings.set("prompt", prompt);
  settings.set("width", integer_member(json, "width", 512))
      .set("height", integer_member(json, "height", 512))
      .set("num_inference_steps", integer_member(json, "steps", 50));
  const std::string negative = text_member(json, "negative_prompt");
  if (!negative.empty() && has_key(context, model, "negative_prompt")) {
    settings.set("negative_prompt", negative);
  }
  if (has_key(context, model, "prompt_syntax")) {
    settings.set("prompt_syntax", "a1111");
  }
  if (const int64_t seed = integer_member(json, "seed", -1); seed >= 0) {
    settings.set("seed", seed);
  }
  const io::Json* overrides = json.find("override_settings");
  const io::Json options =
      overrides != nullptr && overrides->is_object() ? *overrides : io::Json::object();
  if (const std::string format = text_member(options, "samples_format"); !format.empty()) {
    set_image_format(settings, format, integer_member(options, "jpeg_quality", 80),
                     {"samples_format", "jpeg_quality"});
  }
  const int64_t batch = integer_member(json, "batch_size", 1);
  const int64_t rounds = integer_member(json, "n_iter", 1);
  const int64_t most = context.queue.most_count();
  if (batch < 1 || rounds < 1 || batch > most || rounds > most || batch * rounds > most) {
    throw Refusal(422,
                  fmt::format("batch_size {} times n_iter {}: expected 1 to {} pictures", batch,
                              rounds, most),
                  "batch_size");
  }
  out.request.count = batch * rounds;
  set_guidance(context, json, out);
  set_sampler(context, json, out);
  return out;
}

void add_mask_settings(Context& context, const io::Json& json, MakeRequest& request) {
  if (integer_member(json, "inpainting_mask_invert", 0) != 0) {
    throw Refusal(422, "`inpainting_mask_invert` is not there: white parts of the mask are made",
                  "inpainting_mask_invert");
  }
  if (json.contains("mask_blur") && has_key(context, request.model, "mask_blur")) {
    request.settings.set("mask_blur", number_member(json, "mask_blur", 0));
  }
  const io::Json* only_masked = json.find("inpaint_full_res");
  if (only_masked != nullptr && only_masked->kind() == io::Json::Kind::Bool &&
      only_masked->as_bool() && has_key(context, request.model, "mask_padding")) {
    request.settings.set("mask_padding", integer_member(json, "inpaint_full_res_padding", 0));
  }
}

void add_pictures(Context& context, const io::Json& json, A1111Request& out) {
  const io::Json* images = json.find("init_images");
  if (images == nullptr || !images->is_array() || images->items().size() != 1 ||
      !images->items()[0].is_string()) {
    throw Refusal(422, "`init_images` is a list of one picture in base64", "init_images");
  }
  out.request.inputs["image"] =
      upload_base64(context, images->items()[0].as_string(), "init_images");
  if (const std::string mask = text_member(json, "mask"); !mask.empty()) {
    out.request.inputs["mask"] = upload_base64(context, mask, "mask");
    add_mask_settings(context, json, out.request);
  }
  out.request.settings.set("strength", number_member(json, "denoising_strength", 0.75));
}

Response images_answer(Context& context, const JobRecord& job, const io::Json& echo,
                       const io::Json& replaced) {
  io::Json images = io::Json::array();
  io::Json seeds = io::Json::array();
  io::Json prompts = io::Json::array();
  io::Json texts = io::Json::array();
  for (const OutputRecord& output : context.store.outputs_of(job.id)) {
    images.append(file_base64(output.path));
    seeds.append(output.seed);
    prompts.append(output.prompt);
    texts.append(fmt::format("{}\nSeed: {}, Size: {}x{}, Model: {}", output.prompt, output.seed,
                             output.width, output.height, output.model));
  }
  const io::Json info = io::Json::object({{"prompt", job.request.prompt()},
                                          {"all_prompts", std::move(prompts)},
                                          {"seed", job.request.seed()},
                                          {"all_seeds", std::move(seeds)},
                                          {"sd_model_name", job.request.model},
                                          {"infotexts", std::move(texts)},
                                          {"extra_generation_params", replaced}});
  return http::json_response(
      200, io::Json::object(
               {{"images", std::move(images)}, {"parameters", echo}, {"info", info.dump(-1)}}));
}

void make_a1111(Context& context, Request& request, const http::Reply& reply, bool has_picture) {
  io::Json json = http::json_body(request);
  A1111Request asked = read_a1111(context, json);
  if (has_picture) {
    add_pictures(context, json, asked);
    json.set("init_images", io::Json()).set("mask", io::Json());
  }
  const JobRecord job = context.queue.add(asked.request, kA1111);
  answer_when_ended(context, request, job, reply,
                    [&context, json, replaced = asked.replaced](const JobRecord& ended) {
                      return images_answer(context, ended, json, replaced);
                    });
}

io::Json progress_json(Context& context) {
  const std::optional<LiveJob> live = context.queue.live();
  const auto steps = static_cast<double>(live ? live->steps : 0);
  // A client that sees 0 takes the server for idle.
  const double progress =
      !live ? 0 : std::max(0.01, steps > 0 ? static_cast<double>(live->step) / steps : 0);
  const auto time = static_cast<std::time_t>(now());
  std::tm parts{};
  gmtime_r(&time, &parts);
  char stamp[32];
  std::strftime(stamp, sizeof(stamp), "%Y%m%d%H%M%S", &parts);
  io::Json state = io::Json::object({{"skipped", false},
                                     {"interrupted", false},
                                     {"stopping_generation", false},
                                     {"job", live ? live->id : ""},
                                     {"job_count", int64_t{live ? 1 : 0}},
                                     {"job_timestamp", std::string(stamp)},
                                     {"job_no", int64_t{0}},
                                     {"sampling_step", live ? live->step : int64_t{0}},
                                     {"sampling_steps", live ? live->steps : int64_t{0}}});
  return io::Json::object(
      {{"progress", progress},
       {"eta_relative", live ? live->seconds_left.value_or(0) : 0.0},
       {"state", std::move(state)},
       {"current_image",
        live && live->previews > 0 ? io::Json(http::base64(*live->preview)) : io::Json()},
       {"textinfo", io::Json()}});
}

/// Cancels the running job if it came by this API.
void interrupt(Context& context) {
  const std::optional<LiveJob> live = context.queue.live();
  if (!live) {
    return;
  }
  const auto job = context.store.job(live->id);
  if (job && job->source == kA1111 && !job->has_ended()) {
    context.queue.cancel(job->id);
  }
}

io::Json a1111_models(Context& context) {
  io::Json out = io::Json::array();
  for (const Model& model : context.catalogue.models()) {
    out.append(io::Json::object({{"title", model.name},
                                 {"model_name", model.name},
                                 {"hash", io::Json()},
                                 {"sha256", io::Json()},
                                 {"filename", model.name},
                                 {"config", io::Json()}}));
  }
  return out;
}

io::Json samplers() {
  io::Json out = io::Json::array();
  for (const std::string_view name : kSamplers) {
    out.append(io::Json::object(
        {{"name", name}, {"aliases", io::Json::array()}, {"options", io::Json::object()}}));
  }
  return out;
}

io::Json noise_schedules() {
  io::Json out = io::Json::array();
  for (const auto& [name, label] :
       std::array<std::pair<const char*, const char*>, 1>{{{"automatic", "Automatic"}}}) {
    out.append(io::Json::object({{"name", name},
                                 {"label", label},
                                 {"aliases", io::Json()},
                                 {"default_rho", -1.0},
                                 {"need_inner_model", false}}));
  }
  return out;
}

io::Json a1111_loras(Context& context) {
  io::Json out = io::Json::array();
  for (const Lora& lora : context.catalogue.loras()) {
    out.append(io::Json::object({{"name", lora.name},
                                 {"alias", lora.name},
                                 {"path", lora.path.filename().string()},
                                 {"metadata", io::Json::object()}}));
  }
  return out;
}

io::Json png_info(Request& request) {
  const std::string text = text_member(http::json_body(request), "image");
  const size_t comma = text.starts_with("data:") ? text.find(',') : std::string::npos;
  const auto bytes =
      http::base64_decoded(std::string_view(text).substr(comma == text.npos ? 0 : comma + 1));
  if (!bytes) {
    throw Refusal(422, "`image` is no picture in base64", "image");
  }
  io::Json items = io::Json::object();
  std::string info;
  try {
    for (const media::PngText& each :
         media::read_image_texts(std::as_bytes(std::span(*bytes)), "the picture")) {
      items.set(each.keyword, each.text);
      info = each.keyword == "parameters" ? each.text : info;
    }
  } catch (const Error& error) {
    throw Refusal(422, error.what(), "image");
  }
  return io::Json::object(
      {{"info", info}, {"items", std::move(items)}, {"parameters", io::Json::object()}});
}

}  // namespace

void add_a1111_routes(Api& api, Context& context) {
  const auto json = [](const char* method, const char* name, const char* summary) {
    return Endpoint{.method = method,
                    .pattern = std::string("/sdapi/v1/") + name,
                    .summary = std::string("AUTOMATIC1111: ") + summary,
                    .rule = kLargeJson};
  };
  api.add(json("POST", "txt2img", "images of a prompt"),
          http::Route::Handler([&context](Request& request, const http::Reply& reply) {
            make_a1111(context, request, reply, /*has_picture=*/false);
          }));
  api.add(json("POST", "img2img", "images of a picture and a prompt"),
          http::Route::Handler([&context](Request& request, const http::Reply& reply) {
            make_a1111(context, request, reply, /*has_picture=*/true);
          }));
  const auto add = [&](const char* method, const char* name, const char* summary,
                       std::function<io::Json(Request&)> handler) {
    api.add_json(json(method, name, summary), std::move(handler));
  };
  add("GET", "progress", "how far the running job is",
      [&context](Request&) { return progress_json(context); });
  for (const char* name : {"interrupt", "skip"}) {
    add("POST", name, "cancels the running job if it came by this API", [&context](Request&) {
      interrupt(context);
      return io::Json::object();
    });
  }
  add("GET", "sd-models", "the models", [&context](Request&) { return a1111_models(context); });
  add("GET", "samplers", "the samplers", [](Request&) { return samplers(); });
  add("GET", "schedulers", "the noise schedules", [](Request&) { return noise_schedules(); });
  add("GET", "loras", "the LoRAs", [&context](Request&) { return a1111_loras(context); });
  add("GET", "options", "the chosen model", [&context](Request&) {
    return io::Json::object({{"sd_model_checkpoint", chosen_model(context, io::Json::object())},
                             {"samples_format", "png"}});
  });
  add("POST", "options", "chooses the model: sd_model_checkpoint", [&context](Request& request) {
    const std::string model = text_member(http::json_body(request), "sd_model_checkpoint");
    if (model.empty()) {
      throw Refusal(422, "only `sd_model_checkpoint` can be set", "sd_model_checkpoint");
    }
    context.store.set_setting("a1111_model", context.catalogue.model(model).name);
    return io::Json::object();
  });
  add("POST", "png-info", "the texts in a PNG", [](Request& request) { return png_info(request); });
  for (const char* name : {"refresh-checkpoints", "refresh-loras"}) {
    add("POST", name, "looks at the folders again", [&context](Request&) {
      context.catalogue.refresh();
      return io::Json::object();
    });
  }
  add("GET", "scripts", "none", [](Request&) {
    return io::Json::object({{"txt2img", io::Json::array()}, {"img2img", io::Json::array()}});
  });
  for (const char* name : {"sd-vae", "upscalers", "hypernetworks", "face-restorers"}) {
    add("GET", name, "none", [](Request&) { return io::Json::array(); });
  }
  for (const char* name : {"embeddings", "cmd-flags", "memory"}) {
    add("GET", name, "none", [](Request&) { return io::Json::object(); });
  }
}

}  // namespace kinema::serve
