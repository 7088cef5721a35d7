"""Backbones from a folder, with an adapter, and everything that cannot be loaded."""

from __future__ import annotations

import json
import re
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import torch
from safetensors.torch import load_file, save_file

from reflex.backbones.backbone import Backbone, load_backbone
from reflex.backbones.config import BackboneConfig, DeviceConfig
from reflex.backbones.dtype import resolve_dtype
from reflex.backbones.head_check import check_head
from reflex.backbones.locate import locate
from reflex.backbones.random_model import random_model
from reflex.backbones.tokens import PromptTokenizer, chat_template, undated
from reflex.errors import BackboneError, ConfigError
from reflex.forward.config import ForwardConfig
from reflex.forward.engine import Forward
from reflex.forward.tree import Segment, Tree
from reflex.prompts.pieces import Template
from reflex.training.lora import add_lora, lora_layers, merge_all
from reflex.training.lora_config import LoraConfig
from reflex.training.save import save_adapter

CPU = DeviceConfig(dtype="float32")
IDS = torch.tensor([[72, 101, 108, 108, 111, 32, 65]])
VISION = {
    "depth": 1,
    "hidden_size": 16,
    "intermediate_size": 16,
    "num_heads": 2,
    "out_hidden_size": 64,
    "patch_size": 4,
    "num_position_embeddings": 16,
}


def saved(folder: Path, family: str = "llama", seed: int = 0) -> Path:
    model, tokenizer = random_model(family, seed)
    model.save_pretrained(folder)  # type: ignore[operator]
    tokenizer.save_pretrained(folder)
    return folder


def load(folder: Path, **extra: Any) -> Backbone:
    config = BackboneConfig(name="saved", source="folder", path=str(folder), **extra)
    return load_backbone(config, CPU)


def logits(backbone: Backbone) -> torch.Tensor:
    with torch.inference_mode():
        return backbone.model(input_ids=IDS).logits


@pytest.mark.parametrize("family", ["llama", "qwen3", "qwen3_5"])
def test_a_saved_folder_is_the_model_that_was_saved(tmp_path: Path, family: str) -> None:
    model, _ = random_model(family, 0)
    backbone = load(saved(tmp_path / "m", family))
    with torch.inference_mode():
        wanted = model.eval()(input_ids=IDS).logits
    assert torch.equal(logits(backbone), wanted)
    assert backbone.tokens.template.answers_after_turn
    assert backbone.facts.packable == (family != "qwen3_5")


@pytest.mark.parametrize("attention", ["eager", "flex_attention"])
def test_only_sdpa_packs(tmp_path: Path, attention: str) -> None:
    """The others add the block mask to the scores, where a boolean one hides nothing."""
    facts = load(saved(tmp_path / "m", "llama"), attention=attention).facts
    assert not facts.packable
    assert facts.why_not_packable == (
        f"attention={attention} is not exact with boolean block masks; use sdpa"
    )


def test_a_vision_checkpoint_of_the_hybrid_is_read_as_text(tmp_path: Path) -> None:
    """The published Qwen3.5 checkpoints are image-text models; the text part must load by itself."""
    from transformers import Qwen3_5Config, Qwen3_5ForConditionalGeneration

    text, tokenizer = random_model("qwen3_5", 0)
    config = Qwen3_5Config(text_config=text.config.to_dict(), vision_config=VISION)  # type: ignore[union-attr, operator]
    both = Qwen3_5ForConditionalGeneration(config).eval()
    both.save_pretrained(tmp_path / "vl")
    tokenizer.save_pretrained(tmp_path / "vl")
    backbone = load(tmp_path / "vl")
    with torch.inference_mode():
        assert torch.allclose(logits(backbone), both(input_ids=IDS).logits, atol=1e-5)
    assert not backbone.facts.packable
    assert backbone.facts.context_length == 4096


