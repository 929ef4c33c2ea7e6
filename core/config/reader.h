#pragma once

// Walks a parsed document over the declared tables: the job file's whole text, or the one line of a `--set`. One object
// per walk; not for use by two threads.

#include <string>
#include <vector>

#include "config/document.h"
#include "reshard/job.h"
#include "reshard/table.h"

namespace reshard::config {

class Reader {
 public:
  // Relative paths are taken relative to `folder`. `job` and `program` must outlive the reader.
  Reader(Job& job, Tables& program, std::string folder);

  // The document replaces job file values instead of adding to defaults: each value stands at `option`
  // ("--set train.steps"), and what it replaced is kept in job.replaced. Lists of tables are refused then.
  // `whole`: the table that the document gives as a whole ("optimizer.schedule"); what it leaves out goes back to its
  // default, but for lists of tables. Empty: none.
  void on_command_line(std::string option, std::string whole = "") {
    option_ = std::move(option);
    whole_ = std::move(whole);
  }

  // Throws Error(config) at the first thing that is wrong, in the order of the text.
  void read(const Block& document);

  // Sets one declared key, on the command line: "mesh.ranks".
  void set(const std::string& table, const std::string& key, OptionValue value);

  // What a key of a table or of a plugin's options holds now, as TOML; empty where nothing is set.
  std::string text(const std::string& full) const;

 private:
  void read_table(const std::string& name, const Block& block);
  void replace_table(const std::string& name);
  void read_options(const Block& block);
  void read_units(const Entry& entry);
  void read_variants(const Entry& entry);
  void read_switches(const Entry& entry);
  void read_groups(const Entry& entry);
  void read_pins(const Entry& entry);
  // Reads a list whose entries have plain keys alone. An entry that lacks a key of `required` is an error with `remedy`.
  template <typename Item>
  void read_plain_list(const std::string& name, const Entry& list, Table (*table_of)(Item&), std::vector<Item>& items,
                       const std::vector<std::string>& required, const std::string& remedy) const;
  // Reads one list entry whose plain keys `table` declares and whose `options` is a table of its own.
  static void refuse_idle(const std::string& name, const Block& block, const std::string& example);
  void read_list_entry(Table& table, OptionValues& options, const Block& block);

  Table* find(const std::string& name);
  bool is_parent(const std::string& name) const;  // a dot-separated part of a declared table's name, or a list's
  void set_value(Table& table, const Entry& entry);
  void give(const std::string& full, const std::string& text, const std::string& where);
  const std::string& place(const std::string& where) const { return option_.empty() ? where : option_; }
  const std::vector<Block>& blocks_of(const std::string& name, const Entry& entry) const;

  [[noreturn]] void fail_unknown(const std::string& name, const Entry& entry) const;
  [[noreturn]] void fail_unknown_table(const std::string& name, const Entry& entry) const;
  [[noreturn]] void fail_unknown_list_key(const std::string& name, const std::vector<std::string>& known,
                                          const Entry& entry) const;

  Job& job_;
  Tables core_;
  std::vector<Table*> tables_;  // the core's and the program's
  std::string folder_;
  std::string option_;
  std::string whole_;
};

}  // namespace reshard::config
