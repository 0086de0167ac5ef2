// SPDX-License-Identifier: Apache-2.0
#include "schedule/models.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <set>

#include "base/error.hpp"

namespace ovl {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;

const Transformer& model(std::string_view name) {
  const auto all = transformers();
  const auto found = std::find_if(all.begin(), all.end(), [&](const Transformer& t) { return t.name == name; });
  if (found == all.end()) throw std::out_of_range(std::string(name));
  return *found;
}

template <class Parse>
std::string usage_message(Parse parse, std::string_view text) {
  try {
    parse(text);
  } catch (const Error& error) {
    EXPECT_EQ(error.kind(), ErrorKind::usage);
    return error.what();
  }
  return "no error";
}

TEST(Models, HaveThePublishedNumberOfParameters) {
  // As counted over the published weights.
  EXPECT_EQ(parameters(model("bert-large")), 335'141'888);
  EXPECT_EQ(parameters(model("gpt2-small")), 124'439'808);
  EXPECT_EQ(parameters(model("gpt2-medium")), 354'823'168);
  EXPECT_EQ(parameters(model("gpt2-large")), 774'030'080);
  EXPECT_EQ(parameters(model("gpt2-xl")), 1'557'611'200);
  EXPECT_EQ(parameters(model("llama2-7b")), 6'738'415'616);
  EXPECT_EQ(parameters(model("llama3-8b")), 8'030'261'248);
  EXPECT_EQ(parameters(model("mixtral-8x7b")), 46'702'792'704);
  EXPECT_EQ(resnet50_parameters(), 25'557'032);
}

TEST(Models, LayerWorkedByHand) {
  // Llama-2 7B: attention 4 · 4096², feed-forward 3 · 4096 · 11008, two norms of 4096.
  EXPECT_EQ(parameters_per_layer(model("llama2-7b")), 67'108'864 + 135'266'304 + 8'192);
  // GPT-2: 12 h² + 13 h.
  EXPECT_EQ(parameters_per_layer(model("gpt2-small")), 12 * 768 * 768 + 13 * 768);
}

TEST(NamedGemm, IsALayerOfAModel) {
  EXPECT_EQ(named_gemm("mlp:gpt2-small"), (GemmShape{.m = 1024, .n = 3072, .k = 768}));
  EXPECT_EQ(named_gemm("qkv:llama2-7b"), (GemmShape{.m = 4096, .n = 3 * 4096, .k = 4096}));
  EXPECT_EQ(named_gemm("proj:llama2-7b"), (GemmShape{.m = 4096, .n = 4096, .k = 4096}));
  EXPECT_EQ(named_gemm("down:gpt2-xl"), (GemmShape{.m = 1024, .n = 1600, .k = 6400}));
  EXPECT_EQ(named_gemm("head:bert-large"), (GemmShape{.m = 512, .n = 30522, .k = 1024}));
}

TEST(NamedGemm, GroupedQueriesHaveNarrowKeysAndValues) { EXPECT_EQ(named_gemm("qkv:llama3-8b").n, 4096 + 2 * 1024); }

TEST(NamedGemm, GateAndUpAreOneGemm) {
  EXPECT_EQ(named_gemm("ffn:llama3-8b"), (GemmShape{.m = 8192, .n = 2 * 14336, .k = 4096}));
  EXPECT_EQ(named_gemm("mlp:llama3-8b"), named_gemm("ffn:llama3-8b"));
  EXPECT_EQ(named_gemm("ffn:gpt2-small"), named_gemm("mlp:gpt2-small"));
}

TEST(NamedGemm, TokensCanBeGiven) {
  EXPECT_EQ(named_gemm("mlp:gpt2-small@512"), (GemmShape{.m = 512, .n = 3072, .k = 768}));
}

TEST(NamedGemm, AnExpertSeesItsShareOfTheTokens) {
  EXPECT_EQ(named_gemm("ffn:mixtral-8x7b@4096").m, 1024);  // 2 of 8 experts
  EXPECT_EQ(named_gemm("down:mixtral-8x7b@4096").m, 1024);
  EXPECT_EQ(named_gemm("qkv:mixtral-8x7b@4096").m, 4096);
  EXPECT_EQ(named_gemm("ffn:mixtral-8x7b@1").m, 1);  // rounded up, never nothing
}

TEST(NamedGemm, TakesAShape) {
  EXPECT_EQ(named_gemm("4096x1024x512"), (GemmShape{.m = 4096, .n = 1024, .k = 512}));
  EXPECT_EQ(named_gemm("1x1x1"), (GemmShape{.m = 1, .n = 1, .k = 1}));
  EXPECT_EQ(named_gemm("2147483647x1x1").m, 2'147'483'647);
}

TEST(NamedGemm, RefusesWhatIsNoShape) {
  const std::string instead = "; type m x n x k, for example 4096x4096x4096, or a layer such as mlp:gpt2-small";
  EXPECT_EQ(usage_message(named_gemm, "4096x0x4096"),
            "size \"0\" in gemm \"4096x0x4096\" is not a positive whole number" + instead);
  EXPECT_EQ(usage_message(named_gemm, "4096x4096"),
            "gemm \"4096x4096\" is not a shape: it needs three sizes" + instead);
  EXPECT_THAT(usage_message(named_gemm, "-1x2x3"), HasSubstr("\"-1\" in gemm \"-1x2x3\" is not a positive"));
  EXPECT_THAT(usage_message(named_gemm, "1x2x3junk"), HasSubstr("\"3junk\""));
  EXPECT_THAT(usage_message(named_gemm, "1xx3"), HasSubstr("size \"\""));
  EXPECT_THAT(usage_message(named_gemm, "1.5x2x3"), HasSubstr("is not a positive whole number"));
  EXPECT_THAT(usage_message(named_gemm, ""), HasSubstr("is not a shape"));
}

TEST(NamedGemm, RefusesOverflow) {
  EXPECT_THAT(usage_message(named_gemm, "2147483648x1x1"), HasSubstr("is too large: it is at most 2147483647"));
  EXPECT_THAT(usage_message(named_gemm, "99999999999999999999x1x1"), HasSubstr("is too large"));
  EXPECT_THAT(usage_message(named_gemm, "-99999999999999999999x1x1"), HasSubstr("is not a positive"));
  // Each fits, the matrix of 2^62 elements does not.
  for (const char* shape : {"2147483647x2147483647x1", "2147483647x1x2147483647", "1x2147483647x2147483647"}) {
    EXPECT_THAT(usage_message(named_gemm, shape), HasSubstr("a matrix has at most 2^60 elements")) << shape;
  }
}

TEST(NamedGemm, UnknownNameOffersTheNearest) {
  EXPECT_THAT(usage_message(named_gemm, "mlp:gpt2-smal"), HasSubstr("did you mean mlp:gpt2-small"));
  EXPECT_THAT(usage_message(named_gemm, "qvk:llama2-7b"), HasSubstr("qkv:llama2-7b"));
  EXPECT_THAT(usage_message(named_gemm, "mlp:"), HasSubstr("is unknown"));
  EXPECT_EQ(usage_message(named_gemm, "mlp:gpt2-small@0"),
            "number of tokens in \"mlp:gpt2-small@0\" is not a positive whole number; "
            "type for example mlp:gpt2-small@512");
  EXPECT_THAT(usage_message(named_gemm, "mlp:gpt2-small@"), HasSubstr("number of tokens"));
}

TEST(NamedGemm, EveryListedNameCanBeTyped) {
  std::set<std::string> seen;
  for (const std::string& text : gemm_names()) {
    EXPECT_TRUE(seen.insert(text).second) << text;
    EXPECT_GE(named_gemm(text).m, 1) << text;
  }
  EXPECT_EQ(seen.size(), 48U);  // 6 layers of 8 models
}

TEST(NamedMessage, OfDdp) {
  EXPECT_EQ(named_message("bucket:ddp-default"), Bytes(26'214'400));
  EXPECT_EQ(named_message("bucket:ddp-first"), Bytes(1'048'576));
  // 14 GB of gradients are 535 default buckets, the last one short.
  const std::int64_t bucket = named_message("bucket:ddp-default").value();
  EXPECT_EQ((14'000'000'000 + bucket - 1) / bucket, 535);
}

TEST(NamedMessage, OfAModelInBf16) {
  EXPECT_EQ(named_message("layer:llama2-7b"), Bytes(2 * 202'383'360));
  EXPECT_EQ(named_message("model:gpt2-small"), Bytes(2 * 124'439'808));
  EXPECT_EQ(named_message("model:resnet50"), Bytes(2 * 25'557'032));
  EXPECT_EQ(named_message("activation:llama3-8b"), Bytes(2LL * 8192 * 4096));
  EXPECT_EQ(named_message("activation:llama3-8b@1"), Bytes(2 * 4096));
  EXPECT_EQ(named_message("dispatch:mixtral-8x7b@512"), Bytes(2LL * 512 * 2 * 4096));
}

TEST(NamedMessage, FallsBackToASize) {
  EXPECT_EQ(named_message("25MiB"), mebibytes(25));
  EXPECT_THAT(usage_message(named_message, "1M"), HasSubstr("type 1MiB or 1MB"));
}

TEST(NamedMessage, UnknownNameOffersTheNearest) {
  EXPECT_THAT(usage_message(named_message, "bucket:ddp"), HasSubstr("did you mean bucket:ddp-first"));
  EXPECT_THAT(usage_message(named_message, "layer:resnet50"), HasSubstr("model:resnet50"));  // its layers differ
  EXPECT_THAT(usage_message(named_message, "dispatch:llama3-8b"), HasSubstr("is unknown"));  // has no experts
  EXPECT_THAT(usage_message(named_message, "layer:llama2-7b@8"), HasSubstr("is unknown"));   // tokens change nothing
}

TEST(NamedMessage, EveryListedNameCanBeTyped) {
  for (const std::string& text : message_names()) EXPECT_GT(named_message(text), Bytes(0)) << text;
}

TEST(ParseByteList, TimesAFactor) {
  EXPECT_THAT(parse_byte_list("64KiB:256MiB:x4"), ElementsAre(kibibytes(64), kibibytes(256), mebibytes(1), mebibytes(4),
                                                              mebibytes(16), mebibytes(64), mebibytes(256)));
}

TEST(ParseByteList, PlusASize) {
  EXPECT_THAT(parse_byte_list("1MiB:3MiB:+1MiB"), ElementsAre(mebibytes(1), mebibytes(2), mebibytes(3)));
}

TEST(ParseByteList, LeavesOutAnEndThatNoStepMeets) {
  EXPECT_THAT(parse_byte_list("1:10:x4"), ElementsAre(Bytes(1), Bytes(4)));
  EXPECT_THAT(parse_byte_list("1:6:+2"), ElementsAre(Bytes(1), Bytes(3), Bytes(5)));
  EXPECT_THAT(parse_byte_list("7:7:x2"), ElementsAre(Bytes(7)));
}

TEST(ParseByteList, MixesSizesNamesAndRanges) {
  EXPECT_THAT(parse_byte_list("64KiB,bucket:ddp-default,1:4:x2"),
              ElementsAre(kibibytes(64), mebibytes(25), Bytes(1), Bytes(2), Bytes(4)));
}

TEST(ParseByteList, StopsBeforeASizeOverflows) {
  EXPECT_THAT(parse_byte_list("4611686018427387904:9223372036854775807:x2"), ElementsAre(Bytes(1LL << 62)));
  EXPECT_THAT(parse_byte_list("1:9223372036854775807:+9223372036854775807"), ElementsAre(Bytes(1)));
}

TEST(ParseByteList, RefusesARangeThatDoesNotProgress) {
  EXPECT_EQ(usage_message(parse_byte_list, "64KiB:1MiB:x1"),
            "range \"64KiB:1MiB:x1\" does not progress: times 1 repeats the start; "
            "type for example 64KiB:256MiB:x4 or 1MiB:4MiB:+1MiB");
  EXPECT_EQ(usage_message(parse_byte_list, "4MiB:1MiB:x2"),
            "range \"4MiB:1MiB:x2\" does not progress: it ends below its start; type 1MiB:4MiB:x2");
  EXPECT_THAT(usage_message(parse_byte_list, "1:4:x0"), HasSubstr("is not a positive whole number"));
  EXPECT_THAT(usage_message(parse_byte_list, "1:4:x-2"), HasSubstr("is not a positive whole number"));
  EXPECT_THAT(usage_message(parse_byte_list, "1:4:x1.5"), HasSubstr("is not a positive whole number"));
  EXPECT_THAT(usage_message(parse_byte_list, "1:4:+0"), HasSubstr("size \"0\" is not positive"));
}

TEST(ParseByteList, SaysWhatToTypeForABrokenRange) {
  EXPECT_EQ(usage_message(parse_byte_list, "64KiB:1MiB"),
            "range \"64KiB:1MiB\" has no step; type for example 64KiB:1MiB:x4");
  EXPECT_THAT(usage_message(parse_byte_list, "64KiB:1MiB:4"), HasSubstr("has the unknown step \"4\""));
  EXPECT_THAT(usage_message(parse_byte_list, "64KiB:1MiB:"), HasSubstr("has the unknown step \"\""));
  EXPECT_THAT(usage_message(parse_byte_list, "1:1GiB:+1"), HasSubstr("has more than 1000 sizes; take larger steps"));
  EXPECT_THAT(usage_message(parse_byte_list, "64KiB,,1MiB"), HasSubstr("size \"\" is not a size"));
  EXPECT_THAT(usage_message(parse_byte_list, "1M:4MiB:x2"), HasSubstr("type 1MiB or 1MB"));
}

}  // namespace
}  // namespace ovl
