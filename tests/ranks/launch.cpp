// What a process learns from the variables of mpirun and Slurm.
#include "ranks/launch.h"

#include <map>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace plimsoll::ranks {
namespace {

using ::testing::IsSupersetOf;

Environment variables(std::map<std::string, std::string> all) {
  return [all = std::move(all)](const char* name) -> const char* {
    const auto found = all.find(name);
    return found == all.end() ? nullptr : found->second.c_str();
  };
}

TEST(Launch, KnowsMpirunAndSlurm) {
  EXPECT_EQ(find_launch(variables({})), std::nullopt);
  EXPECT_EQ(find_launch(variables(
                {{"OMPI_COMM_WORLD_RANK", "3"}, {"OMPI_COMM_WORLD_SIZE", "4"}, {"OMPI_COMM_WORLD_LOCAL_SIZE", "2"}})),
            (Launch{3, 4, 2}));
  EXPECT_EQ(find_launch(variables({{"PMI_RANK", "1"}, {"PMI_SIZE", "2"}})), (Launch{1, 2, 1}));
  EXPECT_EQ(find_launch(variables(
                {{"PMIX_RANK", "5"}, {"SLURM_PROCID", "5"}, {"SLURM_NTASKS", "8"}, {"SLURM_NTASKS_PER_NODE", "4"}})),
            (Launch{5, 8, 4}));
}

TEST(Launch, ABatchScriptOfSlurmIsOneProcess) {
  const auto script = variables({{"SLURM_JOB_ID", "7"}, {"SLURM_PROCID", "0"}, {"SLURM_NTASKS", "8"}});
  EXPECT_EQ(find_launch(script), std::nullopt);
  EXPECT_EQ(slurm_tasks(script), 8);
  EXPECT_EQ(slurm_tasks(variables({{"SLURM_NTASKS", "8"}})), 0) << "outside of a job";
}

TEST(Launch, NumbersThatMakeNoSenseCountAsNone) {
  EXPECT_EQ(find_launch(variables({{"OMPI_COMM_WORLD_RANK", "x"}, {"OMPI_COMM_WORLD_SIZE", "4"}})), std::nullopt);
  EXPECT_EQ(find_launch(variables({{"OMPI_COMM_WORLD_RANK", "4"}, {"OMPI_COMM_WORLD_SIZE", "4"}})), std::nullopt);
  EXPECT_EQ(find_launch(variables({{"OMPI_COMM_WORLD_RANK", "-1"}, {"OMPI_COMM_WORLD_SIZE", "4"}})), std::nullopt);
}

TEST(Launch, TheCommandEndsWithTheProgram) {
  const std::vector<std::string> command = mpirun_command(4, {"plimsoll", "train", "mlp"});
  EXPECT_EQ(command.front(), "mpirun");
  EXPECT_THAT(command, IsSupersetOf({"--allow-run-as-root", "--oversubscribe", "--bind-to", "none"}));
  EXPECT_EQ(std::vector<std::string>(command.end() - 5, command.end()),
            (std::vector<std::string>{"-n", "4", "plimsoll", "train", "mlp"}));
}

}  // namespace
}  // namespace plimsoll::ranks
