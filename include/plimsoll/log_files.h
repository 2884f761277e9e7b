// Callbacks that write the numbers of a training to files while it goes on.
//
//   callbacks = {csv_log("metrics.csv"), event_files("logs")}
//
// A training that is resumed takes the rows of later steps back and goes on. A file that can't be written any more, as
// on a full disk, stops the training after the step or epoch that is under way: the reason is that of the history.
#pragma once

#include <memory>
#include <string>
#include <utility>
#include <vector>

#include <plimsoll/callback.h>

namespace plimsoll {

struct CsvLogOptions {
  bool append = false;  // to the rows of an earlier training
  char separator = ',';
};
// As Keras' CSVLogger: one header, a row for each epoch, the epoch first; "NA" for what was not measured. After a crash
// each row is there as a whole or absent.
std::shared_ptr<Callback> csv_log(const std::string& path, const CsvLogOptions& options = {});

// One JSON object for each epoch, on a line of its own.
std::shared_ptr<Callback> json_log(const std::string& path, bool append = false);

struct EventFilesOptions {
  double seconds_between = 1;    // means of the epoch so far are written this often; 0: after epochs only
  int64_t histogram_epochs = 0;  // distributions of the weights after every so many epochs; 0: none
  std::vector<std::pair<std::string, std::string>> texts = {};  // titles and texts, shown once
};
// For TensorBoard: every number of an epoch, planned and measured memory, distributions of weights, and texts.
std::shared_ptr<Callback> event_files(const std::string& folder, const EventFilesOptions& options = {});

}  // namespace plimsoll
