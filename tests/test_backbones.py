"""Backbones from a folder, with an adapter, and everything that cannot be loaded."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
import torch

from reflex.backbones.backbone import Backbone, load_backbone
from reflex.backbones.config import BackboneConfig, DeviceConfig
from reflex.backbones.dtype import resolve_dtype
from reflex.backbones.locate import locate
from reflex.backbones.random_model import random_model
from reflex.backbones.tokens import PromptTokenizer
from reflex.errors import BackboneError, ConfigError

CPU = DeviceConfig(dtype="float32")
IDS = torch.tensor([[72, 101, 108, 108, 111, 32, 65]])


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


def test_a_vision_checkpoint_of_the_hybrid_is_read_as_text(tmp_path: Path) -> None:
    """The published Qwen3.5 checkpoints are image-text models; the text part must load by itself."""
    from transformers import Qwen3_5Config, Qwen3_5ForConditionalGeneration

    text, tokenizer = random_model("qwen3_5", 0)
    vision = {
        "depth": 1,
        "hidden_size": 16,
        "intermediate_size": 16,
        "num_heads": 2,
        "out_hidden_size": 64,
        "patch_size": 4,
        "num_position_embeddings": 16,
    }
    config = Qwen3_5Config(text_config=text.config.to_dict(), vision_config=vision)  # type: ignore[union-attr, operator]
    both = Qwen3_5ForConditionalGeneration(config).eval()
    both.save_pretrained(tmp_path / "vl")
    tokenizer.save_pretrained(tmp_path / "vl")
    backbone = load(tmp_path / "vl")
    with torch.inference_mode():
        assert torch.allclose(logits(backbone), both(input_ids=IDS).logits, atol=1e-5)
    assert not backbone.facts.packable
    assert backbone.facts.context_length == 4096


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
    from safetensors.torch import load_file, save_file

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
    with pytest.raises(ConfigError, match=r"device\.dtype=int8"):
        DeviceConfig(dtype="int8")
    if not torch.cuda.is_available():
        config = BackboneConfig(name="x", source="random", path="llama")
        with pytest.raises(BackboneError, match="device=cuda"):
            load_backbone(config, DeviceConfig(name="cuda"))


def test_a_head_that_is_not_linear_is_refused(tmp_path: Path) -> None:
    folder = saved(tmp_path / "m")
    config = json.loads((folder / "config.json").read_text())
    config["final_logit_softcapping"] = 30.0
    (folder / "config.json").write_text(json.dumps(config))
    with pytest.raises(BackboneError, match="final_logit_softcapping"):
        load(folder)
