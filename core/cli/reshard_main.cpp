// The executable `reshard`: what needs no model.

#include "cli/command.h"

int main(int argc, char** argv) {
  reshard::cli::Face face;
  face.name = "reshard";
  face.summary = "resharding strategies as plugins";
  face.has_model = false;
  return reshard::cli::run_command(argc, argv, std::move(face), nullptr);
}
