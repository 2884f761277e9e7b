// What this process holds, what the machine has left, and an allocator that gives freed memory back.
#pragma once

#include <string>

#include <plimsoll/memory_line.h>

namespace plimsoll::memory {

// The peak (VmHWM) from one cheap system call; may lag behind by a few pages for each thread.
Bytes quick_peak_resident_bytes();

// What the process holds, by kind.
struct ProcessMemory {
  Bytes private_bytes = 0;         // RssAnon and RssShmem
  Bytes file_bytes = 0;            // RssFile: code and other mapped files
  Bytes heap_bytes = 0;            // in use, by the allocator's own count: the same whenever a program does the same
  Bytes generated_code_bytes = 0;  // resident pages of code that libraries generated
};
ProcessMemory measure_process_memory();

// Unmaps pages of code that has run, and of constants and tables of symbols: most of them were needed to start and to
// plan, and will not be used again. A page that is used after all comes back from the page cache. Pages that were
// written to stay: the data of programs, and code that a debugger has changed.
void drop_code_pages();
// Drops code pages if the process holds nearly as much as its line. To be called between two pieces of work that run
// different code.
void drop_code_near(Bytes line);

// Throws Error when the process has at some time held more than its line: a fault of the engine, which is never silent.
void expect_line_kept(Bytes line);

// Lets the peak start again at what is resident now; false where the kernel does not allow it.
bool reset_peak_resident();

// Memory that could be taken now: the least of what the machine and every control group above have left, droppable
// page cache included. An estimate: others take memory too.
Bytes available_memory_bytes();

// Free disk space for an ordinary user in the file system of `directory`. Throws Error when it is no directory.
Bytes available_disk_bytes(const std::string& directory);

// True for tmpfs and the like, whose files are memory and count against a control group.
bool is_memory_backed(const std::string& directory);

// Call before threads start: one heap, large blocks mapped apart, freed pages returned at once.
void tame_allocator();

// Returns what the allocator still keeps for later.
void trim_allocator();

}  // namespace plimsoll::memory