def image_text_model(folder: Path) -> Any:
    """A random Qwen3-VL in `folder`: a kind that transformers has no text-only class for."""
    from transformers import Qwen3VLConfig, Qwen3VLForConditionalGeneration

    like, tokenizer = random_model("qwen3", 0)
    same = "vocab_size hidden_size intermediate_size num_hidden_layers head_dim num_attention_heads"
    same += " num_key_value_heads max_position_embeddings"
    text: dict[str, Any] = {name: getattr(like.config, name) for name in same.split()}
    text["initializer_range"] = 0.2
    text["rope_parameters"] = {
        "rope_type": "default",
        "rope_theta": 10000.0,
        "mrope_section": [4, 2, 2],
    }
    vision = {**VISION, "deepstack_visual_indexes": [0]}
    with torch.random.fork_rng():
        torch.manual_seed(0)
        both = Qwen3VLForConditionalGeneration(
            Qwen3VLConfig(text_config=text, vision_config=vision, tie_word_embeddings=True)
        )
    both.eval().save_pretrained(folder)
    tokenizer.save_pretrained(folder)
    return both


def test_an_image_text_model_without_a_text_class_is_read_as_text(tmp_path: Path) -> None:
    both = image_text_model(tmp_path / "vl")
    with torch.inference_mode():
        hidden = both.model.language_model(input_ids=IDS).last_hidden_state
        wanted = hidden @ both.lm_head.weight.T
    backbone = load(tmp_path / "vl")
    assert torch.allclose(logits(backbone), wanted, atol=1e-5)
    assert float(wanted.std()) > 0.1
    assert torch.allclose(
        backbone.label_logits(hidden[0], [5, 65, 3]), wanted[0][:, [5, 65, 3]], atol=1e-5
    )
    assert type(backbone.decoder).__name__ == "Qwen3VLTextModel"
    assert not [name for name, _ in backbone.model.named_parameters() if "visual" in name]
    facts = backbone.facts
    assert (facts.packable, facts.context_length, backbone.hidden_size) == (True, 4096, 64)
    ids = [int(each) for each in IDS[0]]
    tree = Tree(tuple(ids[:4]), (Segment((9, 8), -1, (1,)), Segment(tuple(ids[4:]), -1, (0, 1, 2))))
    for strategy in ("packed", "batched", "flat"):
        with torch.inference_mode():
            (found,) = Forward(backbone, ForwardConfig(strategy=strategy)).run([tree]).hidden
        assert torch.allclose(found[1:], hidden[0, 4:], atol=1e-4)
    backbone.model.save_pretrained(tmp_path / "text")  # what a full training keeps
    backbone.tokenizer.save_pretrained(tmp_path / "text")
    assert torch.equal(logits(load(tmp_path / "text")), logits(backbone))


def test_an_image_text_model_is_trained_in_its_text_layers(tmp_path: Path) -> None:
    image_text_model(tmp_path / "vl")
    backbone, config = load(tmp_path / "vl"), LoraConfig(rank=2)
    before = logits(backbone)
    names = add_lora(backbone.model, config, seed=0)
    assert len(names) == 3 * 7
    assert all(name.startswith("model.language_model.layers.") for name in names)
    with torch.no_grad():
        for _, layer in lora_layers(backbone.model):
            torch.nn.init.normal_(layer.b, std=0.1)
    merge_all(backbone.model)
    save_adapter(backbone.model, tmp_path / "adapter", config, base=str(tmp_path / "vl"))
    adapted = load(tmp_path / "vl", adapter=str(tmp_path / "adapter"))
    assert torch.allclose(logits(adapted), logits(backbone), atol=1e-4)
    assert float((logits(adapted) - before).abs().max()) > 1e-2


