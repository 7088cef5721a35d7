"""Sentences of encyclopedia passages and news that derived sources edit, and the edits themselves."""

from __future__ import annotations

import random
import re
from collections.abc import Callable, Iterator, Mapping
from typing import Any

LICENCE = "CC BY-NC 4.0; CC BY-SA 3.0; CC BY-SA 4.0; Microsoft Research data licence"
"""Of the files below."""

PASSAGES = "passages"
"""What anli, fever_*, snli, mrpc and the sources made from their rows are split by (`Source.texts`)."""

FILES = {
    "train/anli_test.jsonl": ("evidence",),
    "train/fever_symmetric_dev.jsonl": ("evidence", "claim"),
    "train/fever_adversarial.jsonl": ("evidence",),
    "train/mrpc_train.jsonl": ("sentence_1", "sentence_2"),
    "train/snli_dev.jsonl": ("premise",),
}
_END = re.compile(r"(?<=[a-z0-9)][.!?])\s+(?=[A-Z])|(?<= \.)\s+(?=[A-Z])")
_NUMBER = re.compile(
    r"(?<![\w.,#&$-])\d{1,3}(?:,\d{3})+(?![\w.,-])|(?<![\w.,#&$-])\d{1,6}(?![\w,-]|\.\d)"
)
_STOP = frozenset(
    "the a an of in on at to for and or but is was were are be been by with from as that this it its his her "
    "their he she they which who whom whose not no has have had do does did will would can could may might "
    "into than then there here also about after before over under between during more most less least".split()
)


_LINKS = frozenset(("and", "or", "a", "an", "the", ""))
"""Words between two that may trade places without a change of meaning."""


def sentences(
    read: Callable[[str], Iterator[Mapping[str, Any]]],
) -> Iterator[tuple[str, str, str]]:
    """(passage, sentence, group of the row they stand in): each sentence once, 8 to 40 words long.

    A row's group is its first field, as in the source that the file belongs to.
    """
    seen: set[str] = set()
    for passage, sentence, group in standing(read):
        if sentence not in seen:
            seen.add(sentence)
            yield passage, sentence, group


def standing(
    read: Callable[[str], Iterator[Mapping[str, Any]]],
) -> Iterator[tuple[str, str, str]]:
    """As `sentences`, every sentence as often as it stands anywhere."""
    for name, fields in FILES.items():
        for raw in read(name):
            for field in fields:
                for sentence in _END.split(raw[field]):
                    sentence = sentence.strip()
                    if 8 <= len(sentence.split()) <= 40:
                        yield raw[field], sentence, raw[fields[0]]


def swap_words(sentence: str, rng: random.Random) -> str | None:
    """Two content words of the same shape trade places: the same words, another meaning."""
    words = sentence.split()
    groups: dict[str, list[int]] = {}
    shapes = [_shape(word) for word in words]
    for i, shape in enumerate(shapes):
        if i > 0 and shape is not None:
            groups.setdefault(shape, []).append(i)

    def listed(i: int, j: int) -> bool:
        """Whether both are of one list or name: nothing but links and their like stands between."""
        return all(
            words[k].strip(",").lower() in _LINKS or shapes[k] == shapes[i] for k in range(i + 1, j)
        )

    pairs = [
        (i, j)
        for shape, places in groups.items()
        for i in places
        for j in places
        if i < j and words[i].strip(".,") != words[j].strip(".,") and not listed(i, j)
    ]
    if not pairs:
        return None
    i, j = rng.choice(pairs)
    first, second = words[i], words[j]
    tail_i, tail_j = _tail(first), _tail(second)
    words[i] = second.removesuffix(tail_j) + tail_i
    words[j] = first.removesuffix(tail_i) + tail_j
    return " ".join(words)


def _shape(word: str) -> str | None:
    """What a content word looks like; None for any other."""
    bare = word.strip(".,;:()\"'")
    if bare.lower() in _STOP or len(bare) < 2:
        return None
    return "number" if bare[0].isdigit() else "name" if bare[0].isupper() else bare[-2:]


def _tail(word: str) -> str:
    return word[len(word.rstrip(".,;:")) :]


_FRONT = re.compile(
    r"^((?:In|On|At|After|Before|During|As of|Since|Until|By|For) [^,]{3,40}?) ?, (.+?)( ?\.)?$"
)
_LISTED = re.compile(r"(?<![\w,] )\b([A-Z]\w+|\w+) and ([A-Z]\w+|\w+)\b")
_SAME = (
    (" because ", " since "),
    (" began ", " started "),
    (" located in ", " situated in "),
    (" such as ", " like "),
    (" big ", " large "),
    (" is not ", " isn't "),
    (" was not ", " wasn't "),
    (" did not ", " didn't "),
    (" film ", " movie "),
    (" wrote ", " authored "),
    (" near ", " close to "),
    (" known as ", " called "),
    (" whereas ", " while "),
    (" said ", " stated "),
    (" two ", " 2 "),
    (" three ", " 3 "),
    (" four ", " 4 "),
    (" bought ", " purchased "),
    (" took part ", " participated "),
    (" last year ", " the previous year "),
    (" United States ", " USA "),
    (" kids ", " children "),
    (" guy ", " man "),
    (" sits ", " is seated "),
    (" approximately ", " roughly "),
    (" born in ", " born at "),
)


def reword(sentence: str, rng: random.Random) -> str | None:
    """The same meaning in other words or another order, or None where no rule applies."""
    found = []
    if match := _FRONT.match(sentence):
        front, rest, end = match.groups()
        found.append(f"{rest} {front[0].lower()}{front[1:]}{end or ''}")
    for match in _LISTED.finditer(sentence):
        one, two = match.groups()
        alike = (one[0].isupper() == two[0].isupper() and one[-2:] == two[-2:]) or (
            one[0].isupper() and two[0].isupper()
        )
        if alike and not {one.lower(), two.lower()} & _STOP:
            found.append(f"{sentence[: match.start()]}{two} and {one}{sentence[match.end() :]}")
    same = sentence
    for one, two in _SAME:
        if one in same:
            same = same.replace(one, two, 1)
    if same != sentence:
        found += [same, same]
    if not found:
        return None
    chosen = rng.choice(found)
    if rng.random() < 0.5:  # two rewordings at once where possible
        for one, two in _SAME:
            chosen = (
                chosen.replace(one, two, 1) if one in chosen and two not in sentence else chosen
            )
    return chosen


_AUXILIARY = re.compile(
    r"\b(is|are|was|were|has been|have been|had been|can|could|will|would)\b(?! not\b)"
)
_NEGATIVE = re.compile(r"\b(?:not|never|no|none|nobody|nothing|neither|nor|without)\b|n't\b", re.I)
_BOUND = re.compile(
    r"\b(?:only|just|all|every|always|some|sometimes|either|at least|both|or)\b", re.I
)


def negate(claim: str) -> str | None:
    """The claim with `not` after its first auxiliary, or None where that need not reverse it: it is negative
    already, speaks of all or some, or has no auxiliary or several."""
    found = list(_AUXILIARY.finditer(claim))
    if len(found) != 1 or _NEGATIVE.search(claim) or _BOUND.search(claim):
        return None
    place = found[0].start() + len(found[0].group().split()[0])
    return f"{claim[:place]} not{claim[place:]}"


def numbers(sentence: str) -> list[tuple[int, int, int]]:
    """(start, end, value) of the plain integers of a sentence."""
    return [
        (m.start(), m.end(), int(m.group().replace(",", ""))) for m in _NUMBER.finditer(sentence)
    ]
