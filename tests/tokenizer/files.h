// Small tokenizers as files.
#pragma once

#include <fstream>
#include <string>
#include <string_view>
#include <vector>

#include <gtest/gtest.h>

#include <plimsoll/error.h>
#include <plimsoll/tokenizer.h>
#include "support/disk_folder.h"

namespace plimsoll::testing {

using Ids = std::vector<int32_t>;

inline const std::string kByteLevel =
    R"j({"added_tokens":[{"id":21,"content":"<|end|>","single_word":false,"lstrip":false,"rstrip":false,
"normalized":false,"special":true},{"id":22,"content":"<x>","single_word":false,"lstrip":true,
"rstrip":true,"normalized":false,"special":true}],"normalizer":null,
"pre_tokenizer":{"type":"ByteLevel","add_prefix_space":false,"trim_offsets":true,"use_regex":true},
"post_processor":null,"decoder":{"type":"ByteLevel","add_prefix_space":false,"trim_offsets":true,
"use_regex":true},"model":{"type":"BPE","dropout":null,"unk_token":null,
"continuing_subword_prefix":null,"end_of_word_suffix":null,"fuse_unk":false,"byte_fallback":false,
"vocab":{"h":0,"e":1,"l":2,"o":3,"Ġ":4,"w":5,"r":6,"d":7,"Ċ":8,"Ã":9,"©":10,"1":11,"he":12,"ll":13,
"hell":14,"hello":15,"Ġw":16,"or":17,"Ġwor":18,"ld":19,"Ġworld":20},"merges":["h e","l l","he ll",
"hell o","Ġ w","o r","Ġw or","l d","Ġwor ld"]}})j";

inline const std::string kWordPiece =
    R"j({"added_tokens":[{"id":0,"content":"[UNK]","single_word":false,"lstrip":false,"rstrip":false,
"normalized":false,"special":true},{"id":1,"content":"[CLS]","single_word":false,"lstrip":false,
"rstrip":false,"normalized":false,"special":true},{"id":2,"content":"[SEP]","single_word":false,
"lstrip":false,"rstrip":false,"normalized":false,"special":true}],
"normalizer":{"type":"BertNormalizer","clean_text":true,"handle_chinese_chars":true,
"strip_accents":null,"lowercase":true},"pre_tokenizer":{"type":"BertPreTokenizer"},
"post_processor":{"type":"TemplateProcessing","single":[{"SpecialToken":{"id":"[CLS]","type_id":0}},
{"Sequence":{"id":"A","type_id":0}},{"SpecialToken":{"id":"[SEP]","type_id":0}}],
"pair":[{"SpecialToken":{"id":"[CLS]","type_id":0}},{"Sequence":{"id":"A","type_id":0}},
{"SpecialToken":{"id":"[SEP]","type_id":0}},{"Sequence":{"id":"B","type_id":1}},
{"SpecialToken":{"id":"[SEP]","type_id":1}}],"special_tokens":{"[CLS]":{"id":"[CLS]","ids":[1],
"tokens":["[CLS]"]},"[SEP]":{"id":"[SEP]","ids":[2],"tokens":["[SEP]"]}}},
"decoder":{"type":"WordPiece","prefix":"##","cleanup":true},"model":{"type":"WordPiece",
"unk_token":"[UNK]","continuing_subword_prefix":"##","max_input_chars_per_word":10,
"vocab":{"[UNK]":0,"[CLS]":1,"[SEP]":2,"un":3,"##aff":4,"##able":5,"!":6,"中":7,"cafe":8,"##s":9}}})j";

inline const std::string kUnigram =
    R"j({"added_tokens":[{"id":0,"content":"<unk>","single_word":false,"lstrip":false,"rstrip":false,
"normalized":false,"special":true}],"normalizer":null,"pre_tokenizer":{"type":"Metaspace",
"replacement":"▁","prepend_scheme":"always","split":true},"post_processor":null,
"decoder":{"type":"Metaspace","replacement":"▁","prepend_scheme":"always","split":true},
"model":{"type":"Unigram","unk_id":0,"byte_fallback":false,"vocab":[["<unk>",0.0],["▁",-2.0],["a",
-3.0],["b",-3.5],["ab",-4.0],["▁a",-3.2],["▁ab",-6.0]]}})j";

class TokenizerFiles : public ::testing::Test {
 protected:
  std::string write(const std::string& name, std::string_view content) const {
    const std::string path = static_cast<const std::string&>(folder_) + "/" + name;
    std::ofstream(path, std::ios::binary) << content;
    return path;
  }
  Tokenizer open(const std::string& json) const { return Tokenizer::open(write("tokenizer.json", json)); }
  // The message of the Error that opening the file throws.
  static std::string refusal(const std::string& path) {
    try {
      Tokenizer::open(path);
    } catch (const Error& e) {
      EXPECT_EQ(e.kind(), ErrorKind::BadData);
      return e.what();
    }
    return "accepted";
  }
  std::string refusal_of(const std::string& json) const { return refusal(write("tokenizer.json", json)); }

  const DiskFolder folder_;
};

}  // namespace plimsoll::testing
