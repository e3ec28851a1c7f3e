"""tf.contrib.legacy_seq2seq: sequences as lists of tensors, one a step, unrolled."""

from sparkflow.contrib.legacy_seq2seq.decoders import (
    attention_decoder,
    embedding_attention_decoder,
    embedding_rnn_decoder,
    rnn_decoder,
)
from sparkflow.contrib.legacy_seq2seq.loss import model_with_buckets, sequence_loss, sequence_loss_by_example
from sparkflow.contrib.legacy_seq2seq.models import (
    basic_rnn_seq2seq,
    embedding_attention_seq2seq,
    embedding_rnn_seq2seq,
    embedding_tied_rnn_seq2seq,
    one2many_rnn_seq2seq,
    tied_rnn_seq2seq,
)