@pytest.mark.parametrize("dtype", ["float32", "bfloat16", "float16"])
def test_what_is_trained_is_what_is_served(tmp_path: Path, dtype: str) -> None:
    """The update is added to the weights as stored and rounded once, in training as behind a server."""
    base, device = saved(tmp_path / "m"), DeviceConfig(dtype=dtype)
    config = BackboneConfig(name="m", source="folder", path=str(base))
    backbone = load_backbone(config, device, as_stored=True)
    lora = LoraConfig(rank=2)
    add_lora(backbone.model, lora, 0, getattr(torch, dtype))
    assert torch.equal(logits(backbone), logits(load_backbone(config, device)))
    with torch.no_grad():
        for _, layer in lora_layers(backbone.model):
            torch.nn.init.normal_(layer.b, std=0.05)
            assert {layer.a.dtype, layer.b.dtype, layer.base.dtype} == {torch.float32}
    merge_all(backbone.model)
    save_adapter(backbone.model, tmp_path / "adapter", lora, base=str(base))
    adapted = replace(config, adapter=str(tmp_path / "adapter"))
    served = load_backbone(adapted, device).model
    assert {p.dtype for p in served.parameters()} == {getattr(torch, dtype)}
    differ = of = 0
    for name, layer in lora_layers(backbone.model):
        weight = served.get_submodule(name).weight
        assert layer.weight.dtype == weight.dtype, name
        assert torch.allclose(layer.weight.float(), weight.float(), rtol=0.01, atol=1e-6), name
        differ += int((layer.weight != weight).sum())
        of += weight.numel()
    if dtype != "float32":  # what the order of a sum may move over an edge
        assert differ < 0.002 * of


def test_an_adapter_is_merged_and_changes_the_identity(tmp_path: Path) -> None:
    from peft import LoraConfig, get_peft_model

    base = saved(tmp_path / "m")
    model, _ = random_model("llama", 0)
    adapted = get_peft_model(
        model,
        LoraConfig(r=4, target_modules=["q_proj", "down_proj"], init_lora_weights=False),
    )
    adapted.save_pretrained(str(tmp_path / "adapter"))
    backbone = load(base, adapter=str(tmp_path / "adapter"))
    with torch.inference_mode():
        wanted = adapted.eval()(input_ids=IDS).logits
    assert torch.allclose(logits(backbone), wanted, atol=1e-5)
    assert float((logits(load(base)) - wanted).abs().max()) > 1e-2
    plain = locate(BackboneConfig(name="m", source="folder", path=str(base)))
    assert backbone.facts.weights_sha256 == plain.weights_sha256
    assert backbone.facts.adapter_sha256 is not None


def test_an_adapter_that_does_not_fit_is_one_line(tmp_path: Path) -> None:
    from peft import LoraConfig, get_peft_model

    base = saved(tmp_path / "m")
    release, other = tmp_path / "release", tmp_path / "release" / "adapter"
    model, _ = random_model("llama", 0)
    config = LoraConfig(r=4, target_modules=["q_proj"], layers_to_transform=[0])
    get_peft_model(model, config).save_pretrained(str(other))
    told = {
        release: f"no adapter_config.json there; did you mean {re.escape(str(release))}/adapter"
    }
    for folder, text in told.items():
        with pytest.raises(BackboneError, match=rf"^backbone\.adapter=\S+: {text}"):
            load(base, adapter=str(folder))
    weights = other / "adapter_model.safetensors"
    tensors = load_file(weights)
    for changed in (
        {name: torch.cat([tensor, tensor], -1) for name, tensor in tensors.items()},
        {name.replace("layers.0", "layers.1"): tensor for name, tensor in tensors.items()},
    ):
        save_file(changed, weights)
        with pytest.raises(BackboneError, match=r": it does not fit backbone=saved \(") as caught:
            load(base, adapter=str(other))
        assert "\n" not in str(caught.value)
    for text in ("[1]", "{", "{}"):
        (other / "adapter_config.json").write_text(text)
        with pytest.raises(BackboneError, match=r"^backbone\.adapter=") as caught:
            load(base, adapter=str(other))
        assert "\n" not in str(caught.value)


