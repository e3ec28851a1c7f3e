"""tf.contrib.lookup: tf.lookup's tables, and tables of vocabularies."""

from sparkflow.ops.lookup import (
    FastHashSpec,
    HasherSpec,
    HashTable,
    IdTableWithHashBuckets,
    LookupInterface,
    StrongHashSpec,
)
from sparkflow.ops.lookup_initializers import (
    KeyValueTensorInitializer,
    TableInitializerBase,
    TextFileIdTableInitializer,
    TextFileIndex,
    TextFileInitializer,
    TextFileStringTableInitializer,
)
from sparkflow.ops.lookup_mutable import MutableHashTable
from sparkflow.ops.lookup_vocabulary import (
    index_table_from_file,
    index_table_from_tensor,
    index_to_string_table_from_file,
    index_to_string_table_from_tensor,
)
