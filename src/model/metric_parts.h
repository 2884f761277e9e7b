// What the files of metrics share.
#pragma once

#include <vector>

#include <plimsoll/model.h>

namespace plimsoll::model {

// The sum, over the samples, of the mean of each sample's elements.
Tensor sum_of_samples(Tensor values, Name name = {});
double mean_of(std::span<const double> sums, double samples);
void expect_match(const char* metric, Tensor prediction, Tensor target);
// Class numbers from targets that are class numbers, or probabilities of classes.
Tensor labels_of(Tensor prediction, Tensor target, const char* metric);
bool is_one_number(Tensor prediction);  // for each sample
Tensor is_above(Tensor x, double threshold);
// Counts of true positives, false positives and false negatives.
std::vector<Tensor> confusion(Tensor prediction, Tensor target, double threshold, const char* metric);
// Thresholds over (0, 1), and one below and one above, as Keras chooses them.
std::vector<float> thresholds_of(int64_t count);
// True and false positives at each threshold, then all positives and negatives.
std::vector<Tensor> positives_at(const std::vector<float>& thresholds, Tensor prediction, Tensor target,
                                 const char* metric);
double share(double part, double rest);

}  // namespace plimsoll::model
