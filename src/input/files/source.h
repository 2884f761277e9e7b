// Random access to the samples of one array in a file, straight into the caller's memory.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include <plimsoll/types.h>

namespace plimsoll::input {

// Holds no sample itself. Reading is safe from several threads at once.
class Source {
 public:
  virtual ~Source() = default;
  virtual const std::string& name() const = 0;  // the path it was opened with
  virtual int64_t samples() const = 0;          // at least one
  virtual DType dtype() const = 0;
  virtual const std::vector<int64_t>& sample_shape() const = 0;  // empty when a sample is one number
  virtual Bytes sample_bytes() const = 0;
  virtual uint64_t contents() const = 0;  // hash_sampled, wherever the file lies

  // Samples first .. first + count - 1, one after the other. Throws Error(BadData) when the file no longer has them.
  virtual void read(int64_t first, int64_t count, void* into) const = 0;
};

// The samples of another source, read in another way.
class SourceOver : public Source {
 public:
  explicit SourceOver(std::unique_ptr<Source> from) : from_(std::move(from)) {}
  const std::string& name() const override { return from_->name(); }
  int64_t samples() const override { return from_->samples(); }
  DType dtype() const override { return from_->dtype(); }
  const std::vector<int64_t>& sample_shape() const override { return from_->sample_shape(); }
  Bytes sample_bytes() const override { return from_->sample_bytes(); }
  uint64_t contents() const override { return from_->contents(); }

 protected:
  const Source& inner() const { return *from_; }

 private:
  const std::unique_ptr<Source> from_;
};

struct SourceOptions {
  // Where compressed files are unpacked, once, into a file without a name. Empty: the first of $TMPDIR, /tmp and
  // /var/tmp that lies on a disk, because files in memory would count against the line.
  std::string scratch_dir = {};
};

// Opens idx and npy files, also as .gz, by their content, and an array of an npz archive as "data.npz:name" (or
// "data.npz" when there is but one). 64-bit floats are read as f32. Throws Error(BadData) that
// names the path, the place and what to try; Error(DiskFull) when unpacking needs more space than there is.
std::unique_ptr<Source> open_source(const std::string& path, const SourceOptions& options = {});

// The shape of its samples; of an idx or npy file, also as .gz, only the front is read.
std::vector<int64_t> read_sample_shape(const std::string& path, const SourceOptions& options = {});

}  // namespace plimsoll::input
