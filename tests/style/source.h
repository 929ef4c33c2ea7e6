#pragma once

// The repository's text, read once for all rules: every file as it is, and every C or C++ file also without its
// comments and literals, so that a rule about code never trips over prose. Values only; safe to share between threads
// once made.

#include <cstddef>
#include <map>
#include <string>
#include <string_view>
#include <vector>

namespace reshard::style {

struct Include {
  int line = 0;
  std::string path;  // as written, without quotes or angle brackets
  bool quoted = false;
};

struct Literal {
  int line = 0;
  std::string text;  // between the quotes, escapes as written
};

struct Directive {
  int line = 0;
  std::string name;  // "if", "define", "pragma", … but not "include"
  std::string rest;  // continuation lines joined
};

struct Word {
  int line = 0;
  std::string text;
};

struct Source {
  std::string path;        // relative to the repository, with '/'
  std::string text;        // as it lies on disk
  std::string code;        // as long as text; comments, literals and #include lines are blanks
  std::string statements;  // as code, and every other directive is blank too
  std::vector<Include> includes;
  std::vector<Literal> literals;  // strings only, not characters
  std::vector<Directive> directives;
};

// Splits one C or C++ file. Raw strings, digit separators and continued lines are understood; trigraphs are not.
Source read_source(std::string path, std::string text);

// Every identifier and keyword of `code`, in order.
std::vector<Word> words(const Source& source);

struct Tree {
  std::map<std::string, std::string> files;  // path → text, for the kinds of file that people write
  std::vector<Source> sources;               // those of them that are C or C++
};

// The folders and top-level files of a checkout that belong to the repository. Build folders are not among them.
Tree read_tree(const std::string& root);

// A tree made of the given files alone, for testing the rules themselves.
Tree make_tree(std::map<std::string, std::string> files);

bool starts_with(std::string_view text, std::string_view prefix);
bool ends_with(std::string_view text, std::string_view suffix);
bool is_word_char(char c);
bool is_cpp(std::string_view path);
int line_count(std::string_view text);
int line_at(std::string_view text, std::size_t offset);

// "core/model/layout.h" → "core/model"; "README.md" → "".
std::string folder_of(std::string_view path);
std::string file_name(std::string_view path);

// "micro_batchCount" → {"micro", "batch", "count"}: the words that an identifier or a sentence is made of, in lower
// case.
std::vector<std::string> parts(std::string_view text);

}  // namespace reshard::style
