// The passes in the order in which they run. Each header says why a pass sits where it does.
#include "aspen/compiler/passes/pipeline.h"

#include <algorithm>

#include "aspen/compiler/autodiff/differentiate.h"
#include "aspen/compiler/passes/accumulate_gradients.h"
#include "aspen/compiler/passes/anchor_gradients.h"
#include "aspen/compiler/passes/anchor_tensors.h"
#include "aspen/compiler/passes/canonicalise.h"
#include "aspen/compiler/passes/fit_budget.h"
#include "aspen/compiler/passes/fold_constants.h"
#include "aspen/compiler/passes/fuse_attention.h"
#include "aspen/compiler/passes/fuse_batch_last.h"
#include "aspen/compiler/passes/fuse_batch_norms.h"
#include "aspen/compiler/passes/fuse_convolutions.h"
#include "aspen/compiler/passes/fuse_cross_entropy.h"
#include "aspen/compiler/passes/fuse_updates.h"
#include "aspen/compiler/passes/group_elementwise.h"
#include "aspen/compiler/passes/hold_inputs.h"
#include "aspen/compiler/passes/insert_optimizer.h"
#include "aspen/compiler/passes/join_pads.h"
#include "aspen/compiler/passes/merge_common.h"
#include "aspen/compiler/passes/put_batch_last.h"
#include "aspen/compiler/passes/recompute.h"
#include "aspen/compiler/passes/remove_dead.h"
#include "aspen/compiler/passes/remove_markers.h"
#include "aspen/compiler/passes/repeat_quick.h"
#include "aspen/compiler/passes/round_products.h"
#include "aspen/compiler/passes/schedule.h"
#include "aspen/compiler/passes/select_loss.h"
#include "aspen/compiler/passes/simplify_bodies.h"
#include "aspen/compiler/placement/cut_stages.h"
#include "aspen/compiler/placement/insert_transfers.h"
#include "aspen/compiler/placement/narrow_inputs.h"
#include "aspen/compiler/placement/overlap_io.h"
#include "aspen/compiler/placement/overlap_loads.h"
#include "aspen/compiler/placement/partition.h"
#include "aspen/compiler/placement/place_variables.h"
#include "aspen/compiler/placement/shard_weights.h"

