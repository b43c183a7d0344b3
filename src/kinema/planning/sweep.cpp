#include "kinema/planning/sweep.h"

#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <limits>
#include <tuple>

#include "kinema/core/error.h"
#include "kinema/planning/compiler_error.h"

namespace kinema::planning {
namespace {

constexpr std::array<const char*, 4> kAxes = {"data", "fsdp", "context", "tensor"};
enum Axis : size_t { DATA, FSDP, CONTEXT, TENSOR };

int64_t product(const std::array<int64_t, 4>& mesh) {
  return mesh[DATA] * mesh[FSDP] * mesh[CONTEXT] * mesh[TENSOR];
}

std::vector<std::array<int64_t, 4>> all_meshes(int64_t devices) {
  std::vector<std::array<int64_t, 4>> out;
  for (int64_t data = 1; data <= devices; ++data) {
    for (int64_t fsdp = 1; data * fsdp <= devices && devices % data == 0; ++fsdp) {
      for (int64_t context = 1; data * fsdp * context <= devices; ++context) {
        if (devices % (data * fsdp * context) == 0) {
          out.push_back({data, fsdp, context, devices / (data * fsdp * context)});
        }
      }
    }
  }
  return out;
}

/// An order of policies by the memory that they keep on the device, for the order of trying.
int kept_by(const std::string& policy) {
  constexpr std::array<const char*, 5> kOrder = {"FULL", "OFFLOAD_MATMUL_WITHOUT_BATCH",
                                                 "HIDDEN_STATE_WITH_OFFLOAD",
                                                 "MATMUL_WITHOUT_BATCH", "NONE"};
  const auto* const found = std::ranges::find(kOrder, policy);
  return static_cast<int>(found - kOrder.begin());
}

/// True if a policy keeps everything that the other one keeps, and more. Policies that offload are
/// not comparable.
bool keeps_more(const std::string& policy, const std::string& than) {
  const auto plain = [](const std::string& p) {
    return p == "FULL" || p == "MATMUL_WITHOUT_BATCH" || p == "NONE";
  };
  return policy == than || (plain(policy) && plain(than) && kept_by(policy) > kept_by(than));
}

int64_t read_size(const std::string& text, const std::string& whole) {
  int64_t size = 0;
  const char* end = text.data() + text.size();
  const auto [rest, error] = std::from_chars(text.data(), end, size);
  check(error == std::errc() && rest == end && size >= 1,
        "[plan] the mesh `{}` is not of the form context:2,tensor:4", whole);
  return size;
}

double seconds_per_sample(const Outcome& outcome) {
  return outcome.report->roofline().seconds() / static_cast<double>(outcome.candidate.batch);
}

bool is_good(const Outcome& outcome) { return outcome.report && outcome.report->fits(); }

}  // namespace

std::vector<Candidate> candidates(const SweepSpace& space) {
  const std::vector<std::array<int64_t, 4>> meshes =
      space.meshes.empty() ? all_meshes(space.devices) : space.meshes;
  std::vector<std::string> policies = space.remat;
  std::ranges::stable_sort(policies, {}, kept_by);
  std::vector<int64_t> batches = space.batches;
  std::ranges::sort(batches);
  std::vector<Candidate> out;
  for (const auto& mesh : meshes) {
    check(product(mesh) == space.devices, "[plan] the mesh {} has {} devices, the target {}",
          mesh_text(mesh), product(mesh), space.devices);
    for (const int64_t batch : batches) {
      for (const std::string& policy : policies) {
        if (batch % (mesh[DATA] * mesh[FSDP]) == 0 && space.heads % mesh[TENSOR] == 0 &&
            space.width % (mesh[FSDP] * mesh[CONTEXT]) == 0) {
          out.push_back({.mesh = mesh, .remat = policy, .batch = batch});
        }
      }
    }
  }
  return out;
}

std::array<int64_t, 4> parse_mesh(const std::string& text) {
  std::array<int64_t, 4> mesh{1, 1, 1, 1};
  size_t start = 0;
  while (start <= text.size()) {
    const size_t end = std::min(text.find(',', start), text.size());
    const std::string part = text.substr(start, end - start);
    const size_t colon = part.find(':');
    const auto* const axis = std::ranges::find(kAxes, part.substr(0, colon));
    check(
        colon != std::string::npos && axis != kAxes.end(),
        "[plan] the mesh `{}` is not of the form context:2,tensor:4; axes are data, fsdp, context "
        "and tensor",
        text);
    mesh[static_cast<size_t>(axis - kAxes.begin())] = read_size(part.substr(colon + 1), text);
    start = end + 1;
  }
  return mesh;
}

std::vector<Outcome> sweep(std::span<const Candidate> candidates,
                           const std::function<Report(const Candidate&)>& plan,
                           const std::function<void(const Outcome&)>& done) {
  std::vector<Outcome> out;
  std::vector<Candidate> too_large;
  for (const Candidate& candidate : candidates) {
    Outcome outcome{.candidate = candidate};
    outcome.skipped = std::ranges::any_of(too_large, [&](const Candidate& c) {
      return c.mesh == candidate.mesh && candidate.batch >= c.batch &&
             keeps_more(candidate.remat, c.remat);
    });
    if (outcome.skipped) {
      outcome.problem = "not tried: less does not fit";
    } else {
      try {
        outcome.report = plan(candidate);
        outcome.problem = outcome.report->fits() ? "" : "does not fit";
      } catch (const OutOfMemory& error) {
        outcome.problem =
            error.wanted() > 0
                ? fmt::format("does not fit: temporaries of {} where {} are there",
                              bytes_text(error.wanted()), bytes_text(error.available()))
                : "does not fit";
        too_large.push_back(candidate);
      } catch (const Stopped&) {
        throw;
      } catch (const Error& error) {
        const std::string text = error.what();
        outcome.problem = text.substr(0, text.find('\n'));
      }
      if (outcome.report && !outcome.report->fits()) {
        too_large.push_back(candidate);
      }
    }
    done(outcome);
    out.push_back(std::move(outcome));
  }
  return out;
}

void rank(std::vector<Outcome>& outcomes) {
  const auto key = [](const Outcome& outcome) {
    return is_good(outcome)
               ? std::tuple(0, seconds_per_sample(outcome), outcome.report->total())
               : std::tuple(outcome.skipped ? 2 : 1, 0.0, std::numeric_limits<int64_t>::max());
  };
  std::ranges::stable_sort(outcomes, {}, key);
}

std::string mesh_text(const std::array<int64_t, 4>& mesh) {
  return fmt::format("data={} fsdp={} context={} tensor={}", mesh[DATA], mesh[FSDP], mesh[CONTEXT],
                     mesh[TENSOR]);
}

std::string outcome_heading() {
  return fmt::format("{:<38} {:<28} {:>5}  {:>11} {:>11} {:>11}  {}", "mesh", "remat", "batch",
                     "total", "host", "s/sample", "");
}

std::string outcome_line(const Outcome& outcome) {
  const Candidate& c = outcome.candidate;
  const std::string start =
      fmt::format("{:<38} {:<28} {:>5}  ", mesh_text(c.mesh), c.remat, c.batch);
  if (!outcome.report) {
    return start + outcome.problem;
  }
  const Report& report = *outcome.report;
  return start + fmt::format("{:>11} {:>11} {:>11.3f}  {}",
                             bytes_text(static_cast<double>(report.total())),
                             bytes_text(static_cast<double>(report.host_bytes())),
                             seconds_per_sample(outcome),
                             report.fits() ? report.roofline().bound() : outcome.problem.c_str());
}

io::Json to_json(const Outcome& outcome) {
  io::Json mesh = io::Json::object();
  for (size_t i = 0; i < kAxes.size(); ++i) {
    mesh.set(kAxes[i], outcome.candidate.mesh[i]);
  }
  io::Json json = io::Json::object()
                      .set("mesh", std::move(mesh))
                      .set("remat_policy", outcome.candidate.remat)
                      .set("batch", outcome.candidate.batch)
                      .set("fits", is_good(outcome))
                      .set("problem", outcome.problem);
  if (outcome.report) {
    json.set("seconds_per_sample", seconds_per_sample(outcome));
    json.set("report", to_json(*outcome.report));
  }
  return json;
}

}  // namespace kinema::planning
