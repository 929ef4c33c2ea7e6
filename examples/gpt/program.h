#pragma once

// The GPT example as a program for reshard::app: its tables [model] and [data], its flags, and what is checked before
// any rank starts. Thread rules: used by one thread until the ranks start, then only read.

#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "reshard/app.h"
#include "trainer.h"

namespace gpt {

class Program final : public reshard::Program {
 public:
  std::string name() const override { return "gpt"; }
  std::string summary() const override { return "Trains a GPT-2 on bytes of text, sharded over ranks"; }
  std::string default_job() const override;
  std::string sample_unit() const override { return "tokens"; }

  void declare(reshard::Tables& tables) override;
  std::vector<Flag> flags() override;
  reshard::Model model(const reshard::Job& job, const reshard::Tables& tables) override;
  void open(const reshard::Job& job) override;
  std::unique_ptr<reshard::Trainer> trainer(const reshard::Job& job, reshard::Runtime& runtime) override;
  int64_t samples_per_step(const reshard::Job& job) const override;
  std::vector<std::pair<std::string, std::string>> facts() const override;

 private:
  void check_shape(const reshard::Job& job) const;
  void check_size(const reshard::Job& job, int64_t sequences) const;
  Batch micro_batch_of(const reshard::Job& job) const;
  void open_text(const reshard::Job& job);

  Shape shape_;
  std::string units_ = "root";             // [model] units
  std::string path_ = "/usr/include/c++";  // [data] path: text that any machine with a C++ compiler has
  std::string from_, tokens_, data_;       // flags
  int64_t sample_tokens_ = 160;            // [sample] tokens
  Setup setup_;
  std::vector<std::pair<std::string, std::string>> facts_;
};

}  // namespace gpt