def test_label_rows_equal_the_models_own_logits(tmp_path: Path) -> None:
    for family in ("llama", "qwen3"):  # untied and tied projections
        backbone = load(saved(tmp_path / family, family))
        with torch.inference_mode():
            out = backbone.model(input_ids=IDS, output_hidden_states=True)
            hidden = out.hidden_states[-1][0]
            rows = backbone.label_logits(hidden, [5, 65, 3])
            assert torch.allclose(rows, out.logits[0][:, [5, 65, 3]].float(), atol=1e-5)
            norm = backbone.log_normalisers(hidden, rows=2)
            assert torch.allclose(norm, out.logits[0].float().logsumexp(-1), atol=1e-5)


def test_weights_hash_follows_the_content(tmp_path: Path) -> None:
    def sha(folder: Path) -> str:
        config = BackboneConfig(name="m", source="folder", path=str(folder))
        return locate(config).weights_sha256

    a, b = saved(tmp_path / "a", seed=0), saved(tmp_path / "b", seed=1)
    assert sha(a) == sha(saved(tmp_path / "again", seed=0)) != sha(b)
    (b / "training_args.bin").write_bytes(b"no weights")
    assert sha(b) == sha(saved(tmp_path / "b again", seed=1))


def test_weights_are_read_from_safetensors_only(tmp_path: Path) -> None:
    folder = saved(tmp_path / "m")
    model, _ = random_model("llama", 0)
    torch.save(model.state_dict(), folder / "pytorch_model.bin")
    assert load(folder).facts.architecture == "LlamaForCausalLM"
    (folder / "model.safetensors").unlink()
    with pytest.raises(
        BackboneError, match=r"no \*\.safetensors there, and weights in other files"
    ):
        load(folder)


@pytest.mark.parametrize(
    ("config", "message"),
    [
        (
            BackboneConfig(name="x", source="folder", path="/nowhere"),
            "no folder with a config.json",
        ),
        (BackboneConfig(name="x", source="gguf", path="/nowhere.gguf"), "no such GGUF file"),
        (BackboneConfig(name="x", source="asset", path="gpt9"), "known assets are smollm2_135m"),
        (BackboneConfig(name="x", source="random", path="gpt"), "llama, qwen3, qwen3_5"),
        (
            BackboneConfig(name="x", source="hub", path="nobody/nothing"),
            "neither a local folder nor",
        ),
    ],
)
def test_what_cannot_be_loaded_says_so_in_one_line(config: BackboneConfig, message: str) -> None:
    with pytest.raises(BackboneError, match=message) as caught:
        load_backbone(config, CPU)
    assert "\n" not in str(caught.value)


def test_broken_files_are_one_line(tmp_path: Path) -> None:
    folder = saved(tmp_path / "m")
    (folder / "model.safetensors").write_bytes(b"not tensors")
    with pytest.raises(BackboneError) as caught:
        load(folder)
    assert "\n" not in str(caught.value)

    saved(folder)
    tensors = load_file(folder / "model.safetensors")
    del tensors["model.norm.weight"]
    save_file(tensors, folder / "model.safetensors", metadata={"format": "pt"})
    with pytest.raises(BackboneError, match=r"1 weights are not in its files.*norm"):
        load(folder)
    (tmp_path / "x.gguf").write_bytes(b"GGUF nonsense")
    config = BackboneConfig(name="x", source="gguf", path=str(tmp_path / "x.gguf"))
    with pytest.raises(BackboneError, match=r"x\.gguf: not a GGUF file"):
        load_backbone(config, CPU)


