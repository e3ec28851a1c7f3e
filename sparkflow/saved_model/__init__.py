"""tf.saved_model: a graph with its variables and signatures in a folder, for serving."""

from sparkflow.saved_model import (
    builder,
    constants,
    loader,
    main_op,
    signature_constants,
    signature_def_utils,
    tag_constants,
    utils,
)
from sparkflow.saved_model.builder import Builder, simple_save
from sparkflow.saved_model.constants import *
from sparkflow.saved_model.loader import contains_saved_model, load, maybe_saved_model_directory
from sparkflow.saved_model.main_op import main_op_with_restore
from sparkflow.saved_model.objects import Asset, load_v2, save
from sparkflow.saved_model.signature_constants import *
from sparkflow.saved_model.signature_def_utils import (
    build_signature_def,
    classification_signature_def,
    is_valid_signature,
    predict_signature_def,
    regression_signature_def,
)
from sparkflow.saved_model.tag_constants import GPU, SERVING, TPU, TRAINING
from sparkflow.saved_model.utils import build_tensor_info, get_tensor_from_tensor_info
