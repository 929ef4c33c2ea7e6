#include "plugin/elf.h"

#include <algorithm>
#include <cstring>

#include <fmt/format.h>

#include "base/check.h"

namespace reshard::plugin {
namespace {

constexpr std::string_view kOwner("RESHARD", 8);  // the NUL counts

class ElfReader {
 public:
  ElfReader(std::span<const char> bytes, const Refuse& refuse) : bytes_(bytes), refuse_(refuse) {}

  Elf read() {
    read_header();
    read_segments();
    if (elf_.dynamic) read_dynamic();
    return std::move(elf_);
  }

 private:
  [[noreturn]] void refuse(const std::string& what, const std::string& remedy = kCopyIt,
                           const char* id = "elf.damaged") const {
    refuse_(what, remedy, id);
    RESHARD_CHECK(false, "refuse must throw");
    __builtin_unreachable();
  }

  // The `size` bytes at `offset`, or a refusal.
  std::span<const char> slice(uint64_t offset, uint64_t size) const {
    if (offset > bytes_.size() || size > bytes_.size() - offset)
      refuse(fmt::format("is truncated: it has {} bytes, its headers speak of {}", bytes_.size(), offset + size), kCopyIt,
             "elf.truncated");
    return bytes_.subspan(offset, size);
  }

  template <class T>
  T at(uint64_t offset) const {
    T value;
    std::memcpy(&value, slice(offset, sizeof(T)).data(), sizeof(T));
    return value;
  }

  void read_header() {
    if (bytes_.size() < SELFMAG || std::memcmp(bytes_.data(), ELFMAG, SELFMAG) != 0)
      refuse("is not an ELF file", kNameAnother, "elf.type");
    slice(0, sizeof(Elf64_Ehdr));
    if (bytes_[EI_CLASS] != ELFCLASS64 || bytes_[EI_DATA] != ELFDATA2LSB)
      refuse("is not a 64-bit little-endian ELF file", kNameAnother, "elf.type");
    header_ = at<Elf64_Ehdr>(0);
    elf_.machine = header_.e_machine;
    elf_.shared_object = header_.e_type == ET_DYN;
    elf_.object = header_.e_type == ET_REL;
    if (header_.e_shoff != 0) slice(header_.e_shoff, uint64_t{header_.e_shnum} * header_.e_shentsize);
  }

  void read_segments() {
    elf_.executable_stack = true;
    if (header_.e_phnum > 0 && header_.e_phentsize != sizeof(Elf64_Phdr)) refuse("is damaged: odd program headers");
    for (uint64_t i = 0; i < header_.e_phnum; ++i) {
      const auto segment = at<Elf64_Phdr>(header_.e_phoff + i * sizeof(Elf64_Phdr));
      slice(segment.p_offset, segment.p_filesz);
      segments_.push_back(segment);
      if (segment.p_type == PT_INTERP) elf_.interpreter = true;
      if (segment.p_type == PT_DYNAMIC) elf_.dynamic = true, dynamic_ = segment;
      if (segment.p_type == PT_GNU_STACK) elf_.executable_stack = (segment.p_flags & PF_X) != 0;
      if (segment.p_type == PT_NOTE) read_notes(segment);
    }
  }

  // Linkers put notes of different alignment into one segment, so that it cannot be walked from note to note; but every
  // note begins at a multiple of 4, and ours is known by its owner.
  void read_notes(const Elf64_Phdr& segment) {
    const uint64_t head = sizeof(Elf64_Nhdr) + kOwner.size();
    for (uint64_t at_byte = 0; at_byte + head <= segment.p_filesz; at_byte += 4) {
      const auto note = at<Elf64_Nhdr>(segment.p_offset + at_byte);
      const std::span<const char> owner = slice(segment.p_offset + at_byte + sizeof(Elf64_Nhdr), kOwner.size());
      if (note.n_namesz != kOwner.size() || std::string_view(owner.data(), owner.size()) != kOwner) continue;
      if (note.n_descsz > segment.p_filesz - at_byte - head) refuse("is damaged: its note runs past the segment");
      elf_.notes.push_back({note.n_type, slice(segment.p_offset + at_byte + head, note.n_descsz)});
    }
  }

  // Where an address of the loaded object lies in the file; past its end when no segment has it.
  uint64_t offset_of(uint64_t address) const {
    for (const Elf64_Phdr& segment : segments_)
      if (segment.p_type == PT_LOAD && address >= segment.p_vaddr && address - segment.p_vaddr < segment.p_filesz)
        return segment.p_offset + (address - segment.p_vaddr);
    refuse("is damaged: its dynamic section points outside the file");
  }

  void read_dynamic() {
    uint64_t names_address = 0, names_size = 0;
    std::vector<uint64_t> needed, run_paths;  // offsets into the names
    for (uint64_t at_byte = 0; at_byte + sizeof(Elf64_Dyn) <= dynamic_.p_filesz; at_byte += sizeof(Elf64_Dyn)) {
      const auto entry = at<Elf64_Dyn>(dynamic_.p_offset + at_byte);
      if (entry.d_tag == DT_NULL) break;
      switch (entry.d_tag) {
        case DT_STRTAB: names_address = entry.d_un.d_ptr; break;
        case DT_STRSZ: names_size = entry.d_un.d_val; break;
        case DT_NEEDED: needed.push_back(entry.d_un.d_val); break;
        case DT_RPATH:
        case DT_RUNPATH: run_paths.push_back(entry.d_un.d_val); break;
        case DT_TEXTREL: elf_.text_relocations = true; break;
        case DT_FLAGS:
          elf_.text_relocations |= (entry.d_un.d_val & DF_TEXTREL) != 0;
          elf_.static_tls |= (entry.d_un.d_val & DF_STATIC_TLS) != 0;
          break;
        default: break;
      }
    }
    if (names_size == 0) return;
    const std::span<const char> names = slice(offset_of(names_address), names_size);
    elf_.names = {names.data(), names.size()};
    for (const uint64_t name : needed) elf_.needed.push_back(text(name));
    for (const uint64_t path : run_paths) split(text(path));
  }

  std::string text(uint64_t offset) const {
    const std::size_t end = elf_.names.find('\0', offset);
    if (offset >= elf_.names.size() || end == std::string_view::npos) refuse("is damaged: a name has no end");
    return std::string(elf_.names.substr(offset, end - offset));
  }

  void split(std::string_view paths) {
    for (;;) {
      const std::size_t colon = paths.find(':');
      elf_.run_paths.emplace_back(paths.substr(0, colon));
      if (colon == std::string_view::npos) return;
      paths.remove_prefix(colon + 1);
    }
  }

  std::span<const char> bytes_;
  const Refuse& refuse_;
  Elf elf_;
  Elf64_Ehdr header_{};
  Elf64_Phdr dynamic_{};
  std::vector<Elf64_Phdr> segments_;
};

}  // namespace

Elf read_elf(std::span<const char> bytes, const Refuse& refuse) {
  return ElfReader(bytes, refuse).read();
}

}  // namespace reshard::plugin
