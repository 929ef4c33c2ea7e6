#ifndef RESHARD_PLUGIN_H
#define RESHARD_PLUGIN_H

/*
 * The strategy ABI, version 1.0: all that a strategy plugin and its host know of each other. C11 and C++17.
 *
 * A plugin is one shared object with one strategy. It exports one data symbol, `reshard_plugin_v1` (a reshard_entry;
 * the number is the ABI's major), imports nothing from the host, and carries an ELF note from which a host lists it
 * without running any of its code. The file's stem, the note's name and the descriptor's name are the same word.
 *
 * A strategy is data: asked about a problem (the units of a model, the ranks, the budget), it answers per unit what to
 * keep and what to free. It issues no collective, owns no device memory and is never on the hot path.
 *
 * Life.    loaded → init → (create → decide* → destroy)* → deinit, perhaps init again. A host never unloads a plugin.
 * Threads. [control]  never at the same time as another [control] call into this library, on any thread
 *          [serial]   never two at once on one instance; different instances may run at once, on any thread
 *          [any]      at any time from the start of init to the end of deinit, on any thread, several at once
 *          [inside]   only inside the decide call that it was handed to, on that call's thread
 * Memory.  No memory changes hands. What the host passes is borrowed for the call unless said otherwise; what the entry
 *          points to stays valid and unchanged from the end of init to the end of deinit.
 * Failure. Every int32_t result is a status: RESHARD_OK, or a failure that the callee explains in the caller's
 *          reshard_error. Nothing throws, unwinds or jumps across a table; nobody calls exit.
 * Growth.  A minor appends members at the end of structs that begin with struct_size, and nothing else. Test
 *          RESHARD_HAS before touching a member that came after 1.0. A major changes the symbol. Reserved members
 *          are 0; flag bits that the reader does not know are ignored. Structs without struct_size never change.
 */

#include <stddef.h>
#include <stdint.h>

#define RESHARD_ABI_MAJOR 1
#define RESHARD_ABI_MINOR 0

/* "RESHARD1" as it lies in memory. */
#define RESHARD_MAGIC UINT64_C(0x3144524148534552)

/* True when *p, whose struct_size its maker filled in, has the member. */
#define RESHARD_HAS(type, p, member) \
  (offsetof(type, member) + sizeof(((const type*)0)->member) <= (size_t)(p)->struct_size)