namespace aspen {
namespace {

Pass optional(Pass pass) {
  pass.is_optional = true;
  return pass;
}

const Pass kSelectLoss{"select_loss", "find the one loss to differentiate", select_loss, {}, {kSingleLoss}};
const Pass kDifferentiate{
    "differentiate", "add the gradients of all trainable parameters", differentiate, {kSingleLoss}};
const Pass kCutStages{"cut_stages", "find the stages of a pipeline, if nobody has", cut_stages};
const Pass kAnchorGradients{"anchor_gradients", "return the gradients that the host asks for", anchor_gradients};
const Pass kAccumulateGradients{"accumulate_gradients", "add gradients up over the micro-batches of an update",
                                accumulate_gradients};
const Pass kInsertOptimizer{
    "insert_optimizer", "update the parameters from their gradients", insert_optimizer, {}, {kNoGradients}};
const Pass kAnchorTensors{"anchor_tensors", "return the other tensors that the host asks for", anchor_tensors};
const Pass kHoldInputs{"hold_inputs", "make variables of the inputs when data is synthetic", hold_inputs};
const Pass kRoundProducts{"round_products", "let products of float32 multiply in bfloat16", round_products, {}, {}};
const Pass kRemoveMarkers{
    "remove_markers", "drop loss and detach, which have been read", remove_markers, {}, {kNoMarkers}};
const Pass kCanonicalise{"canonicalise", "bring ops into their simplest form", canonicalise, {kNoMarkers}};
const Pass kFoldConstants = optional({"fold_constants", "compute what depends on constants alone", fold_constants});
const Pass kJoinPads = optional({"join_pads", "put padded parts side by side instead of adding them", join_pads});
const Pass kMergeCommon = optional({"merge_common", "compute once what would be computed twice", merge_common});
const Pass kSimplifyBodies{
    "simplify_bodies", "simplify what loops and branches run", simplify_bodies, {}, {kBodiesSimplified}};
const Pass kRemoveDead{"remove_dead", "drop what nobody uses", remove_dead, {}, {kNothingDead}};
const Pass kFuseAttention = optional({"fuse_attention", "let one op do all that attention is made of", fuse_attention});
const Pass kFuseCrossEntropy =
    optional({"fuse_cross_entropy", "let one op do log_softmax and nll", fuse_cross_entropy});
const Pass kPutBatchLast = optional({"put_batch_last", "let images of few channels lie batch last", put_batch_last});
const Pass kFuseBatchLast =
    optional({"fuse_batch_last", "let convolutions of such images do what follows them", fuse_batch_last});
const Pass kFitBudget{"fit_budget", "see that the program keeps to its memory budget", fit_budget};
const Pass kRecompute{"recompute", "compute activations again rather than keep them", recompute, {}, {kNoCheckpoints}};
const Pass kShardWeights{"shard_weights", "leave each replica a shard of the weights", shard_weights};
const Pass kPlaceVariables{"place_variables", "choose the variables that are kept off the devices", place_variables};
const Pass kPartition{"partition", "cut the graph into tasks, each for one device", partition, {}, {kPartitioned}};
const Pass kInsertTransfers{"insert_transfers",
                            "move values to the tasks that read them",
                            insert_transfers,
                            {kPartitioned},
                            {kPartitioned, kTransfersComplete}};
const Pass kNarrowInputs{"narrow_inputs",
                         "read integers of 64 bits where the host has them",
                         narrow_inputs,
                         {kTransfersComplete},
                         {kPartitioned, kTransfersComplete}};
const Pass kOverlapIo{"overlap_io",
                      "move marked inputs and outputs while the devices compute",
                      overlap_io,
                      {kTransfersComplete},
                      {kPartitioned}};
const Pass kOverlapLoads{"overlap_loads",
                         "load what a phase needs while another one computes",
                         overlap_loads,
                         {kPartitioned},
                         {kPartitioned}};
const Pass kFuseConvolutions =
    optional({"fuse_convolutions", "let convolutions do what follows them", fuse_convolutions});
const Pass kFuseBatchNorms =
    optional({"fuse_batch_norms", "let batch normalisations do what follows them", fuse_batch_norms});
const Pass kFuseUpdates = optional({"fuse_updates", "update weights while their gradients are made", fuse_updates});
const Pass kRepeatQuick = optional({"repeat_quick", "compute again what is computed faster than kept", repeat_quick});
const Pass kGroupElementwise =
    optional({"group_elementwise", "run pointwise ops that feed each other together", group_elementwise});
const Pass kSchedule{"schedule",
                     "order the ops for little memory, writes of variables after their reads",
                     schedule,
                     {},
                     {kAssignedAfterReads, kGroupedByTask}};

// What training and inference share.
std::vector<Pass> common_pipeline() {
  return {
      // What the host sees of the graph.
      kAnchorTensors,
      kHoldInputs,
      // Nothing superfluous is left: dead ops first, so that no time goes into simplifying them.
      kRemoveMarkers,
      kRoundProducts,
      kRemoveDead,
      kCanonicalise,
      kFoldConstants,
      kCanonicalise,
      kJoinPads,
      kMergeCommon,
      kSimplifyBodies,
      kRemoveDead,
      // What runs as one op and rounds otherwise: the same in every placement.
      kFuseAttention,
      kFuseCrossEntropy,
      // In which order images lie, and what that lets run as one op.
      kPutBatchLast,
      kFuseBatchLast,
      kCanonicalise,
      kRemoveDead,
      // Whether all fits as it is asked for, and what is to be done if not.
      kFitBudget,
      // What the backward pass makes again itself; the originals may have been for it alone.
      kRecompute,
      kRemoveDead,
      // Who does what: devices, stages, and what passes between them.
      kShardWeights,
      kPlaceVariables,
      kPartition,
      kInsertTransfers,
      kNarrowInputs,
      kOverlapIo,
      kOverlapLoads,
      // What runs as one op, and what it then need not be handed.
      kFuseConvolutions,
      kFuseBatchNorms,
      kFuseUpdates,
      kRepeatQuick,
      kRemoveDead,
      kGroupElementwise,
      // The order of execution, which the memory plan takes as given.
      kSchedule,
  };
}

}  // namespace

std::vector<Pass> training_pipeline() {
  std::vector<Pass> passes{
      // From the model to everything one micro-batch computes.
      kSelectLoss,
      kFuseAttention,
      kDifferentiate,
      kCutStages,
      kAnchorGradients,
      // From there to the weights after it.
      kAccumulateGradients,
      kInsertOptimizer,
  };
  for (Pass& pass : common_pipeline()) passes.push_back(std::move(pass));
  return passes;
}

std::vector<Pass> inference_pipeline() {
  std::vector<Pass> passes{
      kCutStages,
  };
  for (Pass& pass : common_pipeline()) passes.push_back(std::move(pass));
  return passes;
}

std::vector<Pass> passes_after(std::string_view name, bool training) {
  const std::vector<Pass> passes = training ? training_pipeline() : inference_pipeline();
  const auto found = std::find_if(passes.begin(), passes.end(), [&](const Pass& pass) { return pass.name == name; });
  if (found == passes.end()) throw InternalError("there is no pass {} in the pipelines", name);
  return {std::next(found), passes.end()};
}

const std::vector<Pass>& all_passes() {
  static const std::vector<Pass> passes{
      kSelectLoss,      kDifferentiate, kCutStages,        kAnchorGradients,  kAccumulateGradients,
      kInsertOptimizer, kAnchorTensors, kHoldInputs,       kRemoveMarkers,    kRoundProducts,
      kCanonicalise,    kFoldConstants, kJoinPads,         kMergeCommon,      kSimplifyBodies,
      kRemoveDead,      kFuseAttention, kFuseCrossEntropy, kPutBatchLast,     kFuseBatchLast,
      kFitBudget,       kRecompute,     kShardWeights,     kPlaceVariables,   kPartition,
      kInsertTransfers, kNarrowInputs,  kOverlapIo,        kOverlapLoads,     kFuseConvolutions,
      kFuseBatchNorms,  kFuseUpdates,   kRepeatQuick,      kGroupElementwise, kSchedule};
  return passes;
}

const Pass& find_pass(std::string_view name) {
  std::vector<std::string> names;
  for (const Pass& pass : all_passes()) {
    if (pass.name == name) return pass;
    names.emplace_back(pass.name);
  }
  throw UserError("there is no pass \"{}\"; close matches: {}.", name, near_matches(name, names));
}

}  // namespace aspen
