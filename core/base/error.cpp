#include "reshard/error.h"

#include <utility>

namespace reshard {
namespace {

std::string line(const std::string& what, const std::string& where, const std::string& remedy, const std::string& id) {
  std::string text = where.empty() ? what : where + ": " + what;
  if (!remedy.empty()) text += " (" + remedy + ")";
  if (!id.empty()) text += " [" + id + "]";
  return text;
}

}  // namespace

const char* name(ErrorCode code) {
  switch (code) {
    case ErrorCode::config: return "config";
    case ErrorCode::plugin: return "plugin";
    case ErrorCode::plan: return "plan";
    case ErrorCode::budget: return "budget";
    case ErrorCode::model: return "model";
    case ErrorCode::data: return "data";
    case ErrorCode::io: return "io";
    case ErrorCode::communication: return "communication";
    case ErrorCode::rank_failed: return "rank_failed";
    case ErrorCode::numeric: return "numeric";
    case ErrorCode::interrupted: return "interrupted";
  }
  return "unknown";
}

int exit_code(ErrorCode code) {
  switch (code) {
    case ErrorCode::config:
    case ErrorCode::plugin:
    case ErrorCode::plan:
    case ErrorCode::budget:
    case ErrorCode::model:
    case ErrorCode::data: return 2;
    case ErrorCode::interrupted: return 130;
    case ErrorCode::io:
    case ErrorCode::communication:
    case ErrorCode::rank_failed:
    case ErrorCode::numeric: return 1;
  }
  return 1;
}

Error::Error(ErrorCode code, std::string what, std::string where, std::string remedy, std::string id)
    : std::runtime_error(line(what, where, remedy, id)),
      code_(code),
      message_(std::move(what)),
      where_(std::move(where)),
      remedy_(std::move(remedy)),
      id_(std::move(id)) {}

}  // namespace reshard
