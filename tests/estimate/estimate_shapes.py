"""The models and layouts that the estimates' tests share."""

from __future__ import annotations

from recipec.catalog.architecture import Architecture
from recipec.layout import Layout, Mesh

GIB = 1 << 30


def dense(hidden, layers, heads, kv_heads, head_dim, inner, vocabulary, tied=False, bias=False) -> Architecture:
    """A Llama-shaped model."""
    return Architecture(
        model_type="llama",
        hidden_size=hidden,
        num_layers=layers,
        num_heads=heads,
        num_kv_heads=kv_heads,
        head_dim=head_dim,
        intermediate_size=inner,
        vocab_size=vocabulary,
        tie_embeddings=tied,
        max_position=131072,
        decoder_layer="LlamaDecoderLayer",
        attention_bias=bias,
    )


LLAMA_8B = dense(4096, 32, 32, 8, 128, 14336, 128256)
LLAMA_7B = dense(4096, 32, 32, 32, 128, 11008, 32000)
MISTRAL_7B = dense(4096, 32, 32, 8, 128, 14336, 32000)
QWEN_HALF_B = dense(896, 24, 14, 2, 64, 4864, 151936, tied=True, bias=True)
QWEN_7B = dense(3584, 28, 28, 4, 128, 18944, 152064, bias=True)


def layout(adaptation="lora", batch=1, ranks=1, strategy="single", **changes) -> Layout:
    """A layout with everything but the arguments at its plain value; ranks shard where the strategy does."""
    mesh = Mesh(replicate=ranks) if strategy in ("single", "ddp") else Mesh(shard=ranks)
    plain = {
        "precision": "bf16",
        "offload": "none",
        "accumulation": 1,
        "checkpointing": True,
        "attention": "sdpa",
        "packing": False,
        "optimizer": "adamw",
    }
    return Layout(adaptation=adaptation, strategy=strategy, mesh=mesh, micro_batch=batch, **{**plain, **changes})
