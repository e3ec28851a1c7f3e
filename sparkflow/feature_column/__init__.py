"""tf.feature_column: from features as data has them to what a model takes."""

from sparkflow.feature_column.categorical import (
    categorical_column_with_hash_bucket,
    categorical_column_with_identity,
    categorical_column_with_vocabulary_file,
    categorical_column_with_vocabulary_list,
    weighted_categorical_column,
)
from sparkflow.feature_column.crossed import crossed_column
from sparkflow.feature_column.embedding import embedding_column, indicator_column, shared_embedding_columns
from sparkflow.feature_column.models import input_layer, linear_model, make_parse_example_spec
from sparkflow.feature_column.numeric import bucketized_column, numeric_column
from sparkflow.feature_column.sequence import (
    sequence_categorical_column_with_hash_bucket,
    sequence_categorical_column_with_identity,
    sequence_categorical_column_with_vocabulary_file,
    sequence_categorical_column_with_vocabulary_list,
    sequence_numeric_column,
)
