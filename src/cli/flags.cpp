#include "cli/flags.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "cli/adapt_flags.h"
#include "cli/flag_rules.h"
#include "cli/help.h"
#include "cli/usage.h"

namespace plimsoll::cli {
namespace {

void add_array_files(CLI::App& app, Arguments& s, bool trains) {
  const auto add = [&](const char* flag, std::string& path, const char* what) {
    declare(app, app.add_option(flag, path, what)->option_text("FILE"), {.path = PathUse::Reads});
  };
  if (trains) {
    add("--train-x", s.train_x, "Training inputs: idx(.gz) or npy(.gz)");
    add("--train-y", s.train_y, "Training labels");
  }
  add("--test-x", s.test_x, "Test inputs: idx(.gz) or npy(.gz)");
  add("--test-y", s.test_y, "Test labels");
}

}  // namespace

void add_output(CLI::App& app, Arguments& s) {
  start_group(app, kRunGroup);
  app.add_flag("--json", s.json, "JSON on standard output");
}

void add_memory(CLI::App& app, Arguments& s) {
  start_group(app, kMemoryGroup);
  app.add_option("-m,--memory", s.memory, "The line: 512MiB, 1G (= 1GiB), 1.5GB, 80%. Default: what the machine allows")
      ->option_text("SIZE");
}

void add_scratch(CLI::App& app, Arguments& s, const char* what) {
  app.add_option("--scratch", s.scratch, what)->option_text("DIR");
}

// Flags of every plan, of training, of evaluation and of prediction.
void add_line(CLI::App& app, Arguments& s) {
  add_memory(app, s);
  add_scratch(app, s, "Folder on a disk for what does not fit. Also for temporary files");
  start_group(app, kMemoryGroup, Listing::Rare);
  app.add_option("--disk-limit", s.disk_limit,
                 "Most bytes of the scratch file: 20GiB, 50% (default: the free disk space less 1 GiB)")
      ->option_text("SIZE");
  app.add_option(
         "--without", s.without,
         "Levers to switch off: order,in-place,variants,recompute,micro-batch,spill,masks; none switches all on")
      ->multi_option_policy(CLI::MultiOptionPolicy::TakeAll)
      ->delimiter(',')
      ->option_text("LEVER,...");
  app.add_option("--threads", s.threads, "Threads (default: all); results do not depend on it")->check(thread_number());
  app.add_flag("--no-remedies", s.no_remedies,
               "When it does not fit, name the smallest line only and search no other flags");
}

// Flags that make a training fit; inference has only those of add_line.
void add_training_line(CLI::App& app, Arguments& s) {
  add_line(app, s);
  start_group(app, kMemoryGroup);
  app.add_option("--policy", s.policy, "Lossy: mixed_bfloat16, mixed_float16 or stored_bfloat16")->option_text("NAME");
  start_group(app, kMemoryGroup, Listing::Rare);
  app.add_option("--split", s.split,
                 "Changes results: batch_norm normalises each micro-batch on its own, so that it does not forbid "
                 "micro-batches")
      ->delimiter(',')
      ->option_text("OPERATOR,...");
  app.add_option("--half-storage", s.half_storage,
                 "Lossy: keep values,state (activations; optimiser state) in 16 bits between uses")
      ->multi_option_policy(CLI::MultiOptionPolicy::TakeAll)
      ->delimiter(',')
      ->option_text("WHAT,...");
  app.add_option("--state-bits", s.state_bits,
                 "Lossy: keep an element of the optimiser's state in 16 or 8 bits (8: adam alone)")
      ->check(CLI::IsMember({32, 16, 8}));
}

void add_batch(CLI::App& app, Arguments& s) {
  start_group(app, kStepGroup);
  app.add_option("-b,--batch", s.batch, "Samples in a step (default: the model's)");
}

void add_auto_batch(CLI::App& app, Arguments& s) {
  start_group(app, kMemoryGroup, Listing::Rare);
  app.add_flag("--auto-batch", s.auto_batch,
               "Use the largest batch, up to --batch, that fits the line without micro-batches");
}

void add_optimiser(CLI::App& app, Arguments& s) {
  start_group(app, kStepGroup);
  // The help fits a screen; a name that is not known is answered with all of them.
  app.add_option("--optimizer,--optimiser", s.optimiser,
                 fmt::format("sgd, adam, adamw, lion, muon, {} more", Optimiser::names().size() - 5))
      ->capture_default_str()
      ->option_text("NAME");
}

void add_model(CLI::App& app, Arguments& s, const char* also) {
  auto* model = app.add_option("model", s.model,
                               fmt::format("Built-in{}, or a directory: {}", also, fmt::join(model_names(), ", ")));
  declare(app, model->required(), {.path = PathUse::Reads});
  start_group(app, kStepGroup, Listing::Rare);
  app.add_option("--image-size", s.model_options.image_size, "Height and width of the image");
  app.add_option("--channels", s.model_options.channels, "Channels of the image");
  app.add_option("--classes", s.model_options.classes, "Classes, or words");
  app.add_option("--sequence", s.model_options.sequence, "Positions of a sequence");
  app.add_option("--layers", s.model_options.layers, "Layers");
  app.add_option("--width", s.model_options.width, "Units of a layer");
}

// Flags of a training step besides the model. A plan does not depend on the learning rate: `plan` accepts the flag, so
// that a `train` command line can be reused, and does not list it.
void add_training(CLI::App& app, Arguments& s, bool lists_rate) {
  add_optimiser(app, s);
  auto* rate = app.add_option("--lr", s.learning_rate, "Learning rate (default: of --weights, or the optimiser's)");
  if (!lists_rate) rate->group("");
  start_group(app, kStepGroup, Listing::Rare);
  app.add_option("--accumulate", s.accumulate, "Batches whose gradients are added up for each update (default: 1)");
  app.add_option("--prune", s.prune,
                 "Make weights zero while training, by steps: to=0.5, or from=0.5,to=0.8,begin=1000,end=10000. Also "
                 "frequency=100, power=3, block=4x1, pool=largest, layers=NAME:NAME, two-of-four")
      ->option_text("KEY=...");
  declare(app, app.add_option("--dropout", s.model_options.dropout, "Dropout rate"), from(0));
  declare(app, app.add_option("--momentum", s.momentum, "Momentum of sgd and rmsprop"), from(0));
  app.add_option("--clip", s.global_clip_norm, "Clip gradients to this global norm");
  add_freeze_flags(app, s);
  add_adapter_flags(app, s);
}

void add_config(CLI::App& app, Arguments& s) {
  start_group(app, kRunGroup);
  auto* config = app.add_option("--config", s.config, "Options by names of flags in a JSON file; flags count more");
  declare(app, config->option_text("FILE"), {.path = PathUse::Reads});
}

// A training step that is planned but not trained with.
void add_planned_step(CLI::App& app, Arguments& s) {
  add_model(app, s);
  add_batch(app, s);
  add_training(app, s, false);
  add_training_line(app, s);
  add_auto_batch(app, s);
  add_config(app, s);
}

void add_data(CLI::App& app, Arguments& s, bool trains) {
  const FlagRule of_data{.needs = {"data|train-x|test-x"}};
  start_group(app, kDataGroup);
  auto* data =
      app.add_option("--data", s.data,
                     "Images, arrays or TFRecords in a folder; CSV, npz or list. "
                     "Each sub-folder of images is a class, a list has a path and a label on each line; parts named "
                     "train and test are the halves of the data");
  declare(app, data->option_text("PATH"), {.path = PathUse::ReadsData});
  if (trains) {
    auto* validation = app.add_option("--val", s.validation,
                                      "Data to validate with after each epoch. Default: the test half of --data");
    declare(app, validation->option_text("PATH"), {.needs = of_data.needs, .path = PathUse::ReadsData});
  }
  start_group(app, kDataGroup, Listing::Rare);
  auto* label = app.add_option("--label", s.label,
                               "Column, feature or array with the labels (default: by its name, else the last)");
  declare(app, label->option_text("NAME"), of_data);
  auto* map =
      app.add_option(
             "--map", s.map,
             "Images: resize[:bilinear|area|none] to the model's input, crop[:0.875] the middle part first, flip "
             "half of the training images, normalise[:MEAN:DEVIATION] (default: of ImageNet for three channels, "
             "else 0.5:0.5)")
          ->multi_option_policy(CLI::MultiOptionPolicy::TakeAll)
          ->delimiter(',')
          ->option_text("WHAT,...");
  if (trains) declare(app, map, of_data);
  auto* corrupt =
      app.add_option("--on-corrupt", s.on_corrupt,
                     "At a sample that can't be read: stop, or skip:N to pass over at most N an epoch (default: stop)");
  declare(app, corrupt->option_text("stop|skip:N"), of_data);
  auto* threads = app.add_option(
      "--data-threads", s.data_threads,
      "Threads that read and decode images, CSV and TFRecord files, each with memory of its own (default: the "
      "one that fills batches)");
  declare(app, threads->check(thread_number()), of_data);
  if (trains) {
    auto* window = app.add_option("--shuffle", s.shuffle_window,
                                  "Shuffle training samples within a window of so many (default: among all)");
    declare(app, window, of_data);
    auto* order = app.add_flag("--no-shuffle", s.no_shuffle, "Training samples in the order of the data");
    declare(app, order, {.needs = of_data.needs, .contradicts = {"shuffle"}});
  }
  add_array_files(app, s, trains);
}

// Flags of a run of many steps.
void add_run(CLI::App& app, Arguments& s, const char* save_model) {
  start_group(app, kRunGroup);
  app.add_option("-e,--epochs", s.epochs, "Epochs")->capture_default_str();
  auto* save = app.add_option("--save", s.save, "Write the weights to this file (safetensors)")->option_text("FILE");
  declare(app, save, {.path = PathUse::WritesFile, .may_replace = {"weights"}});
  auto* model = app.add_option(save_model, s.save_model,
                               "Write the model to this directory. It holds graph, weights, names of classes");
  declare(app, model->option_text("DIR"), {.path = PathUse::WritesModel, .may_replace = {"model", "weights"}});
  start_group(app, kRunGroup, Listing::Rare);
  declare(app, app.add_option("--steps", s.steps, "Stop after so many steps; 0: after whole epochs"), from(0));
  auto* seed = app.add_option("--seed", s.seed, "Seed of initial weights, dropout and shuffling");
  declare(app, seed->capture_default_str(), from(0));
  app.add_option("--progress", s.progress, "auto, bar, line, json, none")->capture_default_str()->option_text("FORM");
}

void add_weights(CLI::App& app, Arguments& s) {
  start_group(app, kRunGroup);
  auto* weights = app.add_option("--weights", s.weights, "The weights (default: those of a stored model)");
  declare(app, weights->option_text("FILE"), {.path = PathUse::Reads});
}

}  // namespace plimsoll::cli
