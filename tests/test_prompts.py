"""Orders, pieces, the chat style and tokenisation that user text cannot break out of."""

from __future__ import annotations

import random
from unittest import mock

import pytest
from hypothesis import given
from hypothesis import strategies as st

from reflex.backbones.random_model import byte_tokenizer
from reflex.backbones.tokens import PromptTokenizer
from reflex.contract import Choice, Noul, Score
from reflex.errors import ConfigError, ReadoutError
from reflex.prompts.orders import OrdersConfig, check_orders, option_orders
from reflex.prompts.pieces import Piece, Template, join
from reflex.prompts.styles.chat import ChatStyle
from tests.harmless import CONTROL, spelling

TOKENS = PromptTokenizer(byte_tokenizer(thinks=True))
SPELL = spelling(byte_tokenizer(thinks=True))


def choice(n: int) -> Choice:
    return Choice(criteria={f"o{i}": None for i in range(n)})


# -- orders ------------------------------------------------------------------------------------


@given(st.integers(1, 40), st.integers(1, 8), st.integers(0, 5))
def test_orders_are_distinct_permutations_identity_first(n: int, k: int, seed: int) -> None:
    orders = option_orders(OrdersConfig(permutations=k, seed=seed), choice(n))
    assert orders[0] == tuple(range(n))
    assert len(set(orders)) == len(orders)
    assert all(sorted(order) == list(range(n)) for order in orders)
    limit = {1: 1, 2: 2, 3: 6}.get(n, 24)
    assert len(orders) == min(k, limit)
    assert orders == option_orders(OrdersConfig(permutations=k, seed=seed), choice(n))


def test_orders_are_drawn_as_documented() -> None:
    """By seed and by what is asked: the id has no part in it."""
    order = list(range(5))
    random.Random(f"3:{choice(5).model_dump_json()}").shuffle(order)
    orders = option_orders(OrdersConfig(permutations=2, seed=3), choice(5))
    assert orders == ((0, 1, 2, 3, 4), tuple(order))


def test_lone_surrogates_have_orders_too() -> None:
    odd = Choice(instructions="\ud800", criteria={"a\udfff": None, "b": None, "c": None})
    assert len(option_orders(OrdersConfig(permutations=3), odd)) == 3


def test_two_options_swap_and_noul_has_at_most_two_orders() -> None:
    assert option_orders(OrdersConfig(permutations=2), choice(2)) == ((0, 1), (1, 0))
    noul = Noul(instructions="?")
    assert option_orders(OrdersConfig(permutations=8), noul) == ((0, 1), (1, 0))


def test_reversed_cyclic_and_fixed_score_levels() -> None:
    assert option_orders(OrdersConfig(kind="reversed"), choice(3)) == ((0, 1, 2), (2, 1, 0))
    assert tuple(option_orders(OrdersConfig(kind="cyclic"), choice(3))) == (
        (0, 1, 2),
        (1, 2, 0),
        (2, 0, 1),
    )
    many = option_orders(OrdersConfig(kind="cyclic"), choice(20_000))  # all at once would be 3 GB
    assert len(many) == 20_000
    assert many[-1] == (19_999, *range(19_999))
    fixed = OrdersConfig(permutations=4, permute_score=False)
    assert option_orders(fixed, Score(criteria=["a", "b", "c"])) == ((0, 1, 2),)


def test_there_are_never_more_orders_than_permutations() -> None:
    assert len(option_orders(OrdersConfig(permutations=800), choice(5))) == 120
    with mock.patch("reflex.prompts.orders.math.factorial", side_effect=lambda n: min(n, 9)):
        assert len(option_orders(OrdersConfig(permutations=10**9), choice(9))) == 9


def test_a_request_may_ask_for_its_own_number_of_orders() -> None:
    assert len(option_orders(OrdersConfig(permutations=1), choice(5), permutations=3)) == 3


@pytest.mark.parametrize(
    "config",
    [OrdersConfig(permutations=0), OrdersConfig(permutations=9), OrdersConfig(kind="random")],
)
def test_bad_orders_are_refused(config: OrdersConfig) -> None:
    with pytest.raises(ConfigError, match="orders"):
        check_orders(config)


# -- the chat style ----------------------------------------------------------------------------


def text_of(pieces: tuple[Piece, ...]) -> str:
    return "".join(piece.text for piece in pieces)


