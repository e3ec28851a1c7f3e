"""Training as graph programs: optimizers, savers, device setters, hooks, sessions that recover."""

from types import SimpleNamespace as _SimpleNamespace

from tensorboard.compat.proto.saver_pb2 import SaverDef

from sparkflow.session.server import Server
from sparkflow.summary.reader import summary_iterator
from sparkflow.summary.writer import FileWriter
from sparkflow.train import loss_scale as _loss_scale
from sparkflow.train.bounded_staleness import BoundedStalenessOptimizer
from sparkflow.train.checkpoint_manager import CheckpointManager
from sparkflow.train.checkpoint_reader import NewCheckpointReader, load_checkpoint
from sparkflow.train.checkpoint_state import (
    CheckpointState,
    checkpoint_exists,
    generate_checkpoint_state_proto,
    get_checkpoint_state,
    latest_checkpoint,
    list_variables,
    load_variable,
    update_checkpoint_state,
)
from sparkflow.train.checkpoint_watch import checkpoints_iterator
from sparkflow.train.coordinator import Coordinator
from sparkflow.train.device_setter import replica_device_setter
from sparkflow.train.graph_files import import_meta_graph, write_graph
from sparkflow.train.helpers import basic_train_loop, get_checkpoint_mtimes
from sparkflow.train.hooks import (
    FeedFnHook,
    FinalOpsHook,
    GlobalStepWaiterHook,
    LoggingTensorHook,
    NanLossDuringTrainingError,
    NanTensorHook,
    SecondOrStepTimer,
    StopAtStepHook,
)
from sparkflow.train.input import (
    batch,
    batch_join,
    input_producer,
    limit_epochs,
    match_filenames_once,
    range_input_producer,
    shuffle_batch,
    shuffle_batch_join,
    slice_input_producer,
    string_input_producer,
)
from sparkflow.train.learning_rate import (
    cosine_decay,
    cosine_decay_restarts,
    exponential_decay,
    inverse_time_decay,
    linear_cosine_decay,
    natural_exp_decay,
    noisy_linear_cosine_decay,
    piecewise_constant,
    piecewise_constant_decay,
    polynomial_decay,
)
from sparkflow.train.looper import LooperThread
from sparkflow.train.maybe_input import maybe_batch, maybe_batch_join, maybe_shuffle_batch, maybe_shuffle_batch_join
from sparkflow.train.meta_graph import export_meta_graph
from sparkflow.train.monitored_session import (
    ChiefSessionCreator,
    MonitoredSession,
    SessionCreator,
    SingularMonitoredSession,
    WorkerSessionCreator,
)
from sparkflow.train.monitored_training import MonitoredTrainingSession
from sparkflow.train.moving_averages import ExponentialMovingAverage
from sparkflow.train.object_checkpoint import Checkpoint
from sparkflow.train.optimizer import Optimizer
from sparkflow.train.optimizers import (
    AdagradOptimizer,
    AdamOptimizer,
    FtrlOptimizer,
    GradientDescentOptimizer,
    MomentumOptimizer,
)
from sparkflow.train.optimizers_mean_square import AdadeltaOptimizer, RMSPropOptimizer
from sparkflow.train.optimizers_proximal import (
    AdagradDAOptimizer,
    ProximalAdagradOptimizer,
    ProximalGradientDescentOptimizer,
)
from sparkflow.train.profiler_hook import ProfilerHook
from sparkflow.train.queue_runner import QueueRunner, add_queue_runner, start_queue_runners
from sparkflow.train.saver import Saver, remove_checkpoint
from sparkflow.train.saving_hooks import (
    CheckpointSaverHook,
    CheckpointSaverListener,
    StepCounterHook,
    SummarySaverHook,
)
from sparkflow.train.scaffold import Scaffold
from sparkflow.train.session_manager import SessionManager
from sparkflow.train.session_run_hook import SessionRunArgs, SessionRunContext, SessionRunHook, SessionRunValues
from sparkflow.train.signal_hook import CheckpointOnSignalHook
from sparkflow.train.supervisor import Supervisor
from sparkflow.train.sync_replicas import SyncReplicasOptimizer
from sparkflow.train.training_util import (
    assert_global_step,
    create_global_step,
    get_global_step,
    get_or_create_global_step,
    global_step,
)
from sparkflow.train.warm_start import init_from_checkpoint
from sparkflow.train.warm_starting import VocabInfo, warm_start
from sparkflow_runtime.wire.cluster import ClusterSpec
from sparkflow_runtime.wire.example_proto import (
    BytesList,
    Example,
    Feature,
    FeatureList,
    FeatureLists,
    Features,
    FloatList,
    Int64List,
    SequenceExample,
)
from sparkflow_runtime.wire.protos import ClusterDef, JobDef
from sparkflow_runtime.wire.server_def import ServerDef

SummaryWriter = FileWriter  # its name before 1.0
experimental = _SimpleNamespace(
    DynamicLossScale=_loss_scale.DynamicLossScale,
    FixedLossScale=_loss_scale.FixedLossScale,
    LossScale=_loss_scale.LossScale,
    MixedPrecisionLossScaleOptimizer=_loss_scale.MixedPrecisionLossScaleOptimizer,
    disable_mixed_precision_graph_rewrite=_loss_scale.disable_mixed_precision_graph_rewrite,
    enable_mixed_precision_graph_rewrite=_loss_scale.enable_mixed_precision_graph_rewrite,
)
