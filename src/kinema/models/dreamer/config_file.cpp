#include "kinema/models/dreamer/config_file.h"

#include <set>
#include <string_view>

#include "kinema/core/error.h"

namespace kinema::dreamer {
namespace {

using io::Json;

/// What the agent does not see, or sees by these names only.
const std::set<std::string, std::less<>>& flags() {
  static const std::set<std::string, std::less<>> names{"reward", "is_first", "is_last",
                                                        "is_terminal"};
  return names;
}

Space space_of(const Json& json) {
  const std::string& dtype = json.at("dtype").as_string();
  Space space{.shape = json.at("shape").as_ints()};
  const Json* classes = json.find("classes");
  space.classes = classes == nullptr || classes->is_null() ? 0 : classes->as_int();
  if (dtype == "uint8") {
    space.dtype = DType::U8;
    space.classes = space.is_image() ? 0 : 256;
  } else if (dtype == "bool") {
    space.dtype = DType::U8;
    space.classes = 2;
  } else if (dtype == "int32") {
    space.dtype = DType::S32;
    check(space.classes > 0, "[dreamer] {} is an integer but has no classes", json.where());
  } else {
    check(dtype == "float32", "[dreamer] {} is {} but must be float32, int32, uint8 or bool",
          json.where(), dtype);
    space.classes = 0;
  }
  return space;
}

Spaces spaces_of(const Json& json) {
  Spaces spaces;
  for (const auto& [name, space] : json.members()) {
    if (!flags().contains(name) && !name.starts_with("log/")) {
      spaces.emplace_back(name, space_of(space));
    }
  }
  return spaces;
}

nn::Activation act_of(const Json& json) {
  return nn::activation_from_string(json.at("act").as_string());
}
nn::ScaleNorm::How norm_of(const Json& json) {
  return nn::ScaleNorm::from_string(json.at("norm").as_string());
}

RssmConfig rssm_of(const Json& json) {
  return {.deter = json.at("deter").as_int(),
          .hidden = json.at("hidden").as_int(),
          .stoch = json.at("stoch").as_int(),
          .classes = json.at("classes").as_int(),
          .act = act_of(json),
          .norm = norm_of(json),
          .unimix = json.at("unimix").as_number(),
          .outscale = json.at("outscale").as_number(),
          .imglayers = json.at("imglayers").as_int(),
          .obslayers = json.at("obslayers").as_int(),
          .dynlayers = json.at("dynlayers").as_int(),
          .absolute = json.at("absolute").as_bool(),
          .blocks = json.at("blocks").as_int(),
          .free_nats = json.at("free_nats").as_number()};
}

template <typename T>
T number_or(const Json& json, const char* key, T otherwise) {
  const Json* found = json.find(key);
  if (found == nullptr) {
    return otherwise;
  }
  if constexpr (std::is_same_v<T, bool>) {
    return found->as_bool();
  } else if constexpr (std::is_same_v<T, double>) {
    return found->as_number();
  } else {
    return found->as_int();
  }
}

CoderConfig coder_of(const Json& json) {
  CoderConfig c{.depth = json.at("depth").as_int(),
                .mults = json.at("mults").as_ints(),
                .layers = json.at("layers").as_int(),
                .units = json.at("units").as_int(),
                .act = act_of(json),
                .norm = norm_of(json)};
  c.symlog = number_or(json, "symlog", c.symlog);
  c.outer = json.at("outer").as_bool();
  c.kernel = json.at("kernel").as_int();
  c.strided = json.at("strided").as_bool();
  c.outscale = number_or(json, "outscale", c.outscale);
  c.bspace = number_or(json, "bspace", c.bspace);
  return c;
}

HeadConfig head_of(const Json& json) {
  HeadConfig c{.layers = json.at("layers").as_int(),
               .units = json.at("units").as_int(),
               .act = act_of(json),
               .norm = norm_of(json),
               .outscale = json.at("outscale").as_number()};
  c.bins = number_or(json, "bins", c.bins);
  c.minstd = number_or(json, "minstd", c.minstd);
  c.maxstd = number_or(json, "maxstd", c.maxstd);
  return c;
}

ReturnConfig return_of(const Json& json) {
  ReturnConfig c;
  c.slowtar = json.at("slowtar").as_bool();
  c.lam = json.at("lam").as_number();
  c.actent = number_or(json, "actent", c.actent);
  c.slowreg = json.at("slowreg").as_number();
  return c;
}

nn::RunningNorm::Options running_norm_of(const Json& json) {
  nn::RunningNorm::Options o{.kind = nn::RunningNorm::kind_from_string(json.at("impl").as_string()),
                             .rate = json.at("rate").as_number(),
                             .limit = json.at("limit").as_number()};
  o.low = number_or(json, "perclo", o.low);
  o.high = number_or(json, "perchi", o.high);
  o.debias = number_or(json, "debias", o.debias);
  return o;
}

void check_kind(const Json& json, const char* key, std::string_view kind) {
  const std::string& is = json.at(key).as_string();
  check(is == kind, "[dreamer] {} is `{}` but only `{}` is known", json.at(key).where(), is, kind);
}

}  // namespace

AgentConfig parse_config(const Json& json) {
  AgentConfig c;
  c.observations = spaces_of(json.at("obs_space"));
  c.actions = spaces_of(json.at("act_space"));
  const Json& agent = json.at("agent");
  for (const auto& [part, kind] :
       {std::pair{"dyn", "rssm"}, {"enc", "simple"}, {"dec", "simple"}}) {
    check_kind(agent.at(part), "typ", kind);
  }
  for (const char* head : {"rewhead", "value"}) {
    check_kind(agent.at(head), "output", "symexp_twohot");
  }
  check_kind(agent.at("conhead"), "output", "binary");
  check_kind(agent, "policy_dist_disc", "categorical");
  check_kind(agent, "policy_dist_cont", "bounded_normal");
  c.rssm = rssm_of(agent.at("dyn").at("rssm"));
  c.encoder = coder_of(agent.at("enc").at("simple"));
  c.decoder = coder_of(agent.at("dec").at("simple"));
  c.reward = head_of(agent.at("rewhead"));
  c.continuation = head_of(agent.at("conhead"));
  c.policy = head_of(agent.at("policy"));
  c.value = head_of(agent.at("value"));
  c.imag_last = agent.at("imag_last").as_int();
  c.imag_length = agent.at("imag_length").as_int();
  c.horizon = agent.at("horizon").as_int();
  c.contdisc = agent.at("contdisc").as_bool();
  c.imag_loss = return_of(agent.at("imag_loss"));
  c.repl_loss = return_of(agent.at("repl_loss"));
  c.slow_rate = agent.at("slowvalue").at("rate").as_number();
  c.slow_every = agent.at("slowvalue").at("every").as_int();
  c.retnorm = running_norm_of(agent.at("retnorm"));
  c.valnorm = running_norm_of(agent.at("valnorm"));
  c.advnorm = running_norm_of(agent.at("advnorm"));
  c.ac_grads = agent.at("ac_grads").as_bool();
  c.reward_grad = agent.at("reward_grad").as_bool();
  c.repval_loss = agent.at("repval_loss").as_bool();
  c.repval_grad = agent.at("repval_grad").as_bool();
  c.loss_scales.clear();
  for (const auto& [name, scale] : agent.at("loss_scales").members()) {
    c.loss_scales[name] = scale.as_number();
  }
  validate(c);
  return c;
}

}  // namespace kinema::dreamer
