"""tf.strings."""

from sparkflow.ops.printing import string_format as format
from sparkflow.ops.strings import (
    as_string,
    join,
    length,
    lower,
    reduce_join,
    regex_full_match,
    regex_replace,
    split,
    substr,
    unicode_transcode,
    unsorted_segment_join,
    upper,
)
from sparkflow.ops.strings import string_strip as strip
from sparkflow.ops.strings import string_to_hash_bucket as to_hash_bucket
from sparkflow.ops.strings import string_to_hash_bucket_fast as to_hash_bucket_fast
from sparkflow.ops.strings import string_to_hash_bucket_strong as to_hash_bucket_strong
from sparkflow.ops.strings import string_to_number as to_number
from sparkflow.ops.strings_parts import bytes_split, ngrams
from sparkflow.ops.strings_unicode import (
    unicode_decode,
    unicode_decode_with_offsets,
    unicode_encode,
    unicode_split,
    unicode_split_with_offsets,
)
