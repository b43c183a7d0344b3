#include "kinema/environments/native_group.h"

#include <algorithm>
#include <cstring>
#include <utility>

#include "kinema/core/error.h"
#include "kinema/io/json.h"

namespace kinema::environments {
namespace {

/// A step's part [...] of arrays [n, ...].
HostArray row_of(const HostArray& values, size_t row) {
  HostArray out(
      Shape{values.shape.dtype, Dims(values.shape.dims.begin() + 1, values.shape.dims.end())});
  std::copy_n(values.bytes.begin() + static_cast<std::ptrdiff_t>(row * out.bytes.size()),
              out.bytes.size(), out.bytes.begin());
  return out;
}

HostArray rows_for(const Space& space, size_t count) {
  Dims dims{static_cast<int64_t>(count)};
  dims.insert(dims.end(), space.shape.begin(), space.shape.end());
  return HostArray(Shape{space.dtype, std::move(dims)});
}

constexpr std::string_view kDigits = "0123456789abcdef";

std::string as_hex(const std::vector<std::byte>& bytes) {
  std::string out;
  for (const std::byte byte : bytes) {
    out += kDigits[std::to_integer<size_t>(byte >> 4)];
    out += kDigits[std::to_integer<size_t>(byte & std::byte{15})];
  }
  return out;
}

std::vector<std::byte> from_hex(std::string_view text) {
  std::vector<std::byte> out(text.size() / 2);
  for (size_t i = 0; i < 2 * out.size(); ++i) {
    const size_t digit = kDigits.find(text[i]);
    check(digit != std::string_view::npos, "[environments] a stored state has the digit `{}`",
          text[i]);
    out[i / 2] = (out[i / 2] << 4) | std::byte{static_cast<unsigned char>(digit)};
  }
  return out;
}

class NativeGroup : public Group {
 public:
  NativeGroup(std::vector<std::unique_ptr<Environment>> environments, int64_t repeat)
      : repeat_(repeat) {
    check(!environments.empty(), "[environments] a group of 0 environments, expected at least 1");
    for (auto& environment : environments) {
      check(environment->observations() == environments[0]->observations() &&
                environment->actions() == environments[0]->actions(),
            "[environments] environments of one group have different spaces");
    }
    for (auto& environment : environments) {
      members_.push_back({.environment = std::move(environment)});
    }
    for (const auto& [name, space] : actions()) {
      action_bytes_ += static_cast<size_t>(Shape{space.dtype, space.shape}.bytes());
    }
  }

  const Spaces& observations() const override { return members_[0].environment->observations(); }
  const Spaces& actions() const override { return members_[0].environment->actions(); }
  int64_t size() const override { return static_cast<int64_t>(members_.size()); }
  int64_t repeat() const override { return repeat_; }

  void begin(const Arrays& actions, std::span<const uint8_t> reset) override {
    check(reset.size() == members_.size(), "[environments] {} flags `reset` for {} environments",
          reset.size(), members_.size());
    pending_ = actions;
    reset_.assign(reset.begin(), reset.end());
  }

  GroupSteps end() override {
    GroupSteps out;
    for (const auto& [name, space] : observations()) {
      out.observations[name] = rows_for(space, members_.size());
    }
    for (size_t i = 0; i < members_.size(); ++i) {
      Arrays action;
      for (const auto& [name, values] : pending_) {
        action[name] = row_of(values, i);
      }
      const Step step = members_[i].step(action, reset_[i] != 0);
      for (const auto& [name, value] : step.observation) {
        std::vector<std::byte>& all = out.observations.at(name).bytes;
        check(value.bytes.size() * members_.size() == all.size(),
              "[environments] an observation `{}` is {}, expected {}", name, to_string(value.shape),
              to_string(observations().at(name).shape));
        std::memcpy(all.data() + i * value.bytes.size(), value.bytes.data(), value.bytes.size());
      }
      out.reward.push_back(step.reward);
      out.is_first.push_back(step.is_first ? 1 : 0);
      out.is_last.push_back(step.is_last ? 1 : 0);
      out.is_terminal.push_back(step.is_terminal ? 1 : 0);
      for (const auto& [name, value] : step.log) {
        HostArray& all = out.log.try_emplace(name, Shape{DType::F32, {size()}}).first->second;
        all.as<float>()[i] = static_cast<float>(value);
      }
    }
    return out;
  }

  std::optional<std::string> state() const override {
    io::Json all = io::Json::array();
    for (const Member& member : members_) {
      all.append(io::Json::object({{"episode", member.episode},
                                   {"over", member.is_over},
                                   {"actions", as_hex(member.played)}}));
    }
    return all.dump(-1);
  }

  void restore(std::string_view state) override {
    const io::Json all = io::Json::parse(state, "the state of the environments");
    check(all.items().size() == members_.size(),
          "[environments] the stored state is of {} environments, expected {}", all.items().size(),
          members_.size());
    for (size_t i = 0; i < members_.size(); ++i) {
      const io::Json& stored = all.items()[i];
      const std::vector<std::byte> played = from_hex(stored.at("actions").as_string());
      check(action_bytes_ > 0 && played.size() % action_bytes_ == 0,
            "[environments] the stored state has actions of another environment");
      const int64_t episode = stored.at("episode").as_int();
      check(episode >= -1, "[environments] the stored state has the episode {}", episode);
      members_[i].play(actions(), episode, played, action_bytes_);
      check(members_[i].is_over == stored.at("over").as_bool(),
            "[environments] the stored actions do not lead to the stored state: they are from "
            "another task, seed or version");
    }
  }

 private:
  struct Member {
    std::unique_ptr<Environment> environment;
    int64_t episode = -1;  // the current one; -1: none started yet
    bool is_over = true;
    std::vector<std::byte> played;  // the actions of the current episode

    Step step(const Arrays& action, bool reset) {
      Step out = environment->step(action, reset || is_over);
      if (out.is_first) {
        ++episode;
        played.clear();
      } else {
        for (const auto& [name, value] : action) {
          played.insert(played.end(), value.bytes.begin(), value.bytes.end());
        }
      }
      is_over = out.is_last;
      return out;
    }

    /// Starts the episode again and repeats the actions.
    void play(const Spaces& spaces, int64_t number, const std::vector<std::byte>& all,
              size_t bytes) {
      environment->set_next_episode(std::max<int64_t>(number, 0));
      episode = number - 1;
      is_over = true;
      if (number < 0) {
        episode = -1;
        return;
      }
      step({}, true);
      for (size_t at = 0; at < all.size(); at += bytes) {
        Arrays action;
        size_t from = at;
        for (const auto& [name, space] : spaces) {
          HostArray value(Shape{space.dtype, space.shape});
          std::memcpy(value.bytes.data(), all.data() + from, value.bytes.size());
          from += value.bytes.size();
          action[name] = std::move(value);
        }
        step(action, false);
      }
    }
  };

  std::vector<Member> members_;
  int64_t repeat_;
  size_t action_bytes_ = 0;
  Arrays pending_;
  std::vector<uint8_t> reset_;
};

}  // namespace

std::unique_ptr<Group> native_group(std::vector<std::unique_ptr<Environment>> environments,
                                    int64_t repeat) {
  return std::make_unique<NativeGroup>(std::move(environments), repeat);
}

}  // namespace kinema::environments
