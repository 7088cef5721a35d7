"""The human ratings suite, from a tiny archive of the same shape; the real one is marked `asset`."""

from __future__ import annotations

import hashlib
import io
import json
import tarfile
from collections import Counter
from pathlib import Path
from statistics import mean

import hydra.utils
import pytest
from hypothesis import given
from hypothesis import strategies as st
from omegaconf import OmegaConf

from reflex.assets import RegistryAsset
from reflex.benchmarks.base import Suite, limited
from reflex.benchmarks.human_ratings import HumanRatings
from reflex.contract import Choice, Noul, Score, option_keys
from reflex.data.augment import canonical_row
from reflex.data.human_ratings import FILES, QUESTIONS, join, labels_of
from reflex.data.rows import Row, items_sha256, rows_sha256
from reflex.data.sources import source
from reflex.errors import AssetError, ConfigError, DataError

TWENTY = [-4, -2, -2, -1, 0, 0, 0, 0, 1, 1, 1, 1, 1, 2, 2, 2, 3, 3, 4, 4]


def _lines(rows: list[tuple[str, str, list[int]]]) -> tuple[bytes, bytes]:
    """The two files of a family: (id, mean, text) and (id, mean, deviation, ratings)."""
    texts = "".join(f"{key}\t{mean(ratings)}\t{text}\r\n" for key, text, ratings in rows)
    rated = "".join(f"{key}\t{mean(ratings)}\t0.5\t{ratings}\r\n" for key, _, ratings in rows)
    return texts.encode(), rated.encode()


def _archive(path: Path, families: dict[str, tuple[bytes, bytes]]) -> RegistryAsset:
    """A release as it would come from the registry, put where a person would put it by hand."""
    inner = io.BytesIO()
    with tarfile.open(fileobj=inner, mode="w:gz") as archive:
        for family, stem in FILES.items():
            for part, data in zip(
                ("GroundTruth", "anonDataRatings"), families[family], strict=True
            ):
                entry = tarfile.TarInfo(f"hutto_ICWSM_2014/{stem}_{part}.txt")
                entry.size = len(data)
                archive.addfile(entry, io.BytesIO(data))
    data = inner.getvalue()
    path.mkdir(parents=True, exist_ok=True)
    with tarfile.open(path / "tiny-1.tar.gz", "w:gz") as archive:
        entry = tarfile.TarInfo("tiny-1/ratings.tar.gz")
        entry.size = len(data)
        archive.addfile(entry, io.BytesIO(data))
    digest = hashlib.sha256(data).hexdigest()
    return RegistryAsset("tiny", "1", "tiny-1/ratings.tar.gz", digest, "sdist", "MIT")


