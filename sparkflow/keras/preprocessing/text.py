"""tf.keras.preprocessing.text: words as numbers."""

from __future__ import annotations

import hashlib
import json
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Any

import numpy as np

_MARKS = '!"#$%&()*+,-./:;<=>?@[\\]^_`{|}~\t\n'
_MAPS = ("word_counts", "word_docs", "index_docs", "index_word", "word_index")


def text_to_word_sequence(text: str, filters: str = _MARKS, lower: bool = True, split: str = " ") -> list[str]:
    """The words between `split`, without the characters of `filters`."""
    text = text.lower() if lower else text
    return [w for w in text.translate({ord(c): split for c in filters}).split(split) if w]


def hashing_trick(
    text: str, n: int, hash_function: Any = None, filters: str = _MARKS, lower: bool = True, split: str = " "
) -> list[int]:
    """A number from 1 to n - 1 for each word. hash_function: Python's `hash` by default, "md5", or a function."""
    function: Callable[[str], int] = hash if hash_function is None else hash_function
    if hash_function == "md5":
        function = lambda w: int(hashlib.md5(w.encode()).hexdigest(), 16)  # noqa: E731
    return [function(w) % (n - 1) + 1 for w in text_to_word_sequence(text, filters, lower, split)]


def one_hot(text: str, n: int, filters: str = _MARKS, lower: bool = True, split: str = " ") -> list[int]:
    return hashing_trick(text, n, None, filters, lower, split)


class Tokenizer:
    """Numbers for words, from 1 on, the most frequent first. num_words: only those below it are used. oov_token: a word
    for all that are not known, number 1. char_level: characters are the words."""

    def __init__(
        self,
        num_words: int | None = None,
        filters: str = _MARKS,
        lower: bool = True,
        split: str = " ",
        char_level: bool = False,
        oov_token: str | None = None,
        document_count: int = 0,
        **kwargs: Any,
    ):
        kwargs.pop("analyzer", None)
        if kwargs:
            raise TypeError(f"Unrecognized keyword arguments: {sorted(kwargs)}")
        self.num_words, self.filters, self.lower, self.split = num_words, filters, lower, split
        self.char_level, self.oov_token, self.document_count = char_level, oov_token, document_count
        self.word_counts: Counter[str] = Counter()
        self.word_docs: Counter[str] = Counter()
        self.word_index: dict[str, int] = {}
        self.index_word: dict[int, str] = {}
        self.index_docs: dict[int, int] = {}

    def _words(self, text: Any) -> list[str]:
        if self.char_level or isinstance(text, (list, tuple)):
            return [w.lower() if self.lower else w for w in text]
        return text_to_word_sequence(text, self.filters, self.lower, self.split)

    def fit_on_texts(self, texts: Iterable[Any]) -> None:
        """Count the words of texts, or of lists of words; again, on further ones."""
        for text in texts:
            words = self._words(text)
            self.document_count += 1
            self.word_counts.update(words)
            self.word_docs.update(set(words))
        ordered = [w for w, _ in sorted(self.word_counts.items(), key=lambda item: -item[1])]
        ordered = [*([] if self.oov_token is None else [self.oov_token]), *ordered]
        self.word_index = {w: i for i, w in reversed(list(enumerate(ordered, 1)))}
        self.word_index = dict(sorted(self.word_index.items(), key=lambda item: item[1]))
        self.index_word = {i: w for w, i in self.word_index.items()}
        self.index_docs = {self.word_index[w]: n for w, n in self.word_docs.items()}

    def texts_to_sequences(self, texts: Iterable[Any]) -> list[list[int]]:
        return list(self.texts_to_sequences_generator(texts))

    def texts_to_sequences_generator(self, texts: Iterable[Any]) -> Iterator[list[int]]:
        unknown = self.word_index.get(self.oov_token) if self.oov_token is not None else None
        for text in texts:
            found = [self.word_index.get(w) for w in self._words(text)]
            most = self.num_words
            known = [i if i is not None and not (most and i >= most) else unknown for i in found]
            yield [i for i in known if i is not None]

    def sequences_to_texts(self, sequences: Iterable[Iterable[int]]) -> list[str]:
        unknown = self.word_index.get(self.oov_token) if self.oov_token is not None else None
        texts = []
        for sequence in sequences:
            words = []
            for i in sequence:
                known = i in self.index_word and not (self.num_words and i >= self.num_words)
                if known or unknown is not None:
                    words.append(self.index_word[i if known else unknown])  # type: ignore[index]
            texts.append(" ".join(words))
        return texts

    def texts_to_matrix(self, texts: Iterable[Any], mode: str = "binary") -> np.ndarray:
        return self.sequences_to_matrix(self.texts_to_sequences(texts), mode)

    def sequences_to_matrix(self, sequences: Sequence[Sequence[int]], mode: str = "binary") -> np.ndarray:
        """A row for each, a column for each word. mode: "binary", "count", "freq" (by the length) or "tfidf"."""
        if mode not in ("binary", "count", "freq", "tfidf"):
            raise ValueError(f"Unknown vectorization mode: {mode!r}; it is binary, count, freq or tfidf")
        if not self.num_words and not self.word_index:
            raise ValueError("Specify a dimension (`num_words` argument), or fit on some text data first.")
        if mode == "tfidf" and not self.document_count:
            raise ValueError("Fit the Tokenizer on some data before using tfidf mode.")
        width = self.num_words or len(self.word_index) + 1
        out = np.zeros((len(sequences), width))
        for row, sequence in zip(out, sequences):
            for i, count in Counter(j for j in sequence if j < width).items():
                if mode == "tfidf":
                    seen = np.log(1 + self.document_count / (1 + self.index_docs.get(i, 0)))
                    row[i] = (1 + np.log(count)) * seen
                else:
                    row[i] = {"binary": 1, "count": count, "freq": count / len(sequence)}[mode]
        return out

    def get_config(self) -> dict[str, Any]:
        plain = ("num_words", "filters", "lower", "split", "char_level", "oov_token", "document_count")
        return {**{k: getattr(self, k) for k in plain}, **{k: json.dumps(getattr(self, k)) for k in _MAPS}}

    def to_json(self, **kwargs: Any) -> str:
        return json.dumps({"class_name": "Tokenizer", "config": self.get_config()}, **kwargs)


def tokenizer_from_json(json_string: str) -> Tokenizer:
    config = json.loads(json_string)["config"]
    maps = {
        k: json.loads(config.pop(k)) for k in ("word_counts", "word_docs", "index_docs", "index_word", "word_index")
    }
    made = Tokenizer(**config)
    made.word_counts, made.word_docs = Counter(maps["word_counts"]), Counter(maps["word_docs"])
    made.word_index = maps["word_index"]
    made.index_docs = {int(k): v for k, v in maps["index_docs"].items()}
    made.index_word = {int(k): v for k, v in maps["index_word"].items()}
    return made
