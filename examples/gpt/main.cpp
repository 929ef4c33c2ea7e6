// gpt train job.toml: see reshard/app.h for the commands, job.toml for the keys, network.h for the model.

#include "program.h"

int main(int argc, char** argv) {
  gpt::Program program;
  return reshard::app(argc, argv, program);
}
