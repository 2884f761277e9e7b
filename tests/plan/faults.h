// Planted faults: small changes after which a valid plan is not valid any more, and the words that must say so.
#pragma once

#include <limits>
#include <string>
#include <vector>

#include "plan/limits.h"
#include "plan/plan.h"
#include "plan/problems.h"

namespace plimsoll::testing {

using namespace plan;

struct Subject {
  std::string name;
  Problem problem;
  Plan plan;
  Limits limits;
};

// Words that the answer must hold, each with alternatives: "reads|writes". None: the fault does not apply here.
using Words = std::vector<std::string>;

struct Fault {
  const char* name;
  Words (*plant)(Subject& subject, Dice& dice);
};

std::vector<Fault> place_faults();
std::vector<Fault> time_faults();
std::vector<Fault> action_faults();
std::vector<Fault> micro_batch_faults();
std::vector<Fault> transfer_faults();
std::vector<Fault> report_faults();

// Valid plans to plant them in: of real models, of generated problems, and by hand where the planner makes none yet.
std::vector<Subject> planned_subjects();
std::vector<Subject> handmade_subjects();

// A plan that runs the actions of the script with every value in a place of its own.
Plan script_of(std::vector<Action> actions);
Plan lay_out(const Problem& problem, Plan script, std::vector<int64_t> micro_batches, int64_t batch);

// What the faults look for and do.
bool is_run(const Subject& subject, const Action& action);  // no transfer
bool is_save(const Subject& subject, const Action& action);
bool is_load(const Subject& subject, const Action& action);
BufferId moved_at(const Subject& subject, int32_t action);
const Work& work_at(const Subject& subject, int32_t action);
bool reads(const Work& work, BufferId id);  // updates included
bool writes(const Work& work, BufferId id);
std::string name_of(const Subject& subject, const Life& life);
bool is_variable(const Subject& subject, BufferId id);  // one that stays in memory
// Does a value take the place of another at this action?
bool hands_place_on(const Plan& plan, int32_t action);
void move_life(Plan& plan, Life& life, Bytes offset);  // the arena grows with it, and shrinks to what is left
void sort_lives(Plan& plan);
void remove_action(Subject& subject, int32_t action);
void insert_action(Subject& subject, int32_t at, const Action& action);  // with its workspace
void move_action(Subject& subject, int32_t from, int32_t to);
void fit_arena(Plan& plan);

// A random index of a list for which this holds; -1 when there is none.
template <typename List, typename Holds>
int32_t pick(const List& list, Dice& dice, const Holds& holds) {
  std::vector<int32_t> found;
  for (size_t i = 0; i < list.size(); ++i)
    if (holds(list[i], static_cast<int32_t>(i))) found.push_back(static_cast<int32_t>(i));
  return found.empty() ? -1 : found[dice.below(static_cast<int64_t>(found.size()))];
}

}  // namespace plimsoll::testing
