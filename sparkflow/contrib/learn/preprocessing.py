"""tf.contrib.learn.preprocessing: texts as rows of word or byte numbers."""

from __future__ import annotations

import json
import re
from collections import Counter
from collections.abc import Callable, Iterable, Iterator
from typing import Any

import numpy as np

_TOKENS = re.compile(r"[A-Z]{2,}(?![a-z])|[A-Z][a-z]+(?=[A-Z])|['\w\-]+")
_UNKNOWN = "<UNK>"


def tokenizer(iterator: Iterable[str]) -> Iterator[list[str]]:
    """The words of each text: letters, digits, ' and -; CamelCase is two words."""
    return (_TOKENS.findall(text) for text in iterator)


class CategoricalVocabulary:
    """Numbers for words, in the order in which they come; 0 is the unknown one."""

    def __init__(self, unknown_token: str = _UNKNOWN, support_reverse: bool = True):
        self._words, self._reverses, self._frozen = [unknown_token], support_reverse, False
        self._mapping, self._freq = {unknown_token: 0}, Counter[str]()

    def __len__(self) -> int:
        return len(self._words)

    def freeze(self, freeze: bool = True) -> None:
        """No word is added by `get` from now on."""
        self._frozen = freeze

    def get(self, category: str) -> int:
        """Its number, a new one unless frozen; then 0."""
        if category not in self._mapping:
            if self._frozen:
                return 0
            self._mapping[category] = len(self._words)
            self._words.append(category)
        return self._mapping[category]

    def add(self, category: str, count: int = 1) -> None:
        """It was seen so many times more."""
        if self.get(category) > 0:
            self._freq[category] += count

    def trim(self, min_frequency: int, max_frequency: int = -1) -> None:
        """Keep what was seen more often than min_frequency (and less often than max_frequency, above 0), numbered anew
        from the most frequent on; those of one frequency by their names."""
        kept = [
            (word, n)
            for word, n in sorted(self._freq.items(), key=lambda pair: (-pair[1], pair[0]))
            if n > min_frequency and (max_frequency <= 0 or n < max_frequency)
        ]
        self._words = [self._words[0], *(word for word, _ in kept)]
        self._mapping = {word: i for i, word in enumerate(self._words)}
        self._freq = Counter(dict(kept))

    def reverse(self, class_id: int) -> str:
        """The word of a number. Raises ValueError without support_reverse."""
        if not self._reverses:
            raise ValueError("This vocabulary wasn't initialized with support_reverse to support reverse() function.")
        return self._words[class_id]


class VocabularyProcessor:
    """Texts as arrays [max_document_length] of int64 word numbers, cut or filled up with 0.

    min_frequency: words seen so many times or less are unknown. vocabulary_: a CategoricalVocabulary.
    """

    def __init__(
        self, max_document_length: int, min_frequency: int = 0, vocabulary: CategoricalVocabulary | None = None,
        tokenizer_fn: Callable[[Iterable[str]], Iterable[list[str]]] | None = None,
    ):  # fmt: skip
        self.max_document_length, self.min_frequency = max_document_length, min_frequency
        self.vocabulary_ = vocabulary or CategoricalVocabulary()
        self._tokenizer = tokenizer_fn or tokenizer

    def fit(self, raw_documents: Iterable[str], unused_y: Any = None) -> VocabularyProcessor:
        """Number the words of these texts, and no others afterwards."""
        for tokens in self._tokenizer(raw_documents):
            for token in tokens:
                self.vocabulary_.add(token)
        if self.min_frequency > 0:
            self.vocabulary_.trim(self.min_frequency)
        self.vocabulary_.freeze()
        return self

    def fit_transform(self, raw_documents: Iterable[str], unused_y: Any = None) -> Iterator[np.ndarray]:
        self.fit(raw_documents)
        return self.transform(raw_documents)

    def transform(self, raw_documents: Iterable[str]) -> Iterator[np.ndarray]:
        """An array for each text."""
        for tokens in self._tokenizer(raw_documents):
            ids = [self.vocabulary_.get(token) for token in list(tokens)[: self.max_document_length]]
            yield np.pad(np.array(ids, np.int64), (0, self.max_document_length - len(ids)))

    def reverse(self, documents: Iterable[Iterable[int]]) -> Iterator[str]:
        """The texts again, in known words."""
        return (" ".join(self.vocabulary_.reverse(i) for i in ids) for ids in documents)

    def save(self, filename: str) -> None:
        """To a JSON file, without tokenizer_fn."""
        vocabulary = self.vocabulary_
        content = {
            "max_document_length": self.max_document_length, "min_frequency": self.min_frequency,
            "words": vocabulary._words, "frequencies": vocabulary._freq,
        }  # fmt: skip
        with open(filename, "w", encoding="utf-8") as file:
            json.dump(content, file)

    @classmethod
    def restore(cls, filename: str, tokenizer_fn: Any = None) -> VocabularyProcessor:
        """What `save` wrote; give the tokenizer_fn again if there was one."""
        with open(filename, encoding="utf-8") as file:
            content = json.load(file)
        vocabulary = CategoricalVocabulary()
        vocabulary._words, vocabulary._freq = content["words"], Counter(content["frequencies"])
        vocabulary._mapping = {word: i for i, word in enumerate(vocabulary._words)}
        vocabulary.freeze()
        return cls(content["max_document_length"], content["min_frequency"], vocabulary, tokenizer_fn)


class ByteProcessor:
    """Texts as arrays [max_document_length] of uint8, their bytes in UTF-8, cut or filled up with 0."""

    def __init__(self, max_document_length: int):
        self.max_document_length = max_document_length

    def fit(self, x: Any) -> None:
        """Nothing is learned."""

    def fit_transform(self, x: Iterable[str | bytes]) -> Iterator[np.ndarray]:
        return self.transform(x)

    def transform(self, x: Iterable[str | bytes]) -> Iterator[np.ndarray]:
        for text in x:
            data = (text.encode() if isinstance(text, str) else text)[: self.max_document_length]
            yield np.frombuffer(data.ljust(self.max_document_length, b"\0"), np.uint8)

    def reverse(self, x: Iterable[np.ndarray]) -> Iterator[str]:
        """The texts again, '' for what is no UTF-8."""
        for row in x:
            try:
                yield np.asarray(row, np.uint8).tobytes().rstrip(b"\0").decode()
            except UnicodeDecodeError:
                yield ""