def write_gguf(path: Path, model: Any, tokenizer: Any, without: str = "") -> None:
    """A Llama in float32 as the format keeps it: rotary halves of queries and keys interleaved.

    `without`: name of a tensor to leave out.
    """
    import gguf

    config, writer = model.config, gguf.GGUFWriter(path, "llama")
    writer.add_context_length(config.max_position_embeddings)
    writer.add_embedding_length(config.hidden_size)
    writer.add_block_count(config.num_hidden_layers)
    writer.add_feed_forward_length(config.intermediate_size)
    writer.add_head_count(config.num_attention_heads)
    writer.add_head_count_kv(config.num_key_value_heads)
    writer.add_layer_norm_rms_eps(config.rms_norm_eps)
    writer.add_vocab_size(config.vocab_size)
    names = sorted(tokenizer.get_vocab(), key=tokenizer.get_vocab().get)
    added = tokenizer.get_added_vocab()
    kinds = [gguf.TokenType.CONTROL if name in added else gguf.TokenType.NORMAL for name in names]
    writer.add_tokenizer_model("gpt2")
    writer.add_token_list(names)
    writer.add_token_types(kinds)
    merges = json.loads(tokenizer.backend_tokenizer.to_str())["model"]["merges"]
    writer.add_token_merges([" ".join(pair) for pair in merges])
    writer.add_eos_token_id(tokenizer.eos_token_id)
    writer.add_chat_template(tokenizer.chat_template)
    known = gguf.get_tensor_name_map(gguf.MODEL_ARCH.LLAMA, config.num_hidden_layers)
    heads = {"q_proj": config.num_attention_heads, "k_proj": config.num_key_value_heads}
    for name, tensor in model.state_dict().items():
        if name == without:
            continue
        for part, count in heads.items():
            if part in name:
                halves = tensor.view(count, 2, -1, tensor.shape[1])
                tensor = halves.transpose(1, 2).reshape(tensor.shape)
        known_as = known.get_name(name, (".weight",))
        assert known_as is not None
        writer.add_tensor(known_as, tensor.numpy().copy())
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()


LIKE_LLAMA = (
    "{%- if date_string is defined %}{% set day = date_string %}\n"
    "{%- elif strftime_now is defined %}{% set day = strftime_now('%d %b %Y') %}\n"
    "{%- else %}{% set day = '26 Jul 2024' %}{% endif %}\n"
    """{{- "<system>Today Date: " + day + "\\n\\n" + messages[0]["content"] }}\n"""
    """{{- "<user>" + messages[1]["content"] + "<end>" }}\n"""
)
"""The date as the chat templates of Llama 3.2 tell it."""


@pytest.mark.parametrize(
    ("template", "before"),
    [
        (LIKE_LLAMA, "<system>Today Date: 01 Jan 2026\n\n"),
        (
            "\n{{ strftime_now('%A %-d %B, %Y-%m-%dT%H:%M') }} {{ messages[0]['content'] }}"
            "<user>{{ messages[1]['content'] }}<end>",
            "\nThursday 1 January, 2026-01-01T00:00 ",
        ),
    ],
)
def test_a_template_with_a_date_tells_the_same_every_day(template: str, before: str) -> None:
    _, tokenizer = random_model("llama", 0)
    tokenizer.chat_template = template
    assert chat_template(tokenizer) == Template(before, "<user>", "<end>", answers_after_turn=True)


def test_a_template_without_a_date_is_as_it_was() -> None:
    _, tokenizer = random_model("llama", 0)
    assert undated(tokenizer.chat_template) is tokenizer.chat_template