def test_chat_prompt_reads_as_one_conversation() -> None:
    style = ChatStyle()
    prefix = text_of(style.prefix(TOKENS.template, {"b": 1, "a": "é"}))
    branch = text_of(
        style.branch(
            TOKENS.template,
            Choice(instructions="Which?", criteria={"x": "first", "y": None}),
            [("A", "x: first"), ("B", "y")],
            "label_ask",
        )
    )
    assert prefix.startswith("<|im_start|>system\nYou are")
    assert prefix.endswith('# Evidence\n{\n  "b": 1,\n  "a": "é"\n}\n\n')
    assert branch.startswith("# Question\nWhich?\n\n# Options\nA. x: first\nB. y\n\nReply")
    assert branch.endswith("<|im_end|>\n<|im_start|>assistant\n<think>\n\n</think>\n\n")


def test_option_texts_of_each_type() -> None:
    style = ChatStyle()
    assert style.option_texts(Choice(criteria={"a": "d", "b": None, "c": ""})) == ("a: d", "b", "c")
    assert style.option_texts(Score(criteria=["lo", {"k": 1}])) == (
        "(level 0 of 1) lo",
        '(level 1 of 1) {"k": 1}',
    )
    noul = Noul.model_validate({"type": "noul", "criteria": {"true": "it holds"}})
    assert style.option_texts(noul) == ("yes: it holds", "no")


def test_components_are_overridden_by_name_and_braces_survive() -> None:
    style = ChatStyle(texts={"score_level": "{{i}} level {i}/{n} {x}"})
    assert style.option_texts(Score(criteria=["lo", "hi"]))[1] == "{1} level 1/1 {x} hi"
    with pytest.raises(ConfigError, match=r"prompt\.texts\.nonsense"):
        ChatStyle(texts={"nonsense": "x"})
    assert ChatStyle().fingerprint() != style.fingerprint()


def test_prefix_components_cannot_vary_inside_a_request() -> None:
    with pytest.raises(ConfigError, match="system_prompt"):
        ChatStyle().with_texts({"system_prompt": "other"})
    assert ChatStyle().with_texts({"label_ask": "Letter?"}).words["label_ask"] == "Letter?"


def test_without_a_template_the_answer_cue_and_spaced_labels() -> None:
    style, template = ChatStyle(), Template("", "", "", answers_after_turn=False)
    branch = text_of(style.branch(template, Noul(instructions="Q?"), [("A", "yes")], "label_ask"))
    assert branch.endswith("\n\nAnswer:")
    assert style.label_prefix(template) == " "


# -- tokens ------------------------------------------------------------------------------------


MARKUP = st.sampled_from(["<", "|", "im_end", "im_start", "|>", "<think>", "</", ">", "a", "\n"])


@given(st.lists(MARKUP, max_size=12).map("".join))
def test_user_text_never_becomes_a_control_token(text: str) -> None:
    control = set(TOKENS._control_ids)
    ids = TOKENS.encode([Piece("<|im_start|>", control=True), Piece(text)])
    assert ids[0] in control
    assert not control & set(ids[1:])
    assert list(ids[1:]) == SPELL(text)


@pytest.mark.parametrize("marker", CONTROL)
def test_a_control_token_is_its_characters(marker: str) -> None:
    ids = TOKENS.encode_plain(marker)
    assert ids == SPELL(marker) == [i for char in marker for i in SPELL(char)]
    assert TOKENS._plain.decode(ids) == marker
    assert TOKENS.encode([Piece(marker, control=True)]) != tuple(ids)


def test_lone_surrogates_and_nuls_are_text() -> None:
    assert TOKENS.encode_plain("a\ud800b") == TOKENS.encode_plain("a?b")
    assert len(TOKENS.encode_plain("a\x00b")) == 3


def test_labels_must_be_one_token() -> None:
    assert TOKENS.single_tokens(("A", "AB", "BQ"), "") == ("A", "AB")
    with pytest.raises(ReadoutError, match="'BQ' is 2 tokens"):
        TOKENS.label_id("BQ")


def test_joining_keeps_control_apart() -> None:
    pieces = join([Piece("a"), Piece(""), Piece("b"), Piece("<x>", control=True), Piece("c")])
    assert pieces == (Piece("ab"), Piece("<x>", control=True), Piece("c"))


def test_templates_are_taken_apart() -> None:
    plain = byte_tokenizer(thinks=False)
    assert PromptTokenizer(plain).template.after == "<|im_end|>\n<|im_start|>assistant\n"
    plain.chat_template = (
        "{% if messages[0].role == 'system' %}{{ raise_exception('no system') }}{% endif %}"
        "[INST]{{ messages[0].content }}[/INST]"
    )
    assert PromptTokenizer(plain).template == Template("[INST]", "\n\n", "[/INST]", True)
    plain.chat_template = None
    assert PromptTokenizer(plain).template.answers_after_turn is False
