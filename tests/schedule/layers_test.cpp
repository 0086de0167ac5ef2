// SPDX-License-Identifier: Apache-2.0
#include "schedule/layers.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "base/error.hpp"
#include "schedule/models.hpp"
#include "support/errors.hpp"

namespace ovl {
namespace {

using test::error_text;

// GPT-2 small is 768 wide, its inner width four times that.
TEST(Layers, WorkedExample) {
  const Layers layers = parse_layers("gpt2-small:4@256", 1);
  EXPECT_EQ(layers.count, 4);
  EXPECT_EQ(layers.tokens, 256);
  const auto matrices = layers.matrices();
  const std::array<Matrix, 4> expected{
      {{"qkv", 768, 2304}, {"proj", 768, 768}, {"mlp", 768, 3072}, {"down", 3072, 768}}};
  for (std::size_t i = 0; i < matrices.size(); ++i) {
    EXPECT_EQ(matrices[i].name, expected[i].name);
    EXPECT_EQ(matrices[i].in, expected[i].in);
    EXPECT_EQ(matrices[i].out, expected[i].out);
  }
  // 768 · (2304 + 768 + 3072 + 3072) = 7,077,888 weights a layer.
  EXPECT_EQ(forward_flops(layers), Flops(2.0 * 4 * 256 * 7077888));
}

// Grouped-query attention has narrow keys and values, and a gated feed-forward part a matrix more.
TEST(Layers, OfLlama3) {
  const Layers layers = parse_layers("llama3-8b:2", 1);
  EXPECT_EQ(layers.tokens, 8192) << "its training length";
  EXPECT_EQ(layers.qkv, 4096 + 2 * 1024);
  EXPECT_EQ(layers.matrices()[2].out, 2 * 14336);
  EXPECT_EQ(layers.matrices()[3].in, 14336);
}

TEST(Layers, ScaleMakesWidthsNarrowerInSteps) {
  const Layers layers = parse_layers("gpt2-small:1@8", 0.25);
  EXPECT_EQ(layers.hidden, 192);
  EXPECT_EQ(layers.qkv, 576);
  EXPECT_EQ(layers.inner, 768);
  EXPECT_EQ(layers.tokens, 8);
  EXPECT_EQ(parse_layers("gpt2-small:1", 0.01).hidden, 16) << "768 / 100, to the nearest multiple of 16";
  EXPECT_EQ(parse_layers("gpt2-small:1", 0.0014).hidden, 16) << "of one and more";
  for (const double nothing : {0.0013, 1e-300}) {
    EXPECT_THAT(
        error_text([&] { parse_layers("gpt2-small:1", nothing); }),
        testing::HasSubstr("leaves nothing of gpt2-small's width of 768: widths are 16 or more, which is 0.021"));
  }
}

TEST(Layers, HaveTheGradientsOfTheModelInReverse) {
  std::vector<std::string> names;
  for (const Tensor& t : gradients_of_layer(parse_layers("gpt2-small:1", 1), DType::bf16)) names.push_back(t.name);
  EXPECT_EQ(names, (std::vector<std::string>{"down.bias", "down.weight", "mlp.bias", "mlp.weight", "norm2.bias",
                                             "norm2.weight", "proj.bias", "proj.weight", "qkv.bias", "qkv.weight",
                                             "norm1.bias", "norm1.weight"}));
}

TEST(Layers, GradientsAddUpToTheModelsParametersALayer) {
  for (const Transformer& model : transformers()) {
    if (model.experts > 1) continue;
    std::int64_t elements = 0;
    for (const Tensor& t : gradients_of_layer(parse_layers(std::string(model.name) + ":1", 1), DType::f32)) {
      elements += t.elements;
    }
    EXPECT_EQ(elements, parameters_per_layer(model)) << model.name;
  }
}

TEST(Layers, SayWhatIsWrong) {
  EXPECT_EQ(error_text([] { parse_layers("gpt2-small", 1); }),
            "layers \"gpt2-small\" do not say how many: it takes a model and a number; type for example --layers "
            "gpt2-small:4@256");
  EXPECT_EQ(error_text([] { parse_layers("gpt2-small:0", 1); }),
            "\"0\" in \"gpt2-small:0\" is not a number of layers: it is a whole number from 1 to 1024; type for "
            "example --layers gpt2-small:4@256");
  EXPECT_EQ(error_text([] { parse_layers("gpt2-small:2@x", 1); }),
            "\"x\" in \"gpt2-small:2@x\" is not a number of tokens: it is a whole number from 1 to 16777216; type for "
            "example --layers gpt2-small:4@256");
  EXPECT_EQ(error_text([] { parse_layers("gpt2-small:2", 1.5); }),
            "scale 1.5 is not possible: it makes widths narrower: above 0, at most 1; type for example --scale 0.25");
  EXPECT_EQ(error_text([] { parse_layers("mixtral-8x7b:2", 1); }),
            "the layers of mixtral-8x7b choose among 8 experts: these schedules run every weight on every token; take "
            "a dense model, such as --layers llama3-8b:2");
  EXPECT_NE(error_text([] { parse_layers("gpt2-smal:2", 1); }).find("gpt2-small"), std::string::npos);
}

}  // namespace
}  // namespace ovl
