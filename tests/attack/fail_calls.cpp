// Loaded before the program (LD_PRELOAD): makes the Nth call of one kind fail, as a bad disk or a full machine would.
//   PLIMSOLL_FAIL=write:3:ENOSPC      the third write fails, and no other
//   PLIMSOLL_FAIL=write:3:ENOSPC:on   and all that follow it
//   PLIMSOLL_FAIL_COUNTS=FILE         gets "CALL COUNT" lines when the program ends
// Only calls from the program itself count, not those that libraries make.
#include <dlfcn.h>
#include <fcntl.h>
#include <link.h>
#include <pthread.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <atomic>
#include <cerrno>
#include <cstdarg>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>

namespace {

enum Call { Open, Read, Write, Sync, Rename, Map, Allocate, Thread, Calls };
constexpr const char* kNames[Calls] = {"open", "read", "write", "fsync", "rename", "mmap", "fallocate", "thread"};

struct Fault {
  int call = -1;
  int64_t number = 0;
  int reason = 0;
  bool goes_on = false;
};

Fault fault;
std::atomic<int64_t> counts[Calls];
uintptr_t program_begin = UINTPTR_MAX, program_end = 0;

int find_program(dl_phdr_info* info, size_t, void*) {
  for (int i = 0; i < info->dlpi_phnum; ++i) {
    const auto& part = info->dlpi_phdr[i];
    if (part.p_type != PT_LOAD) continue;
    const uintptr_t begin = info->dlpi_addr + part.p_vaddr;
    if (begin < program_begin) program_begin = begin;
    if (begin + part.p_memsz > program_end) program_end = begin + part.p_memsz;
  }
  return 1;  // the first is the program
}

void parse_fault(const char* text) {
  char call[32], reason[32], on[8] = "";
  long long number = 0;
  if (std::sscanf(text, "%31[^:]:%lld:%31[^:]:%7s", call, &number, reason, on) < 3) return;
  constexpr struct {
    const char* name;
    int value;
  } kReasons[] = {{"EIO", EIO}, {"ENOSPC", ENOSPC}, {"EINTR", EINTR}, {"ENOMEM", ENOMEM}, {"EAGAIN", EAGAIN}};
  for (const auto& known : kReasons)
    if (std::strcmp(known.name, reason) == 0) fault.reason = known.value;
  for (int i = 0; i < Calls; ++i)
    if (std::strcmp(kNames[i], call) == 0) fault.call = i;
  fault.number = number;
  fault.goes_on = std::strcmp(on, "on") == 0;
}

__attribute__((constructor)) void start() {
  ::dl_iterate_phdr(find_program, nullptr);
  if (const char* text = std::getenv("PLIMSOLL_FAIL")) parse_fault(text);
}

__attribute__((destructor)) void finish() {
  const char* const path = std::getenv("PLIMSOLL_FAIL_COUNTS");
  if (path == nullptr) return;
  const auto file = static_cast<int>(::syscall(SYS_openat, AT_FDCWD, path, O_WRONLY | O_CREAT | O_TRUNC, 0644));
  for (int i = 0; i < Calls; ++i) {
    char line[64];
    const int length = std::snprintf(line, sizeof line, "%s %lld\n", kNames[i], static_cast<long long>(counts[i]));
    if (::syscall(SYS_write, file, line, length) != length) break;
  }
  ::syscall(SYS_close, file);
}

bool fails(Call call, const void* caller) {
  const auto from = reinterpret_cast<uintptr_t>(caller);
  if (from < program_begin || from >= program_end) return false;
  const int64_t number = ++counts[call];
  if (call != fault.call || (fault.goes_on ? number < fault.number : number != fault.number)) return false;
  errno = fault.reason;
  return true;
}

template <class Function>
Function real(Function, const char* name) {
  return reinterpret_cast<Function>(::dlsym(RTLD_NEXT, name));
}

}  // namespace

#define CALLER __builtin_return_address(0)
// Calls the function of that name that the program would have called.
#define PASS_ON(name, ...)                           \
  static const auto function = real(&::name, #name); \
  return function(__VA_ARGS__)

extern "C" {

int open(const char* path, int flags, ...) {
  va_list list;
  va_start(list, flags);
  const mode_t mode = va_arg(list, mode_t);
  va_end(list);
  if (fails(Open, CALLER)) return -1;
  PASS_ON(open, path, flags, mode);
}

int openat(int folder, const char* path, int flags, ...) {
  va_list list;
  va_start(list, flags);
  const mode_t mode = va_arg(list, mode_t);
  va_end(list);
  if (fails(Open, CALLER)) return -1;
  PASS_ON(openat, folder, path, flags, mode);
}

int mkostemp(char* name, int flags) {
  if (fails(Open, CALLER)) return -1;
  PASS_ON(mkostemp, name, flags);
}

ssize_t read(int file, void* into, size_t bytes) {
  if (fails(Read, CALLER)) return -1;
  PASS_ON(read, file, into, bytes);
}

ssize_t pread(int file, void* into, size_t bytes, off_t at) {
  if (fails(Read, CALLER)) return -1;
  PASS_ON(pread, file, into, bytes, at);
}

ssize_t write(int file, const void* from, size_t bytes) {
  if (fails(Write, CALLER)) return -1;
  PASS_ON(write, file, from, bytes);
}

ssize_t pwrite(int file, const void* from, size_t bytes, off_t at) {
  if (fails(Write, CALLER)) return -1;
  PASS_ON(pwrite, file, from, bytes, at);
}

int fsync(int file) {
  if (fails(Sync, CALLER)) return -1;
  PASS_ON(fsync, file);
}

int fdatasync(int file) {
  if (fails(Sync, CALLER)) return -1;
  PASS_ON(fdatasync, file);
}

int rename(const char* from, const char* to) noexcept {
  if (fails(Rename, CALLER)) return -1;
  PASS_ON(rename, from, to);
}

void* mmap(void* address, size_t bytes, int protection, int flags, int file, off_t at) noexcept {
  if (fails(Map, CALLER)) return MAP_FAILED;
  PASS_ON(mmap, address, bytes, protection, flags, file, at);
}

int madvise(void* address, size_t bytes, int advice) noexcept {
  if (fails(Map, CALLER)) return -1;
  PASS_ON(madvise, address, bytes, advice);
}

int mprotect(void* address, size_t bytes, int protection) noexcept {
  if (fails(Map, CALLER)) return -1;
  PASS_ON(mprotect, address, bytes, protection);
}

int ftruncate(int file, off_t bytes) noexcept {
  if (fails(Allocate, CALLER)) return -1;
  PASS_ON(ftruncate, file, bytes);
}

int fallocate(int file, int mode, off_t at, off_t bytes) {
  if (fails(Allocate, CALLER)) return -1;
  PASS_ON(fallocate, file, mode, at, bytes);
}

int pthread_create(pthread_t* thread, const pthread_attr_t* settings, void* (*run)(void*), void* argument) noexcept {
  if (fails(Thread, CALLER)) return errno;
  PASS_ON(pthread_create, thread, settings, run, argument);
}

}  // extern "C"
