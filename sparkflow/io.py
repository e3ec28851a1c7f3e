"""tf.io: files, records and serialized messages under the names of later TensorFlow 1 versions."""

from sparkflow import files as gfile
from sparkflow.ops.array_odds import decode_compressed, parse_tensor, serialize_tensor
from sparkflow.ops.data_flow import PaddingFIFOQueue, PriorityQueue, QueueBase, RandomShuffleQueue
from sparkflow.ops.files import matching_files, read_file, write_file
from sparkflow.ops.image_more import (
    decode_and_crop_jpeg,
    decode_bmp,
    decode_gif,
    decode_image,
    decode_jpeg,
    decode_png,
    encode_jpeg,
    encode_png,
    extract_jpeg_shape,
    is_jpeg,
)
from sparkflow.ops.messages import decode_proto, encode_proto
from sparkflow.ops.parsing import (
    FixedLenFeature,
    FixedLenSequenceFeature,
    SparseFeature,
    VarLenFeature,
    decode_csv,
    parse_example,
    parse_single_example,
)
from sparkflow.ops.parsing_ragged import RaggedFeature
from sparkflow.ops.parsing_sequences import parse_sequence_example, parse_single_sequence_example
from sparkflow.ops.sparse_serialized import deserialize_many_sparse, serialize_many_sparse, serialize_sparse
from sparkflow.ops.strings import decode_base64, decode_raw, encode_base64
from sparkflow.ops.strings_unicode import decode_json_example
from sparkflow.python_io import TFRecordCompressionType, TFRecordOptions, TFRecordWriter, tf_record_iterator
from sparkflow.train.graph_files import write_graph
from sparkflow.train.input import match_filenames_once
