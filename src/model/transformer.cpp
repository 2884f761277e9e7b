// bert-base and the sizes of gpt2. All predict words through the table of their embedding, without ever holding all
// logits.
#include <fmt/format.h>

#include "model/families.h"

namespace plimsoll::model {
namespace {

struct TransformerSizes {
  int64_t words, positions, sequence, layers, width, heads;
  double dropout, epsilon;
  bool norm_first, causal;
  std::string activation;
};

const Init kSmallNormal = Init::normal(0, 0.02);

TransformerSizes sizes_of(ModelSettings& settings, TransformerSizes otherwise) {
  TransformerSizes sizes = std::move(otherwise);
  sizes.words = settings.classes(sizes.words);
  sizes.sequence = settings.sequence(sizes.sequence);
  sizes.layers = settings.layers(sizes.layers);
  sizes.width = settings.width(sizes.width);
  sizes.dropout = settings.dropout(sizes.dropout);
  constexpr int64_t kHeadWidth = 64;
  if (sizes.width % kHeadWidth != 0)
    settings.fail(fmt::format("the width must be a multiple of {} but is {}", kHeadWidth, sizes.width));
  sizes.heads = sizes.width / kHeadWidth;
  if (sizes.sequence > sizes.positions)
    settings.fail(fmt::format("it knows {} positions, so the sequence can't have {}", sizes.positions, sizes.sequence));
  return sizes;
}

Tensor norm(Tensor x, const TransformerSizes& sizes, std::string_view name) {
  return layers::layer_norm(x, {.epsilon = sizes.epsilon}, name);
}

Tensor self_attention(Tensor x, const TransformerSizes& sizes, bool training) {
  x = layers::multi_head_attention(x, sizes.heads, {.causal = sizes.causal, .kernel = kSmallNormal}, "attention");
  return layers::dropout(x, sizes.dropout, training, "attention_dropout");
}

Tensor feed_forward(Tensor x, const TransformerSizes& sizes, bool training) {
  x = layers::dense(x, 4 * sizes.width, {.activation = sizes.activation, .kernel = kSmallNormal}, "fc1");
  x = layers::dense(x, sizes.width, {.kernel = kSmallNormal}, "fc2");
  return layers::dropout(x, sizes.dropout, training, "dropout");
}

// Norms before the branches (GPT-2) or after the sums (BERT).
Tensor block(Tensor x, const TransformerSizes& sizes, bool training) {
  if (sizes.norm_first) {
    x = add(x, self_attention(norm(x, sizes, "norm1"), sizes, training));
    return add(x, feed_forward(norm(x, sizes, "norm2"), sizes, training));
  }
  x = norm(add(x, self_attention(x, sizes, training)), sizes, "norm1");
  return norm(add(x, feed_forward(x, sizes, training)), sizes, "norm2");
}

Tensor blocks(Tensor x, const TransformerSizes& sizes, bool training) {
  for (int64_t i = 1; i <= sizes.layers; ++i) {
    const Scope scope(x.graph(), fmt::format("block{}", i));
    x = block(x, sizes, training);
  }
  return x;
}

// The first rows of a table, added to each sample.
Tensor add_rows(Tensor x, std::string_view table, int64_t rows, int64_t used, const TransformerSizes& sizes) {
  const Tensor all = x.graph().variable(fmt::format("{}/table", table), DType::F32, {rows, sizes.width}, kSmallNormal);
  return add(x, used == rows ? all : slice(all, 0, 0, used));
}

Tensor words_of(Graph& graph, const TransformerSizes& sizes) {
  return graph.variable("words/table", DType::F32, {sizes.words, sizes.width}, kSmallNormal);
}

ModelSpec language_model(const ModelSettings& settings, const TransformerSizes& sizes, int64_t batch, Layer forward) {
  const TensorType tokens{DType::I32, {Dim::batch(), sizes.sequence}};
  ModelSpec spec = make_spec(settings, std::move(forward), tokens, tokens, [=](Tensor hidden, Tensor labels) {
    return Objective{linear_cross_entropy(hidden, words_of(hidden.graph(), sizes), labels, true, "loss"), {}};
  });
  spec.classes = sizes.words;
  spec.batch = batch;
  return spec;
}

ModelSpec gpt2(ModelSettings& settings, int64_t layers, int64_t width, int64_t batch) {
  const TransformerSizes sizes = sizes_of(settings, {.words = 50257,
                                                     .positions = 1024,
                                                     .sequence = 1024,
                                                     .layers = layers,
                                                     .width = width,
                                                     .heads = 0,
                                                     .dropout = 0.1,
                                                     .epsilon = 1e-5,
                                                     .norm_first = true,
                                                     .causal = true,
                                                     .activation = "gelu_tanh"});
  return language_model(settings, sizes, batch, [=](Tensor x, bool training) {
    x = gather(words_of(x.graph(), sizes), x);
    x = add_rows(x, "positions", sizes.positions, sizes.sequence, sizes);
    x = layers::dropout(x, sizes.dropout, training, "dropout");
    return norm(blocks(x, sizes, training), sizes, "norm");
  });
}

}  // namespace

ModelSpec gpt2_small(ModelSettings& settings) { return gpt2(settings, 12, 768, 4); }
ModelSpec gpt2_medium(ModelSettings& settings) { return gpt2(settings, 24, 1024, 1); }
ModelSpec gpt2_large(ModelSettings& settings) { return gpt2(settings, 36, 1280, 1); }
ModelSpec gpt2_xl(ModelSettings& settings) { return gpt2(settings, 48, 1600, 1); }

ModelSpec bert_base(ModelSettings& settings) {
  const TransformerSizes sizes = sizes_of(settings, {.words = 30522,
                                                     .positions = 512,
                                                     .sequence = 128,
                                                     .layers = 12,
                                                     .width = 768,
                                                     .heads = 12,
                                                     .dropout = 0.1,
                                                     .epsilon = 1e-12,
                                                     .norm_first = false,
                                                     .causal = false,
                                                     .activation = "gelu"});
  return language_model(settings, sizes, 16, [=](Tensor x, bool training) {
    x = gather(words_of(x.graph(), sizes), x);
    x = add_rows(x, "positions", sizes.positions, sizes.sequence, sizes);
    x = add_rows(x, "segments", 2, 1, sizes);
    x = layers::dropout(norm(x, sizes, "norm"), sizes.dropout, training, "dropout");
    x = blocks(x, sizes, training);
    x = layers::dense(x, sizes.width, {.activation = sizes.activation, .kernel = kSmallNormal}, "head");
    return norm(x, sizes, "head_norm");
  });
}

}  // namespace plimsoll::model
