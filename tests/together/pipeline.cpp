// Layers on ranks: threads with a line of their own give the bits of one process with the same micro-batches.
#include "train/pipeline.h"

#include <map>
#include <thread>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "input/opening/roles.h"
#include "plan/check/exchanges.h"
#include "support/error_of.h"
#include "train/loop.h"
#include "train/small_data.h"

namespace plimsoll::together {
namespace {

using testing::error_of;
using ::testing::HasSubstr;
using testing::small_spec;
using testing::SmallData;

// Samples of any model: small reals, and whole numbers below the number of classes.
Dataset synthetic_batches(const ModelSpec& model, int64_t batch, int64_t samples) {
  std::vector<NamedArray> arrays;
  const std::vector<TensorType> types = input::component_types(model);
  const std::vector<std::string> names = input::component_names(model);
  for (size_t i = 0; i < types.size(); ++i) {
    const Dims dims = at_batch(types[i].shape, samples);
    const auto count = static_cast<size_t>(element_count(dims));
    const auto add = [&]<class T>(T) {
      const auto numbers = std::make_shared<std::vector<T>>(count);
      for (size_t k = 0; k < count; ++k)
        if constexpr (std::is_same_v<T, float>)
          (*numbers)[k] = std::sin(static_cast<float>(k * k % 997));
        else
          (*numbers)[k] = static_cast<T>(k * (k + 3) % 1009 % static_cast<size_t>(model.classes));
      arrays.emplace_back(names[i], types[i].dtype, dims, numbers->data(), static_cast<Bytes>(count * sizeof(T)),
                          numbers);
    };
    types[i].dtype == DType::I32 ? add(int32_t{}) : add(float{});
  }
  return Dataset::slices(arrays).batch(batch, true);
}

// What a training leaves behind, by the name of the variable.
struct Trained {
  std::map<std::string, std::vector<std::byte>> variables;
  std::vector<double> losses;  // of each epoch
  std::vector<double> val_losses;
};

void keep_variables(train::Training& training, Trained& to) {
  for (const graph::Variable& variable : training.graph.body().variables()) {
    if (variable.role() == VariableRole::Gradient) continue;
    std::vector<std::byte>& bytes = to.variables[variable.stored->name];
    std::vector<std::byte> own;
    training.session->read({training.graph, variable.value}, [&](std::span<const std::byte> piece) {
      own.insert(own.end(), piece.begin(), piece.end());
    });
    EXPECT_TRUE(bytes.empty() || bytes == own) << variable.stored->name << " differs between two ranks that have it";
    bytes = std::move(own);
  }
}

std::unique_ptr<train::Training> make_rank(train::Spec spec, std::shared_ptr<ranks::Communicator> communicator,
                                           Bytes line = GiB) {
  spec.communicator = std::move(communicator);
  spec.threads = 1;
  spec.own_line.emplace(line);
  spec.line = 0;
  return train::make_training(spec);
}

// The smallest line that its refusal names.
Bytes smallest_line(const train::Spec& spec, const std::shared_ptr<ranks::Communicator>& communicator) {
  try {
    make_rank(spec, communicator, 64 * KiB);
  } catch (const DoesNotFit& e) {
    return e.refusal().smallest_line;
  }
  return 0;
}

enum class Line { Wide, Smallest };

Trained train_one(const train::Spec& spec, const std::shared_ptr<ranks::Communicator>& communicator, int64_t epochs,
                  Line line = Line::Wide, int64_t validation_steps = 0) {
  const auto training = make_rank(spec, communicator, line == Line::Wide ? GiB : smallest_line(spec, communicator));
  train::TrainingLoop loop(*training, {.epochs = epochs, .validation_steps = validation_steps});
  loop.open();
  const History history = loop.run();
  Trained trained;
  keep_variables(*training, trained);
  trained.losses = history["loss"];
  if (spec.data.test || spec.batches.test) trained.val_losses = history["val_loss"];
  return trained;
}

// All ranks as threads; throws the error of the first that failed.
Trained train_pipeline(const train::Spec& spec, int64_t epochs, Line line = Line::Wide, int64_t validation_steps = 0) {
  const auto count = static_cast<int>(spec.stages.first_layers.size()) + 1;
  const auto ranks = ranks::make_replicas(count, std::chrono::seconds(60));
  std::vector<Trained> trained(ranks.size());
  std::vector<std::string> errors(ranks.size());
  std::vector<std::thread> threads;
  for (size_t i = 0; i < ranks.size(); ++i)
    threads.emplace_back([&, i] {
      try {
        trained[i] = train_one(spec, ranks[i], epochs, line, validation_steps);
      } catch (const Error& e) {
        errors[i] = e.what();
        ranks[i]->abort(e.what(), e.exit_code());
      }
    });
  for (std::thread& thread : threads) thread.join();
  for (const std::string& error : errors)
    if (!error.empty()) throw Error(error);
  for (size_t i = 1; i < trained.size(); ++i) {
    EXPECT_EQ(trained[i].losses, trained[0].losses) << "all ranks are told the same";
    for (auto& [name, bytes] : trained[i].variables) {
      const auto [at, is_first] = trained[0].variables.emplace(name, bytes);
      EXPECT_EQ(at->second, bytes) << name << " on rank " << i;
    }
  }
  return trained[0];
}

void expect_same_bits(const Trained& several, const Trained& one) {
  EXPECT_EQ(several.losses, one.losses);
  EXPECT_EQ(several.val_losses, one.val_losses);
  ASSERT_EQ(several.variables.size(), one.variables.size());
  for (const auto& [name, bytes] : one.variables) {
    ASSERT_TRUE(several.variables.contains(name)) << name;
    EXPECT_EQ(several.variables.at(name), bytes) << name;
  }
}

train::Spec small_model(const char* name, const ModelOptions& options, int64_t batch) {
  train::Spec spec;
  spec.model = name;
  spec.model_options = options;
  spec.batch = batch;
  spec.batches.train = synthetic_batches(find_model(name, options), batch, 3 * batch);
  spec.batches.test = synthetic_batches(find_model(name, options), batch, batch);
  return spec;
}

TEST(TrainPipeline, OfAnMlpHasTheBitsOfOneProcess) {
  const SmallData data(64, 21);
  train::Spec spec = data.spec();
  spec.stages.micro_batches = 4;
  const Trained one = train_one(spec, nullptr, 3);
  spec.stages.first_layers = {"fc2"};
  expect_same_bits(train_pipeline(spec, 3), one);
  spec.stages.first_layers = {"fc2", "head"};
  expect_same_bits(train_pipeline(spec, 3), one);
}

TEST(TrainPipeline, ValidatesWithDataOfUnknownLength) {
  train::Spec spec = small_model("mlp", {.classes = 3, .width = 8}, 8);
  spec.stages.micro_batches = 4;
  const Dataset test = *spec.batches.test;
  for (const bool has_end : {false, true}) {
    SCOPED_TRACE(has_end ? "filtered" : "without an end");
    spec.batches.test = has_end ? test.repeat(3).filter([](const ElementView&) { return true; }) : test.repeat();
    spec.stages.first_layers = {};
    const int64_t steps = has_end ? 0 : 3;
    const Trained one = train_one(spec, nullptr, 2, Line::Wide, steps);
    EXPECT_EQ(one.val_losses.size(), 2U);
    spec.stages.first_layers = {"fc2"};
    expect_same_bits(train_pipeline(spec, 2, Line::Wide, steps), one);
  }
}

TEST(TrainPipeline, IsCloseToOneProcessWithoutMicroBatches) {
  const SmallData data(64, 21);
  train::Spec spec = data.spec();
  spec.optimiser = Optimiser::sgd(0.1);
  const Trained plain = train_one(spec, nullptr, 3);
  spec.stages = {{"fc2"}, 4};
  const Trained several = train_pipeline(spec, 3);
  ASSERT_EQ(several.losses.size(), plain.losses.size());
  for (size_t i = 0; i < plain.losses.size(); ++i)
    EXPECT_NEAR(several.losses[i], plain.losses[i], 1e-4 * plain.losses[i]);
  for (size_t i = 0; i < plain.losses.size(); ++i)
    EXPECT_NEAR(several.val_losses[i], plain.val_losses[i], 1e-4 * plain.val_losses[i]);
}

TEST(TrainPipeline, OfConvolutionsHasTheBitsOfOneProcess) {
  train::Spec spec = small_model("lenet", {}, 8);
  spec.stages.micro_batches = 4;
  const Trained one = train_one(spec, nullptr, 1);
  spec.stages.first_layers = {"conv2"};
  expect_same_bits(train_pipeline(spec, 1), one);
  spec.stages.first_layers = {"conv2", "fc1", "head"};
  expect_same_bits(train_pipeline(spec, 1), one);
}

TEST(TrainPipeline, OfATransformerHasTheBitsOfOneProcess) {
  train::Spec spec = small_model("bert-base", {.classes = 50, .sequence = 8, .layers = 4, .width = 64}, 8);
  spec.optimiser.global_clip_norm = 0.5;
  spec.stages.micro_batches = 4;
  const Trained one = train_one(spec, nullptr, 1);
  spec.stages.first_layers = {"block3"};
  expect_same_bits(train_pipeline(spec, 1), one);
  spec.stages.first_layers = {"block2", "block3", "block4"};
  expect_same_bits(train_pipeline(spec, 1), one);
}

// Skips from the way down to the way up go through the ranks between; batch norm has statistics.
TEST(TrainPipeline, PassesSkipsAndKeepsStatistics) {
  train::Spec spec = small_model("unet", {.image_size = 16, .channels = 1, .classes = 2, .width = 4}, 4);
  spec.stages.micro_batches = 2;
  const Trained one = train_one(spec, nullptr, 1);
  spec.stages.first_layers = {"bottom", "up1"};
  expect_same_bits(train_pipeline(spec, 1), one);

  spec = small_model("mobilenet_v2", {.image_size = 32, .classes = 3}, 4);
  spec.optimiser = Optimiser::sgd(0.01);
  spec.stages.micro_batches = 2;
  const Trained of_norms = train_one(spec, nullptr, 1);
  spec.stages.first_layers = {"block8"};
  expect_same_bits(train_pipeline(spec, 1), of_norms);
}

TEST(TrainPipeline, LeavesFrozenWeightsAlone) {
  train::Spec spec = small_model("lenet", {}, 8);
  spec.freeze.patterns = {"lenet/conv*"};  // the first stage has nothing to train, and gets no gradients
  spec.stages.micro_batches = 2;
  const Trained one = train_one(spec, nullptr, 1);
  spec.stages.first_layers = {"fc1"};
  expect_same_bits(train_pipeline(spec, 1), one);
}

TEST(TrainPipeline, HasTheSameBitsUnderTheSmallestLines) {
  train::Spec spec = small_model("bert-base", {.classes = 50, .sequence = 64, .layers = 4, .width = 64}, 16);
  spec.stages = {{"block3"}, 4};
  const Trained wide = train_pipeline(spec, 1);
  expect_same_bits(train_pipeline(spec, 1, Line::Smallest), wide);
  const auto ranks = ranks::make_replicas(2);
  for (const auto& rank : ranks) {
    const auto tight = make_rank(spec, rank, smallest_line(spec, rank));
    EXPECT_LT(tight->session->arena_bytes(), make_rank(spec, rank)->session->arena_bytes()) << rank->rank();
  }
}

// One forward, one backward: more micro-batches of the same size take no more activations.
TEST(TrainPipeline, HoldsFewMicroBatchesAtOnce) {
  const auto ranks = ranks::make_replicas(2);
  const auto arena_of = [&](int64_t micro_batches, size_t rank) {
    train::Spec spec = small_model("lenet", {}, 16 * micro_batches);
    spec.stages = {{"conv2"}, micro_batches};
    return make_rank(spec, ranks[rank])->session->arena_bytes();
  };
  for (size_t rank = 0; rank < 2; ++rank) {
    const Bytes images = 16 * 28 * 28 * Bytes{sizeof(float)} + KiB;  // of a micro-batch, with its labels
    const Bytes eight = arena_of(8, rank), sixteen = arena_of(16, rank);
    EXPECT_LE(sixteen - eight, 8 * images) << "rank " << rank << ": " << eight << " and " << sixteen << " bytes";
  }
}

TEST(TrainPipeline, ExchangesMeet) {
  train::Spec spec = small_model("bert-base", {.classes = 50, .sequence = 8, .layers = 4, .width = 64}, 8);
  spec.optimiser.global_clip_norm = 0.5;
  spec.stages = {{"block2", "block3", "block4"}, 8};
  std::vector<std::string> lists;
  for (const auto& rank : ranks::make_replicas(4)) {
    const auto training = make_rank(spec, rank);
    lists.emplace_back();
    for (const session::PlannedStep& step : training->session->steps())
      lists.back() += plan::list_exchanges(step.program.problem, step.plan);
  }
  EXPECT_EQ(plan::find_unmatched(lists), "");
  lists[2].erase(0, lists[2].find('\n') + 1);
  EXPECT_NE(plan::find_unmatched(lists), "");
}

TEST(TrainPipeline, ThatCanNotBeIsRefused) {
  const auto ranks = ranks::make_replicas(2);
  const auto refusal = [&](const auto& change) {
    train::Spec spec = small_spec();
    spec.stages = {{"fc2"}, 4};
    change(spec);
    return error_of([&] { make_rank(spec, ranks[1]); });
  };
  EXPECT_THAT(refusal([](train::Spec& spec) { spec.stages.first_layers.clear(); }),
              HasSubstr("a pipeline of 1 stage needs 1 rank, one for each, and there are 2"));
  EXPECT_THAT(refusal([](train::Spec& spec) { spec.stages.micro_batches = 3; }), HasSubstr("try a batch of 9"));
  EXPECT_THAT(refusal([](train::Spec& spec) { spec.shards = 2; }), HasSubstr("not shards"));
  EXPECT_THAT(refusal([](train::Spec& spec) { spec.accumulate = 2; }), HasSubstr("can't be combined with a pipeline"));
  EXPECT_THAT(refusal([](train::Spec& spec) { spec.optimiser.scales_loss = true; }), HasSubstr("can't scale its loss"));
  EXPECT_THAT(refusal([](train::Spec& spec) { spec.purpose = train::Purpose::Profile; }), HasSubstr("trains alone"));
}

}  // namespace
}  // namespace plimsoll::together
