#include <plimsoll/model.h>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <plimsoll/error.h>

namespace plimsoll {
namespace {

using ::testing::HasSubstr;

struct Known {
  const char* name;
  int64_t weights;
  const char* answer;
};

// For tests that print the parameter.
void PrintTo(const Known& known, std::ostream* out) { *out << known.name; }

class Zoo : public ::testing::TestWithParam<Known> {};

TEST_P(Zoo, HasTheNumberOfWeightsOfTheOriginal) {
  const ModelSpec spec = find_model(GetParam().name);
  Graph graph;
  const Tensor x = graph.placeholder("x", spec.input().dtype, spec.input().shape);
  const Tensor answer = spec.model(x, true);
  EXPECT_EQ(count_weights(graph), GetParam().weights);
  EXPECT_EQ(to_string(answer.type()), GetParam().answer);
}

TEST(Zoo, SizesThatALayerCantHaveAreMisuse) {
  const ModelSpec spec = find_model("vgg16", {.image_size = 7});
  Graph graph;
  const Tensor x = graph.placeholder("x", spec.input().dtype, spec.input().shape);
  try {
    spec.model(x, true);
    ADD_FAILURE() << "7 pixels were pooled five times";
  } catch (const Error& e) {
    EXPECT_EQ(e.kind(), ErrorKind::Usage);
    EXPECT_THAT(e.what(), HasSubstr("model 'vgg16' can't have these sizes: "));
  }
}

INSTANTIATE_TEST_SUITE_P(
    Models, Zoo,
    ::testing::Values(Known{"mlp", 669706, "f32[B,10]"}, Known{"lenet", 61706, "f32[B,10]"},
                      Known{"resnet18", 11689512, "f32[B,1000]"}, Known{"resnet50", 25557032, "f32[B,1000]"},
                      Known{"mobilenet_v2", 3504872, "f32[B,1000]"}, Known{"vgg16", 138357544, "f32[B,1000]"},
                      Known{"unet", 31031810, "f32[B,256,256,2]"}, Known{"bert-base", 109483776, "f32[B,128,768]"},
                      Known{"gpt2-small", 124439808, "f32[B,1024,768]"},
                      Known{"gpt2-medium", 354823168, "f32[B,1024,1024]"},
                      Known{"gpt2-large", 774030080, "f32[B,1024,1280]"},
                      Known{"gpt2-xl", 1557611200, "f32[B,1024,1600]"}, Known{"dense-chain", 50500000, "f32[B,100]"}));

TEST(ZooNames, NearestIsOffered) {
  try {
    find_model("resnet51");
    FAIL();
  } catch (const Error& error) {
    EXPECT_THAT(error.what(), HasSubstr("no model 'resnet51'; did you mean resnet50? Known are mlp, lenet"));
    EXPECT_EQ(error.kind(), ErrorKind::Usage);
  }
}

TEST(ZooDefaults, TheLargerSizesOfGpt2TakeOneSampleOfAllPositions) {
  for (const char* name : {"gpt2-medium", "gpt2-large", "gpt2-xl"}) {
    const ModelSpec spec = find_model(name);
    EXPECT_EQ(spec.batch, 1) << name;
    EXPECT_EQ(to_string(spec.input()), "i32[B,1024]") << name;
  }
  EXPECT_EQ(find_model("gpt2-small").batch, 4);
}

TEST(ZooOptions, ChangeSizes) {
  const ModelSpec spec = find_model("resnet18", {.image_size = 32, .channels = 1, .classes = 7});
  EXPECT_EQ(to_string(spec.input()), "f32[B,1,32,32]");
  EXPECT_EQ(spec.classes, 7);
  Graph graph;
  EXPECT_EQ(to_string(spec.model(graph.placeholder("x", spec.input().dtype, spec.input().shape)).type()), "f32[B,7]");
}

TEST(ZooOptions, RefuseWhatAModelDoesNotHave) {
  const auto message_of = [](std::string_view name, const ModelOptions& options) -> std::string {
    try {
      find_model(name, options);
    } catch (const Error& error) {
      return error.what();
    }
    return "no error";
  };
  EXPECT_EQ(message_of("resnet50", {.sequence = 128}), "model 'resnet50': its sequence length can't be set");
  EXPECT_EQ(message_of("mlp", {.classes = 0}), "model 'mlp': classes must be positive but is 0");
  EXPECT_THAT(message_of("gpt2-small", {.sequence = 2048}), HasSubstr("1024 positions"));
  EXPECT_THAT(message_of("gpt2-xl", {.sequence = 1025}), HasSubstr("1024 positions"));
  EXPECT_THAT(message_of("gpt2-large", {.width = 1000}), HasSubstr("multiple of 64"));
  EXPECT_THAT(message_of("unet", {.image_size = 100}), HasSubstr("can't be 100"));
}

}  // namespace
}  // namespace plimsoll
