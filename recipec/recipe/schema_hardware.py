"""The section [hardware]: the nodes and GPUs to plan for."""

from __future__ import annotations

from typing import Annotated

from pydantic import Field

from recipec.recipe.fields import AUTO, Line, Section, key, one_of

Link = one_of(
    {
        AUTO: "the usual link of this GPU",
        "pcie": "PCI Express only",
        "nvlink": "NVLink between the GPUs",
        "infinity-fabric": "AMD Infinity Fabric",
    }
)


class Hardware(Section):
    """The hardware to plan for. Either `gpu` or `vram_gib` is required."""

    gpu: Line | None = key(
        "GPU",
        "A name of `recipec list gpus`, or `cpu`. Use either this or `vram_gib`.",
        "rtx-4090",
        "h100",
        "cpu",
        absent="none; `vram_gib` is then required",
    )
    vram_gib: Annotated[float, Field(ge=1, le=1024)] | None = key(
        "GPU memory",
        "Memory of one GPU in GiB, for a GPU outside the catalog. Use either this or `gpu`.",
        24,
        absent="none; `gpu` is then required",
    )
    gpus_per_node: Annotated[int, Field(ge=1, le=8)] | None = key(
        "GPUs per node", "Number of GPUs of each node (machine) that the run may use.", 4, default=1
    )
    nodes: Annotated[int, Field(ge=1, le=1024)] | None = key(
        "Nodes", "Number of nodes (machines) of this kind for the run.", 4, default=1
    )
    gpu_link: Link | None = key("GPU link", "Link between the GPUs of a node, such as NVLink.", "nvlink", default=AUTO)
    network_gbps: Annotated[float, Field(ge=1, le=100_000)] | None = key(
        "Network",
        "Bandwidth between nodes in Gbit/s: what one node sends to the others over all its network adapters.",
        3200,
        absent="the usual value for machines with this GPU; W0523 warns if it decides the plan",
    )
    host_memory_gib: Annotated[float, Field(ge=1, le=65_536)] | None = key(
        "Host memory",
        "Host memory (RAM) of each node in GiB. Loading the model and CPU offload must fit into it.",
        256,
        absent='the value of `measured`, or the usual value for machines with this GPU; 16 GiB with `gpu = "cpu"`',
    )
    cpu_cores: Annotated[int, Field(ge=1, le=4096)] | None = key(
        "CPU cores",
        "Physical CPU cores of each node, used for data loading and for CPU offload of the optimizer.",
        64,
        absent="the value of `measured`; otherwise at most 4 data loading processes per GPU, and offload is "
        "timed with the usual "
        "number of cores",
    )
    measured: Line | None = key(
        "Measured",
        "TOML file that `recipec probe` wrote on the training machine. Its rates, memory and links replace assumed "
        "values.",
        "./my-node.toml",
        absent="rates are assumed as shares of the catalog's peak rates",
    )