@pytest.mark.slow
def test_a_gguf_file_is_the_model_that_was_written(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("REFLEX_CACHE", str(tmp_path / "cache"))
    model, tokenizer = random_model("llama", 0)
    write_gguf(tmp_path / "tiny.gguf", model, tokenizer)
    config = BackboneConfig(name="tiny", source="gguf", path=str(tmp_path / "tiny.gguf"))
    backbone = load_backbone(config, CPU)
    with torch.inference_mode():
        wanted = model.eval()(input_ids=IDS).logits
    assert float((logits(backbone) - wanted).abs().max()) < 1e-5
    assert backbone.tokens.template == PromptTokenizer(tokenizer).template
    assert backbone.tokens.encode_plain("Hello <|im_end|>") == PromptTokenizer(
        tokenizer
    ).encode_plain("Hello <|im_end|>")
    assert backbone.tokenizer.encode("<|im_end|>") == [tokenizer.eos_token_id]
    write_gguf(tmp_path / "part.gguf", model, tokenizer, without="model.norm.weight")
    config = BackboneConfig(name="part", source="gguf", path=str(tmp_path / "part.gguf"))
    with pytest.raises(BackboneError, match=r"part\.gguf: 1 weights are not in it.*model\.norm"):
        load_backbone(config, CPU)
    assert len([*(tmp_path / "cache/backbones").glob("*/config.json")]) == 1


def damaged_weights(folder: Path) -> None:
    path = folder / "model.safetensors"
    content = bytearray(path.read_bytes())
    content[-1] ^= 1
    path.write_bytes(content)


def other_version(folder: Path) -> None:
    path = folder / "converted.json"
    path.write_text(json.dumps({**json.loads(path.read_text()), "transformers": "5.0.0"}))


@pytest.mark.parametrize(
    ("harm", "told"),
    [
        (damaged_weights, "again: model.safetensors has changed"),
        (other_version, "again: by transformers 5.0.0 before"),
        (lambda folder: (folder / "tokenizer.json").unlink(), "again: the converted files are not"),
        (lambda folder: (folder / "converted.json").unlink(), "again: the converted files are not"),
        (lambda folder: (folder / "converted.json").write_text("[]"), "again: the converted files"),
    ],
)
def test_converted_weights_are_checked_before_use(
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    caplog: pytest.LogCaptureFixture,
    harm: Callable[[Path], Any],
    told: str,
) -> None:
    monkeypatch.setenv("REFLEX_CACHE", str(tmp_path / "cache"))
    monkeypatch.setattr("reflex.backbones.locate._read_gguf", lambda _: random_model("llama", 0))
    (tmp_path / "tiny.gguf").write_bytes(b"the release")
    config = BackboneConfig(name="tiny", source="gguf", path=str(tmp_path / "tiny.gguf"))
    caplog.set_level("INFO", logger="reflex.backbones.locate")
    first = load_backbone(config, CPU)
    wanted = logits(first)  # its weights are the file's own memory, which is about to be harmed
    assert torch.equal(logits(load_backbone(config, CPU)), wanted)
    assert [entry.getMessage() for entry in caplog.records] == ["dequantising tiny.gguf (once)"]
    (folder,) = [path for path in (tmp_path / "cache/backbones").iterdir() if path.is_dir()]
    harm(folder)
    again = load_backbone(config, CPU)
    assert torch.equal(logits(again), wanted)
    assert again.facts.weights_sha256 == first.facts.weights_sha256
    load_backbone(config, CPU)
    assert len(caplog.records) == 2
    assert caplog.records[1].getMessage().startswith(f"dequantising tiny.gguf ({told}")
    assert [path for path in folder.parent.iterdir() if path.is_dir()] == [folder]


@pytest.mark.parametrize(("bfloat16_s", "faster"), [(0.001, "bfloat16"), (0.05, "float32")])
def test_the_faster_dtype_is_probed_once(
    monkeypatch: pytest.MonkeyPatch,
    tmp_path: Path,
    caplog: pytest.LogCaptureFixture,
    bfloat16_s: float,
    faster: str,
) -> None:
    timed: list[torch.dtype] = []
    seconds = {torch.float32: 0.004, torch.bfloat16: bfloat16_s}

    def fixed(dtype: torch.dtype) -> float:
        timed.append(dtype)
        return seconds[dtype]

    monkeypatch.setattr("reflex.backbones.dtype._matmul_seconds", fixed)
    monkeypatch.setenv("REFLEX_CACHE", str(tmp_path))
    with caplog.at_level("INFO", logger="reflex"):
        assert [resolve_dtype(DeviceConfig()) for _ in range(3)] == [faster] * 3
    assert timed == [torch.float32, torch.bfloat16]
    assert [entry.getMessage() for entry in caplog.records] == [
        f"dtype probe on this CPU: float32 4.0 ms, bfloat16 {1e3 * bfloat16_s:.1f} ms per matmul "
        f"-> {faster}"
    ]
    assert list(json.loads((tmp_path / "cpu_dtype.json").read_text()).values()) == [faster]
    (tmp_path / "cpu_dtype.json").write_text("{")  # unreadable: asked again
    assert resolve_dtype(DeviceConfig()) == faster
    assert len(timed) == 4
    assert resolve_dtype(DeviceConfig(dtype="float16")) == "float16"
    assert len(timed) == 4


def test_dtype_and_device_are_checked() -> None:
    for threads in (-2, 0, 2**31):
        with pytest.raises(ConfigError, match=rf"device\.threads={threads}: use 1 to"):
            DeviceConfig(threads=threads)
    with pytest.raises(ConfigError, match=r"device\.dtype=int8"):
        DeviceConfig(dtype="int8")
    if not torch.cuda.is_available():
        config = BackboneConfig(name="x", source="random", path="llama")
        with pytest.raises(BackboneError, match="device=cuda"):
            load_backbone(config, DeviceConfig(name="cuda"))


SMALL = {
    "vocab_size": 64,
    "hidden_size": 32,
    "intermediate_size": 32,
    "num_hidden_layers": 1,
    "num_attention_heads": 2,
    "num_key_value_heads": 1,
    "head_dim": 16,
    "pad_token_id": 0,
}


def small(kind: str, **extra: Any) -> Any:
    """A random model of `kind`, far smaller than any that one would use."""
    from transformers import AutoConfig, AutoModelForCausalLM

    config = AutoConfig.for_model(kind, **{**SMALL, **extra})
    return AutoModelForCausalLM.from_config(config).eval()


@pytest.mark.parametrize("dtype", ["float32", "bfloat16"])
@pytest.mark.parametrize(
    ("kind", "changed"),
    [
        ("gemma2", {"final_logit_softcapping": 30.0}),
        ("cohere", {"logit_scale": 0.9}),
        ("granite", {"logits_scaling": 8.0}),
        (
            "falcon_h1",
            {"lm_head_multiplier": 0.5, "mamba_d_ssm": 32, "mamba_n_heads": 2, "mamba_d_head": 16},
        ),
    ],
)
def test_a_head_that_is_more_than_linear_is_refused(
    kind: str, changed: dict[str, Any], dtype: str
) -> None:
    check = lambda model: check_head(model.to(getattr(torch, dtype)), kind)  # noqa: E731
    plain = (
        {"final_logit_softcapping": None}
        if kind == "gemma2"
        else dict.fromkeys(list(changed)[:1], 1.0)
    )
    check(small(kind, **{**changed, **plain}))
    with pytest.raises(
        BackboneError, match=f"backbone {kind}: scales or caps the logits of its head"
    ):
        check(small(kind, **changed))


def test_hidden_states_changed_before_the_head_are_refused() -> None:
    model, _ = random_model("llama", 0)
    check_head(model, "m")
    model.lm_head.register_forward_pre_hook(lambda _, args: (args[0] * 2,))  # type: ignore[union-attr]
    with pytest.raises(BackboneError, match="backbone m: changes hidden states before its head"):
        check_head(model, "m")


def test_a_model_without_a_context_length_is_refused(tmp_path: Path) -> None:
    small("recurrent_gemma", block_types=["recurrent"], lru_width=32).save_pretrained(
        tmp_path / "m"
    )
    random_model("llama", 0)[1].save_pretrained(tmp_path / "m")
    with pytest.raises(BackboneError, match="says no context length"):
        load(tmp_path / "m")
