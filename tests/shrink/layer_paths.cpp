#include "shrink/layer_paths.h"

#include <algorithm>

#include <gtest/gtest.h>

namespace plimsoll::shrink {
namespace {

TEST(LayerPaths, AreThoseOfHuggingFace) {
  const LayerPath value = path_of("gpt2-small", "block12/attention/value");
  EXPECT_EQ(value.module, "transformer.h.11.attn.c_attn");
  EXPECT_EQ(value.shared, "block12/attention");
  EXPECT_EQ(value.part, 2);
  EXPECT_EQ(value.parts, 3);
  EXPECT_EQ(path_of("gpt2-xl", "block1/attention/output").module, "transformer.h.0.attn.c_proj");
  EXPECT_EQ(path_of("gpt2-xl", "block1/fc1").module, "transformer.h.0.mlp.c_fc");
  EXPECT_EQ(path_of("gpt2-xl", "block1/fc2").module, "transformer.h.0.mlp.c_proj");
  const LayerPath query = path_of("bert-base", "block3/attention/query");
  EXPECT_EQ(query.module, "bert.encoder.layer.2.attention.self.query");
  EXPECT_EQ(query.shared, query.own);
  EXPECT_EQ(path_of("bert-base", "block3/attention/output").module, "bert.encoder.layer.2.attention.output.dense");
  EXPECT_EQ(path_of("bert-base", "block3/fc1").module, "bert.encoder.layer.2.intermediate.dense");
  EXPECT_EQ(path_of("bert-base", "block3/fc2").module, "bert.encoder.layer.2.output.dense");
  EXPECT_EQ(path_of("bert-base", "head").module, "cls.predictions.transform.dense");
}

TEST(LayerPaths, OfOtherModelsAreTheirOwn) {
  EXPECT_EQ(path_of("tower", "block1/attention/query").module, "block1.attention.query");
  EXPECT_EQ(path_of("gpt2-small", "block/x").module, "block.x");
  EXPECT_EQ(path_of("gpt2-small", "blocks1/fc1").module, "blocks1.fc1");
}

TEST(LayerPaths, TargetsAreEndsOfPathsOrPatterns) {
  const LayerPath path = path_of("gpt2-small", "block2/attention/query");
  for (const char* target : {"query", "attention/query", "block2/*", "c_attn", "attn.c_attn", "*.h.1.*",
                             "transformer.h.1.attn.c_attn", "block2/attention/query"})
    EXPECT_TRUE(is_target(path, target)) << target;
  for (const char* target : {"uery", "attn", "block1/*", "", "c_proj", "key"})
    EXPECT_FALSE(is_target(path, target)) << target;
}

TEST(LayerPaths, ProductsOfAModel) {
  const std::vector<WeightProduct> products =
      list_products(find_model("gpt2-small", {.classes = 50, .sequence = 8, .layers = 2, .width = 64}));
  ASSERT_EQ(products.size(), 12U);
  EXPECT_EQ(products[0].weight, "gpt2-small/block1/attention/query/kernel");
  const auto wide = std::ranges::find(products, "block2/fc1", [](const WeightProduct& p) { return p.path.own; });
  ASSERT_NE(wide, products.end());
  EXPECT_EQ(wide->inputs, 64);
  EXPECT_EQ(wide->outputs, 256);
}

}  // namespace
}  // namespace plimsoll::shrink