#ifdef __cplusplus
#define RESHARD_EXPORT extern "C" __attribute__((visibility("default")))
extern "C" {
#else
#define RESHARD_EXPORT extern __attribute__((visibility("default")))
#endif

/* ---- Values ---------------------------------------------------------------------------------------------- */

/* UTF-8, `size` bytes, not ended by NUL. data may be NULL when size is 0. */
typedef struct reshard_text {
  const char* data;
  uint64_t size;
} reshard_text;

/* A reshard_text of a string literal, for initialisers. */
#define RESHARD_TEXT(literal) \
  { (literal), sizeof(literal) - 1 }

enum {
  RESHARD_OK = 0,
  RESHARD_FAILED = 1,      /* whatever is not below */
  RESHARD_BAD_OPTION = 2,  /* an option's value; the error's key names it */
  RESHARD_BAD_PROBLEM = 3, /* the strategy cannot serve this problem, e.g. the budget is too small */
  RESHARD_BAD_ANSWER = 4,  /* from the plan's functions: the host refused an answer; pass it on */
  RESHARD_HOST_FAILED = 5, /* from the plan's functions: the host itself failed; pass it on */
  RESHARD_OUT_OF_MEMORY = 6,
  RESHARD_INTERNAL = 7 /* a fault of the plugin */
};

/* Where a callee explains a failure. The caller owns it, sets struct_size and zeroes the rest; it may be NULL. Texts
 * are cut at the end of the array, at a UTF-8 border. */
typedef struct reshard_error {
  uint32_t struct_size;
  int32_t code;       /* the status that is returned */
  uint32_t text_size; /* bytes of text in use */
  uint32_t key_size;  /* bytes of key in use; 0 = none */
  char key[128];      /* RESHARD_BAD_OPTION: the option, "also", or an item of a list, "also[1]" */
  char text[1024];    /* one sentence without a full stop; the host says where it happened */
} reshard_error;

/* Types of options. A list of T is RESHARD_LIST | T. */
enum {
  RESHARD_BOOL = 1,
  RESHARD_INTEGER = 2,
  RESHARD_REAL = 3,
  RESHARD_STRING = 4,
  RESHARD_CHOICE = 5, /* one of a set of words */
  RESHARD_BYTES = 6,  /* a number of bytes, which a user may write as "80 GiB" */
  RESHARD_LIST = 0x100
};

typedef struct reshard_value {
  uint32_t type;
  uint32_t given;    /* 1: the user gave it, 0: it is the option's default */
  int64_t integer;   /* RESHARD_BOOL: 0 or 1; RESHARD_INTEGER; RESHARD_BYTES; RESHARD_CHOICE: index into the choices */
  double real;       /* RESHARD_REAL */
  reshard_text text; /* RESHARD_STRING; RESHARD_CHOICE */
  const struct reshard_value* items; /* RESHARD_LIST: the items, each of the list's type without RESHARD_LIST */
  uint32_t item_count;
  uint32_t reserved;
} reshard_value;

typedef struct reshard_setting {
  reshard_text name;
  reshard_value value;
} reshard_setting;

/* ---- What the host offers -------------------------------------------------------------------------------- */

enum {
  RESHARD_LOG_TRACE = 0,
  RESHARD_LOG_DEBUG = 1,
  RESHARD_LOG_INFO = 2,
  RESHARD_LOG_WARN = 3,
  RESHARD_LOG_ERROR = 4
};

/* Valid from init to the end of deinit; the one handed to create, until destroy has returned. No member is NULL. */
typedef struct reshard_host {
  uint32_t struct_size;
  uint16_t abi_major, abi_minor;
  reshard_text name, version; /* of the host, for messages */
  void* context;              /* first argument of the functions below */
  /* [any] 1 when lines of this level go anywhere: ask before composing a line. */
  int32_t (*log_enabled)(void* context, uint32_t level);
  /* [any] One line; the host adds who says it, and cuts lines above 8 KiB. */
  void (*log)(void* context, uint32_t level, reshard_text line);
  /* [any] A table that this header does not know, or NULL when the host has none of that id ("reshard.NAME/1",
   * "com.vendor.NAME/1"). It stays valid until deinit has returned. */
  const void* (*get_extension)(void* context, reshard_text id);
} reshard_host;

/* ---- What a strategy is told ----------------------------------------------------------------------------- */

enum { RESHARD_UNIT_ROOT = 1 };

typedef struct reshard_unit {
  reshard_text name;
  int32_t parent;          /* index of the unit that encloses it, -1 for the root */
  uint32_t flags;          /* RESHARD_UNIT_ROOT */
  int64_t bytes;           /* of all parameters, whole, padding included, in the gathered dtype; 0 = owns none */
  int64_t trainable_bytes; /* of those, the trainable ones */
  int64_t gradient_bytes;  /* of the whole gradient */
  double flops_forward, flops_backward; /* per micro-batch; 0 = not declared */
  double seconds_gather;                /* estimated; 0 = unknown */
} reshard_unit;

/* The same on every rank; never a rank's number. */
typedef struct reshard_problem {
  uint32_t struct_size;
  uint32_t ranks;
  uint32_t ranks_per_node;
  uint32_t microbatches;     /* per step */
  int64_t budget_bytes;      /* per rank, all categories at the peak; 0 = none */
  uint64_t seed;             /* the only source of randomness */
  const reshard_unit* units; /* in declared forward order, the root first */
  uint32_t unit_count;
  uint32_t unit_size; /* bytes from one unit to the next: step by it, not by sizeof. See reshard_unit_at. */
} reshard_problem;

static inline const reshard_unit* reshard_unit_at(const reshard_problem* problem, uint32_t index) {
  return (const reshard_unit*)(const void*)((const char*)problem->units + (size_t)index * problem->unit_size);
}

/* ---- What a strategy answers ----------------------------------------------------------------------------- */

enum { RESHARD_FREE = 0, RESHARD_KEEP = 1, RESHARD_SHRINK = 2 };
enum { RESHARD_EACH = 0, RESHARD_LAST = 1 };
enum { RESHARD_PREFETCH_MAX = 8 };

/* Which members of a decision are set; the others take the core's defaults. */
enum {
  RESHARD_SET_AFTER_FORWARD = 1,
  RESHARD_SET_AFTER_BACKWARD = 2,
  RESHARD_SET_REDUCE = 4,
  RESHARD_SET_PREFETCH_FORWARD = 8,
  RESHARD_SET_PREFETCH_BACKWARD = 16
};

typedef struct reshard_decision {
  uint32_t struct_size;
  uint32_t set;            /* RESHARD_SET_…, or-ed; a host refuses bits that it does not know */
  uint32_t after_forward;  /* RESHARD_FREE, RESHARD_KEEP, RESHARD_SHRINK */
  uint32_t shrink_ranks;   /* RESHARD_SHRINK: keep a shard of 1/shrink_ranks; >= 1 */
  uint32_t after_backward; /* RESHARD_FREE, RESHARD_KEEP: over the micro-batches of a step; the last one always frees */
  uint32_t reduce;         /* RESHARD_EACH micro-batch, or RESHARD_LAST: accumulate whole, reduce in the last */
  uint32_t prefetch_forward, prefetch_backward; /* places ahead in the order to gather, 0 … RESHARD_PREFETCH_MAX */
} reshard_decision;

/* reshard_plan::clear: every answer of the plan. */
#define RESHARD_EVERYTHING UINT32_MAX

/* Where answers go. [inside] all of it. Every answer is checked at once: a failure is to be passed on as decide's own
 * result (a plugin that swallows it fails all the same). A reason is a short sentence without a full stop, for people
 * who ask why; it may be empty and is cut above 256 bytes. Each answer is given once; to change one, clear it first. */
typedef struct reshard_plan {
  uint32_t struct_size;
  uint32_t reserved;
  void* context; /* first argument of the functions below */
  /* Decides unit `unit`, an index into the problem's units. A unit without an answer takes the core's defaults. */
  int32_t (*set_unit)(void* context, uint32_t unit, const reshard_decision* decision, reshard_text reason,
                      reshard_error* error);
  /* Ranks that a unit is sharded over; the rest are replicas. 0 = all (the default), 1 = every rank holds all. */
  int32_t (*set_shard_over)(void* context, uint32_t ranks, reshard_text reason, reshard_error* error);
  /* When replicas exchange their gradients: RESHARD_EACH micro-batch (the default) or RESHARD_LAST. */
  int32_t (*set_all_reduce)(void* context, uint32_t when, reshard_text reason, reshard_error* error);
  /* Takes back the answer for a unit, or with RESHARD_EVERYTHING all answers, shard_over and all_reduce included. */
  int32_t (*clear)(void* context, uint32_t unit, reshard_error* error);
  /* Bytes per rank at the peak of a step under the answers given so far and the user's own overrides; -1 = unknown. */
  int32_t (*predicted_peak)(void* context, int64_t* bytes, reshard_error* error);
} reshard_plan;

/* ---- What a plugin is ------------------------------------------------------------------------------------ */

enum { RESHARD_OPTION_REQUIRED = 1 };

/* One row of the table against which the host checks what a user wrote under [strategy.options.NAME]. */
typedef struct reshard_option {
  reshard_text name;                /* [a-z][a-z0-9_]*, unique in the table */
  reshard_text doc;                 /* what it does, in a few words */
  uint32_t type;                    /* RESHARD_BOOL … RESHARD_BYTES, perhaps | RESHARD_LIST */
  uint32_t flags;                   /* RESHARD_OPTION_REQUIRED: the user must give it, `fallback` is not used */
  int64_t integer_min, integer_max; /* RESHARD_INTEGER, RESHARD_BYTES: both ends included; each item of a list */
  double real_min, real_max;        /* RESHARD_REAL: the same */
  const reshard_text* choices;      /* RESHARD_CHOICE: the words */
  uint32_t choice_count;
  uint32_t reserved;
  reshard_value fallback; /* the default: of this type, inside the range */
} reshard_option;

typedef struct reshard_strategy {
  uint32_t struct_size;
  uint32_t flags;
  reshard_text name;    /* [a-z][a-z0-9_]*, at most 63 bytes */
  reshard_text version; /* "1.0.0", at most 31 bytes */
  reshard_text summary; /* one line for lists */
  const reshard_option* options;
  uint32_t option_count;
  uint32_t option_size; /* bytes from one option to the next */
  /* [control] Makes an instance. `settings` holds every option of the table once, checked, in order of their names
   * (bytewise). *instance is NULL at first, not NULL on success, and stays NULL on failure; then nothing is left
   * behind. */
  int32_t (*create)(const reshard_host* host, const reshard_setting* settings, uint32_t setting_count, void** instance,
                    reshard_error* error);
  /* [control] Ends an instance; no call about it follows. */
  void (*destroy)(void* instance);
  /* [serial] Answers. A pure function of the instance's settings and the problem: no clock, no environment, no rank,
   * no memory of earlier calls, for every rank asks its own instance and all must get the same. An extension may hand
   * an instance more to go by, the same on every rank. */
  int32_t (*decide)(void* instance, const reshard_problem* problem, const reshard_plan* plan, reshard_error* error);
  /* [any] Optional (NULL). What the strategy can do beyond this table, by id: a table of the extension's header, or
   * NULL for an id that it does not know. It stays valid and unchanged to the end of deinit. The ids of this SDK begin
   * with "reshard." and have a header in reshard/ext; anybody may add "com.vendor.NAME/1". */
  const void* (*get_extension)(reshard_text id);
} reshard_strategy;

/* The type of `reshard_plugin_v1`. The first 16 bytes are the same in every major. */
typedef struct reshard_entry {
  uint64_t magic; /* RESHARD_MAGIC */
  uint32_t struct_size;
  uint16_t abi_major, abi_minor; /* of the header that it was built with */
  uint16_t required_host_minor;  /* the least minor of a host that can run it */
  uint16_t reserved;
  uint32_t flags;
  reshard_text vendor; /* may be empty */
  reshard_text build;  /* compiler and language, for reports; may be empty */
  /* [control] Optional (NULL). After a failure nothing is called but init once more, perhaps. */
  int32_t (*init)(const reshard_host* host, reshard_error* error);
  /* [control] Optional (NULL). Called once per successful init, when no instance is left. */
  void (*deinit)(void);
  const reshard_strategy* const* strategies; /* read after init */
  uint32_t strategy_count;                   /* 1 */
  uint32_t reserved2;
} reshard_entry;

/* ---- The note -------------------------------------------------------------------------------------------- */

/* ELF note, owner "RESHARD", type 1, in a section of its own: what a host reads without running anything. */
typedef struct reshard_note {
  uint32_t owner_size, content_size, type;
  char owner[8];
  uint16_t abi_major, abi_minor, required_host_minor, reserved;
  char name[64];    /* ended by NUL, the rest 0 */
  char version[32]; /* the same */
} reshard_note;

#ifdef __cplusplus
}
#endif

/* Puts the note into the plugin. `name` and `version` are string literals; once, at file scope. */
#define RESHARD_NOTE(name, version, required_host_minor)                                                        \
  __attribute__((section(".note.reshard"), used, aligned(4))) static const reshard_note reshard_plugin_note = { \
      8, 104, 1, "RESHARD", RESHARD_ABI_MAJOR, RESHARD_ABI_MINOR, required_host_minor, 0, name, version};

#include "plugin_layout.h"

#endif
