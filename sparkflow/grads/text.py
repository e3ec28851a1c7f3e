"""Text, summaries and Python's functions have no slope: a gradient stops at them, as at a list of labels."""

from __future__ import annotations

from sparkflow.grads.registry import not_differentiable

not_differentiable(
    *("AsString", "StringToNumber", "DecodeRaw", "EncodeBase64", "DecodeBase64"),
    *("StringJoin", "StringSplit", "ReduceJoin", "RegexReplace", "StringFormat", "StringNGrams"),
    *("DecodeWav", "EncodeWav"),
    *("StringToHashBucket", "StringToHashBucketFast", "StringToHashBucketStrong"),
    *("ScalarSummary", "HistogramSummary", "ImageSummary", "AudioSummaryV2", "MergeSummary"),
    *("TensorSummary", "TensorSummaryV2", "PrintV2"),
    *("PyFunc", "PyFuncStateless"),
)