@pytest.fixture
def asset(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> RegistryAsset:
    """60 texts a family; products and news have articles of six sentences."""
    monkeypatch.setenv("REFLEX_CACHE", str(tmp_path / "cache"))
    families = {}
    for family in FILES:
        articles = family in ("products", "news")
        families[family] = _lines(
            [
                (f"{n // 6}_{n % 6}" if articles else str(n), f"{family} text {n}", TWENTY)
                for n in range(60)
            ]
        )
    return _archive(tmp_path / "cache" / "downloads", families)


def test_raters_become_three_distributions_that_agree() -> None:
    labels = labels_of(TWENTY)
    assert labels["positive"] == {"true": 0.6, "false": 0.4}
    assert labels["sentiment"] == {"negative": 0.2, "neutral": 0.2, "positive": 0.6}
    assert list(labels["rating"].values()) == [0.05, 0, 0.1, 0.05, 0.2, 0.25, 0.15, 0.1, 0.1]


@given(st.lists(st.integers(-4, 4), min_size=1, max_size=99))
def test_labels_are_distributions_with_the_raters_mean(ratings: list[int]) -> None:
    labels = labels_of(ratings)
    for name, question in QUESTIONS.items():
        assert tuple(labels[name]) == option_keys(question)
        assert sum(labels[name].values()) == pytest.approx(1, abs=1e-12)
    rated = sum((int(level) - 4) * p for level, p in labels["rating"].items())
    assert rated == pytest.approx(mean(ratings), abs=1e-12)
    assert labels["positive"]["true"] == labels["sentiment"]["positive"]
    above = sum(p for level, p in labels["rating"].items() if int(level) > 4)
    assert above == pytest.approx(labels["positive"]["true"], abs=1e-12)


def test_a_suite_has_balanced_families_three_types_and_one_split(asset: RegistryAsset) -> None:
    suite = HumanRatings(per_family=7).load_from(asset)
    assert Counter(row.family for row in suite.rows) == dict.fromkeys(FILES, 7)
    assert {row.split for row in suite.rows} == {"report"}
    assert {row.source for row in suite.rows} == {"human_ratings"}
    assert [type(q) for q in suite.rows[0].questions.values()] == [Noul, Choice, Score]
    assert [row.family for row in suite.rows[:4]] == list(FILES)
    assert suite.facts["data_sha256"] == asset.sha256
    assert suite.facts["rows"] == dict.fromkeys(FILES, 7)
    assert suite.facts["words"] == dict.fromkeys(FILES, 21)  # "tweets text 5"
    assert json.loads(json.dumps(suite.facts)) == suite.facts


def test_the_same_config_gives_the_same_rows_and_more_only_adds(asset: RegistryAsset) -> None:
    small = HumanRatings(per_family=5).load_from(asset)
    again = HumanRatings(per_family=5).load_from(asset)
    assert rows_sha256(small.rows) == rows_sha256(again.rows)
    more = HumanRatings(per_family=9).load_from(asset)
    assert more.rows[: len(small.rows)] == small.rows
    limit = HumanRatings(per_family=5, limit=6).load_from(asset)
    assert limit.rows == small.rows[:6]
    assert limit.facts["rows"] == {"tweets": 2, "movies": 2, "products": 1, "news": 1}
    one = HumanRatings(per_family=5, families=["news"]).load_from(asset)
    assert one.rows == [row for row in small.rows if row.family == "news"]
    asked = HumanRatings(per_family=5, questions=["rating"]).load_from(asset)
    assert items_sha256(asked.rows) == items_sha256(small.rows)
    assert {tuple(row.labels) for row in asked.rows} == {("rating",)}


def test_splits_share_no_article_and_cover_everything(asset: RegistryAsset) -> None:
    def load(split: str) -> Suite:
        return HumanRatings(per_family=None, split=split).load_from(asset)

    fit, report, both = load("fit"), load("report"), load("all")
    assert {row.group for row in fit.rows}.isdisjoint(row.group for row in report.rows)
    assert items_sha256(fit.rows + report.rows) == items_sha256(both.rows)
    assert len(both.rows) == 240
    articles = {row.group for row in both.rows if row.family == "news"}
    assert articles == {f"news/{n}" for n in range(10)}
    available = both.facts["families"]["tweets"]["available"]
    assert available["fit"] + available["report"] == 60


def test_what_cannot_be_trusted_is_dropped_and_counted() -> None:
    good = [("1", "fine", [1] * 20), ("2", "also &amp; &lt;3 ", [2] * 20)]
    texts, ratings = _lines(good)
    texts += b"3\t0.5\tno ratings\r\n4\t0\t  \r\n5\t-3\tmeans differ\r\n6\tx\tno mean\r\n"
    texts += b"7\t1\tFINE\r\n8\t1\tbad ratings\r\n9\tonly two\r\n1\t1\tsame id\r\n"
    texts += (
        b"11\t1\tcaf\xe9\r\n12\t1\tna\x81ve\r\n\r\n13\t1\ta\ttab\r\n14\t1\tcaf\xc3\xa9 cr\xc3\xa8me"
    )
    for key, values in [("4", "[0]"), ("5", "[1]"), ("6", "[1]"), ("7", "[1]"), ("8", "[1, 5]")]:
        ratings += f"{key}\t0\t0\t{values}\r\n".encode()
    for key in ("11", "12", "13", "14", "99"):
        ratings += f"{key}\t1\t0\t[1, 1]\r\n".encode()
    items, dropped = join(b"\xef\xbb\xbf" + texts, ratings, set())
    assert [(item.id, item.text) for item in items] == [
        ("1", "fine"),
        ("2", "also & <3"),
        ("11", "café"),
        ("13", "a\ttab"),
        ("14", "café crème"),
    ]
    assert dropped == {
        "text_without_ratings": 2,  # 3, and 8 whose ratings are not ratings
        "empty_text": 1,
        "means_disagree": 2,
        "repeated_text": 1,
        "bad_ratings": 1,
        "unreadable_line": 2,  # 9 and 12
        "repeated_id": 1,
        "ratings_without_text": 2,  # 12 and 99
    }


@pytest.mark.parametrize("ratings", ["[]", "[1.5]", "[5]", "['a']", "{}", '[true, "1"]', "nothing"])
def test_ratings_that_are_not_whole_numbers_in_range_are_bad(ratings: str) -> None:
    _, dropped = join(b"1\t1\ttext\n", f"1\t1\t0\t{ratings}\n".encode(), set())
    assert dropped == {"bad_ratings": 1, "text_without_ratings": 1}


def test_a_text_of_two_families_is_kept_once(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("REFLEX_CACHE", str(tmp_path))
    families = {
        family: _lines([("1", "Same  Text", TWENTY), ("2", f"{family} only", TWENTY)])
        for family in FILES
    }
    suite = HumanRatings(split="all").load_from(_archive(tmp_path / "downloads", families))
    assert len(suite.rows) == 5
    assert [f["dropped"] for f in suite.facts["families"].values()] == [
        {},
        *[{"repeated_text": 1}] * 3,
    ]


def test_an_empty_family_or_a_missing_file_is_an_error(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("REFLEX_CACHE", str(tmp_path))
    families = {family: _lines([("1", family, TWENTY)]) for family in FILES}
    families["news"] = (b"", b"")
    broken = _archive(tmp_path / "downloads", families)
    with pytest.raises(DataError, match=r"no usable rows of news"):
        HumanRatings().load_from(broken)
    monkeypatch.setitem(FILES, "news", "elsewhere")
    with pytest.raises(AssetError, match="has no member hutto_ICWSM_2014/elsewhere_GroundTruth"):
        HumanRatings().load_from(broken)


@pytest.mark.parametrize(
    ("change", "text"),
    [
        ({"per_family": 0}, "benchmark.per_family=0: must be at least 1"),
        ({"limit": -1}, "benchmark.limit=-1: must be"),
        ({"split": "test"}, "benchmark.split=test: use one of fit, report, all"),
        ({"families": ["tweet"]}, "benchmark.families=tweet: use one of tweets, movies"),
        ({"families": []}, "benchmark.families=.*must name at least one, and each once"),
        ({"questions": ["rating", "rating"]}, "benchmark.questions=.*once"),
    ],
)
def test_a_config_that_cannot_work_says_why(change: dict[str, object], text: str) -> None:
    with pytest.raises(ConfigError, match=text):
        HumanRatings(**change)  # type: ignore[arg-type]


def test_hydra_makes_one_from_yaml(asset: RegistryAsset) -> None:
    given = OmegaConf.create({"per_family": 3, "families": ["tweets", "news"]})
    config = OmegaConf.merge(OmegaConf.structured(HumanRatings), given)
    benchmark = hydra.utils.instantiate(config)
    assert isinstance(benchmark, HumanRatings)
    assert len(benchmark.load_from(asset).rows) == 6


def _row(source: str, number: int) -> Row:
    question = {"q": QUESTIONS["positive"]}
    return Row(str(number), "s", question, {"q": {"true": 1.0, "false": 0.0}}, source)


@given(st.integers(0, 30), st.integers(1, 12), st.integers(1, 12))
def test_a_limit_counts_per_source_and_only_grows(total: int, low: int, high: int) -> None:
    rows = [_row("ab"[n % 2], n) for n in range(total)]
    low, high = sorted((low, high))
    small = {row.id for row in limited(rows, low)}
    assert small <= {row.id for row in limited(rows, high)}
    assert len(small) == min(low, (total + 1) // 2) + min(low, total // 2)
    assert limited(rows, low) == limited(rows, low)
    assert limited(rows, None) == rows


def test_a_limit_of_nothing_is_refused() -> None:
    with pytest.raises(ConfigError, match=r"benchmark\.limit=0: must be at least 1"):
        limited([], 0)


@pytest.mark.asset
def test_the_real_suite_is_what_it_was() -> None:
    suite = HumanRatings(per_family=None, split="all").load()
    assert suite.facts["rows"] == {"tweets": 4004, "movies": 10603, "products": 3696, "news": 5116}
    families = suite.facts["families"]
    assert {name: facts["dropped"] for name, facts in families.items()} == {
        "tweets": {"means_disagree": 196},
        "movies": {"repeated_text": 2},
        "products": {"repeated_text": 12},
        "news": {"repeated_text": 74},
    }
    assert {name: facts["raters"] for name, facts in families.items()} == {
        "tweets": [20, 99],
        "movies": [15, 29],
        "products": [20, 20],
        "news": [20, 20],
    }
    first = next(row for row in suite.rows if row.id == "human_ratings/products/1_1")
    assert first.state == "troubleshooting ad-2500 and ad-2600 no picture scrolling b/w."
    assert first.labels["sentiment"] == {"negative": 0.65, "neutral": 0.35, "positive": 0.0}
    assert first.group == "products/1"


@pytest.mark.asset
def test_the_default_selection_is_what_it_was() -> None:
    suite = HumanRatings().load()
    assert Counter(row.family for row in suite.rows) == dict.fromkeys(FILES, 50)
    assert items_sha256(suite.rows).startswith("ad2f86c8dce8af4e")


def test_as_a_source_it_trains_on_what_the_suite_does_not_measure(
    asset: RegistryAsset, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("reflex.data.sources.human_ratings.HUMAN_RATINGS", asset)
    each = source("human_ratings")
    items = each.items(tmp_path)
    measured = {row.state for row in HumanRatings(per_family=None).load_from(asset).rows}
    assert {item.states[0] for split, item in items if split == "report"} == measured
    assert Counter(split for split, _ in items)["train"] > 80
    split, item = items[0]
    row = canonical_row(item, each.name, each.family, split)
    assert row.labels == labels_of(TWENTY)
    assert row.questions["positive"].instructions == QUESTIONS["positive"].instructions
    assert row.questions["sentiment"] == QUESTIONS["sentiment"]
    assert row.questions["rating"] == QUESTIONS["rating"]
    assert not any(ask.abstains for ask in item.asks.values())
