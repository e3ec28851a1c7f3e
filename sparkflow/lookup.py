"""tf.lookup: tables of words and ids."""

from sparkflow.ops.lookup import StaticHashTable, StaticVocabularyTable
from sparkflow.ops.lookup_initializers import KeyValueTensorInitializer, TextFileIndex, TextFileInitializer
from sparkflow.ops.lookup_mutable import DenseHashTable, MutableHashTable


class experimental:
    """tf.lookup.experimental."""

    DenseHashTable = DenseHashTable
    MutableHashTable = MutableHashTable
